"""Moving files between the job's folder and the site's storage, checked by size and adler32.

One class per way of reaching a storage: a folder, XRootD's tools, gfal's tools. Programs get lists of arguments,
never a shell, and every physical name begins with a scheme or '/', so none can be taken for an option.
"""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import subprocess
import time
import zlib
from pathlib import Path
from urllib.parse import urlsplit

from sandbox import process

CHUNK = 1 << 20
COPY_TIMEOUT_SEC = 2400
SMALL_TIMEOUT_SEC = 600
ATTEMPTS = 3
PAUSE_SEC = 60.0
# A network file system that hiccups; what is missing, full or forbidden stays so.
_PASSING_ERRORS = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN)
_SIZE = re.compile(r"Size:\s*(\d+)")
_GONE = re.compile(r"no such file|\[3011\]|MISSING", re.IGNORECASE)


class TransferError(Exception):
    """A file was not moved, or not as it was."""


class TransferTimeout(TransferError):
    """The storage did not answer in time."""


class Differs(TransferError):
    """What arrived is not what was sent."""


def adler32(path: Path) -> str:
    value = 1
    with path.open("rb") as stream:
        while True:
            chunk = stream.read(CHUNK)
            if not chunk:
                return f"{value:08x}"
            value = zlib.adler32(chunk, value)


class Transfer:
    """What every way of reaching a storage can do; all of it raises TransferError."""

    def put(self, source: Path, pfn: str, checksum: str) -> None:
        """Copy a local file to the storage; afterwards it is whole there, or not there at all."""
        raise NotImplementedError

    def local_path(self, pfn: str) -> Path | None:
        """The file as a path that can be opened here, if there is such a path."""
        raise NotImplementedError

    def fetch(self, pfn: str, target: Path) -> None:
        """Copy a file of the storage into the job's folder."""
        raise NotImplementedError

    def remove(self, pfn: str) -> None:
        """Remove a file; one that is gone already counts as removed."""
        raise NotImplementedError

    def remove_empty_folder(self, pfn: str) -> None:
        """The folder that a removed file was in, if it is empty and the storage has folders at all."""


class Folder(Transfer):
    """A file system that the worker node mounts."""

    def put(self, source: Path, pfn: str, checksum: str) -> None:
        target = _as_path(pfn)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._copy_out(source, target, checksum)
            except Differs:
                if attempt == ATTEMPTS:
                    raise
            except OSError as error:
                if attempt == ATTEMPTS or error.errno not in _PASSING_ERRORS:
                    raise TransferError(f"{target} cannot be written: {error.strerror or error}") from None

    def _copy_out(self, source: Path, target: Path, checksum: str) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _partial(target)
        try:
            shutil.copyfile(source, temporary)
            if temporary.stat().st_size != source.stat().st_size or adler32(temporary) != checksum:
                raise Differs(f"{target} is not what was copied to it")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def local_path(self, pfn: str) -> Path | None:
        return _as_path(pfn)

    def fetch(self, pfn: str, target: Path) -> None:
        try:
            shutil.copyfile(_as_path(pfn), target)
        except OSError as error:
            raise TransferError(f"{pfn} cannot be read: {error.strerror or error}") from None

    def remove(self, pfn: str) -> None:
        """With what a job that was killed in the middle of its copy has left."""
        for path in (_partial(_as_path(pfn)), _as_path(pfn)):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise TransferError(f"{path} cannot be removed: {error.strerror or error}") from None

    def remove_empty_folder(self, pfn: str) -> None:
        with contextlib.suppress(OSError):
            _as_path(pfn).parent.rmdir()


