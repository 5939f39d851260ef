"""One planner and one submission at a time for a round, also across crashes."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from wms2.errors import Unavailable

LOCK_FILE = "submit.lock"
LOOK_AGAIN_SEC = 0.1


class LockBusy(Unavailable):
    """Another process is at this round; try again later."""


@asynccontextmanager
async def submission_lock(folder: Path, patience_sec: float = 60.0) -> AsyncIterator[int]:
    """Hold the round's lock; yields its file descriptor.

    Hand the descriptor to `condor_submit_dag`, so that the lock lives as long as that does: a killed worker may leave
    a submission under way.
    """
    async with _locked(folder / LOCK_FILE, patience_sec, f"another process is submitting {folder}") as handle:
        yield handle


@asynccontextmanager
async def planning_lock(folder: Path, patience_sec: float = 60.0) -> AsyncIterator[None]:
    """Be the only one that plans the round of this folder, which need not be there yet."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_name(f".{folder.name}.lock")
    async with _locked(path, patience_sec, f"another process is planning {folder}"):
        yield


@asynccontextmanager
async def _locked(path: Path, patience_sec: float, busy: str) -> AsyncIterator[int]:
    """The kernel frees it when the last holder dies."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            await asyncio.wait_for(_acquire(handle), patience_sec)
        except TimeoutError:
            raise LockBusy(busy) from None
        yield handle
    finally:
        os.close(handle)


async def _acquire(handle: int) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            await asyncio.sleep(LOOK_AGAIN_SEC)
