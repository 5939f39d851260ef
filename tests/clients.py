"""The clients that the experiment itself uses, from PyPI, each in a virtual environment of its own.

They are made once in the cache, beside the private HTCondor, from a lock that names every package with its hashes.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from wms2.config import configured_settings

LOCKS = Path(__file__).parent / "resources" / "clients"
STAMP = ".complete"
LIMIT_SEC = 900


class NotInstalled(Exception):
    """What a lock names is not to be had on this machine."""


def client_python(client: str) -> Path:
    """The Python that has this client."""
    return locked_python(client, LOCKS / f"{client}.lock")


def locked_python(name: str, lock: Path) -> Path:
    """The Python of an environment with what the lock names. Concurrent callers wait for the one that makes it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    folder = configured_settings().cache / "clients" / f"{name}-{version}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.making").open("w") as making:
        fcntl.flock(making, fcntl.LOCK_EX)
        if not (folder / STAMP).exists():
            _make(folder, lock)
    return folder / "bin" / "python"


def _make(folder: Path, lock: Path) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        run_client([sys.executable, "-m", "venv", "--clear", str(folder)], {})
        run_client([*pip, "--require-hashes", "--requirement", str(lock)], {})
    except (AssertionError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{lock.name} cannot be installed here: {error}") from None
    (folder / STAMP).touch()


def run_client(command: list[str], environment: dict[str, str]) -> None:
    """Run it with this environment besides the usual one; what it wrote is shown if it fails."""
    told = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_SEC,
        check=False,
    )
    assert told.returncode == 0, f"{' '.join(command)}\n{told.stdout}\n{told.stderr}"
