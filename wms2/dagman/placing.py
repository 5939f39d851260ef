"""Files and folders that appear under their name whole or not at all, whoever dies while writing them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def partial_name(final: Path) -> Iterator[Path]:
    """A name beside the final one, to write under; then the caller puts it in place.

    One writer at a time, others wait: the kernel frees the lock when its holder dies. So what is there at the
    beginning was left by a dead writer and is removed, and so is what is still there at the end.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f".{final.name}.partial")
    with _lock(final.with_name(f".{final.name}.writing")):
        _remove(partial)
        try:
            yield partial
        finally:
            _remove(partial)


def flush_file_system(folder: Path) -> None:
    """All that was written there is on disk when this returns: one call, where fsync needs one for each file."""
    libc = ctypes.CDLL(None, use_errno=True)
    with _opened(folder) as handle:
        if libc.syncfs(handle) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))


def flush_names(folder: Path) -> None:
    """The names in a folder are on disk when this returns: what was put in place stays there."""
    with _opened(folder) as handle:
        os.fsync(handle)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """The last holder removes the file, so a lock counts only on the file that still has the name."""
    handle = _locked(path)
    while not _has_name(handle, path):
        os.close(handle)
        handle = _locked(path)
    try:
        yield
    finally:
        path.unlink()
        os.close(handle)


def _locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _has_name(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)