class _Tools(Transfer):
    """A storage behind command-line tools; it gets a second and a third chance."""

    def __init__(self, pause_sec: float = PAUSE_SEC) -> None:
        self._pause_sec = pause_sec

    def put(self, source: Path, pfn: str, checksum: str) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._copy_out(source, pfn, checksum)
                self._check_size(pfn, source.stat().st_size)
                return
            except TransferError:
                with contextlib.suppress(TransferError):
                    self.remove(pfn)
                if attempt == ATTEMPTS:
                    raise
                time.sleep(self._pause_sec * attempt)

    def local_path(self, pfn: str) -> Path | None:  # noqa: ARG002
        return None

    def remove(self, pfn: str) -> None:
        code, output = _call(self._remove_command(pfn), SMALL_TIMEOUT_SEC)
        if code and not _GONE.search(output):
            raise TransferError(f"{pfn} cannot be removed: {_last_line(output)}")

    def _check_size(self, pfn: str, size: int) -> None:
        output = _must(self._stat_command(pfn), SMALL_TIMEOUT_SEC)
        found = _SIZE.search(output)
        if not found or int(found.group(1)) != size:
            raise Differs(
                f"{pfn} has {found.group(1) if found else 'no'} bytes at the storage instead of {size}"
            )

    def _copy_out(self, source: Path, pfn: str, checksum: str) -> None:
        raise NotImplementedError

    def _stat_command(self, pfn: str) -> list[str]:
        raise NotImplementedError

    def _remove_command(self, pfn: str) -> list[str]:
        raise NotImplementedError


class Xrootd(_Tools):
    def _copy_out(self, source: Path, pfn: str, checksum: str) -> None:
        command = [
            "xrdcp",
            "--force",
            "--nopbar",
            "--cksum",
            f"adler32:{checksum}",
            str(source.absolute()),
            pfn,
        ]
        _must(command, COPY_TIMEOUT_SEC)

    def fetch(self, pfn: str, target: Path) -> None:
        _must(["xrdcp", "--force", "--nopbar", pfn, str(target.absolute())], COPY_TIMEOUT_SEC)

    def _stat_command(self, pfn: str) -> list[str]:
        return ["xrdfs", *_host_and_path(pfn, "stat")]

    def _remove_command(self, pfn: str) -> list[str]:
        return ["xrdfs", *_host_and_path(pfn, "rm")]


class Gfal(_Tools):
    _LIMITS = ("-t", str(COPY_TIMEOUT_SEC), "-T", str(COPY_TIMEOUT_SEC))

    def _copy_out(self, source: Path, pfn: str, checksum: str) -> None:
        command = ["gfal-copy", "-f", "-p", *self._LIMITS, "-K", f"ADLER32:{checksum}"]
        _must([*command, f"file://{source.absolute()}", pfn], COPY_TIMEOUT_SEC + 60)

    def fetch(self, pfn: str, target: Path) -> None:
        _must(["gfal-copy", "-f", *self._LIMITS, pfn, f"file://{target.absolute()}"], COPY_TIMEOUT_SEC + 60)

    def _stat_command(self, pfn: str) -> list[str]:
        return ["gfal-stat", "-t", str(SMALL_TIMEOUT_SEC), pfn]

    def _remove_command(self, pfn: str) -> list[str]:
        return ["gfal-rm", "-t", str(SMALL_TIMEOUT_SEC), pfn]


def transfer_for(pfn: str) -> Transfer | None:
    """The way to reach a physical name; None for a scheme that no tool here knows."""
    if pfn.startswith(("/", "file:")):
        return Folder()
    scheme = urlsplit(pfn).scheme
    if scheme in ("root", "xroot"):
        return Xrootd()
    return Gfal() if scheme in ("davs", "srm", "gsiftp", "https") else None


def _as_path(pfn: str) -> Path:
    return Path("/" + re.sub(r"^file:(//localhost)?", "", pfn).lstrip("/"))


def _partial(target: Path) -> Path:
    """The name of a copy that is not whole yet; LFNs carry the attempt, so no two jobs share one."""
    return target.with_name(f".{target.name}.part")


def _host_and_path(pfn: str, verb: str) -> list[str]:
    parts = urlsplit(pfn)
    return [parts.netloc, verb, "/" + parts.path.lstrip("/")]


def _must(command: list[str], timeout_sec: float) -> str:
    code, output = _call(command, timeout_sec)
    if code:
        raise TransferError(f"{command[0]} ended with {code} for {command[-1]}: {_last_line(output)}")
    return output


def _call(command: list[str], timeout_sec: float) -> tuple[int, str]:
    try:
        return process.call(command, timeout_sec)
    except subprocess.TimeoutExpired:
        raise TransferTimeout(
            f"{command[0]} took longer than {timeout_sec:.0f} s for {command[-1]}"
        ) from None
    except OSError as error:
        raise TransferError(f"{command[0]} cannot be started: {error.strerror or error}") from None


def _last_line(output: str) -> str:
    lines = output.splitlines()
    return lines[-1][:300] if lines else "it said nothing"
