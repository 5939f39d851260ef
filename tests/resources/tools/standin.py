"""What the stand-ins for XRootD's and gfal's tools share.

Addresses lead into the folder STANDIN_STORAGE. Every call is noted in STANDIN_LOG. STANDIN_FAIL names a program that
fails, with how often: "xrdcp" always, "xrdcp:2" the first two times; "corrupt" makes copies arrive damaged.
"""

import json
import os
import sys
import zlib
from pathlib import Path
from urllib.parse import urlsplit

CALLS = Path(os.environ["STANDIN_LOG"])


def note():
    program = Path(sys.argv[0]).name
    with CALLS.open("a") as log:
        log.write(json.dumps([program, *sys.argv[1:]]) + "\n")
    wanted, _, times = os.environ.get("STANDIN_FAIL", "").partition(":")
    if wanted == program:
        calls = sum(json.loads(line)[0] == program for line in CALLS.read_text().splitlines())
        if not times or calls <= int(times):
            fail(51, f"{program}: [FATAL] Connection error")


def fail(code, message):
    sys.stderr.write(message + "\n")
    sys.exit(code)


def path_of(address):
    parts = urlsplit(address)
    if parts.scheme in ("", "file"):
        return Path(parts.path)
    return Path(os.environ["STANDIN_STORAGE"] + "/" + parts.path.lstrip("/"))


def copy(source, target, checksum):
    data = source.read_bytes()
    if os.environ.get("STANDIN_FAIL") == "corrupt":
        data = data[:-1] + b"!"
    target.write_bytes(data)
    return checksum is None or f"{zlib.adler32(data):08x}" == checksum
