"""How much of a service WMS2 takes at once."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

BURST_SEC = 1.0
"""A service that was left alone for a while may be asked at once what it could have been asked in this time."""
_TURN = struct.Struct("d")


class RateLimit:
    """So many calls a second, and so many at the same time.

    It holds for all who share it: a process has one adapter for each service, and the adapter has one of these.
    """

    def __init__(self, per_sec: float, at_once: int) -> None:
        self._interval = 1 / per_sec
        self._burst = max(0.0, BURST_SEC - self._interval)
        self._places = asyncio.Semaphore(at_once)
        self._next = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a call may be made; it is made inside."""
        async with self._places:
            await self._wait()
            yield

    async def _wait(self) -> None:
        now = asyncio.get_running_loop().time()
        # Taken before the wait, so that those who wait do not all go at the same moment.
        turn = self._take(now)
        if turn > now:
            await asyncio.sleep(turn - now)

    def _take(self, now: float) -> float:
        turn = max(self._next, now - self._burst)
        self._next = turn + self._interval
        return turn


class SharedRateLimit(RateLimit):
    """So many calls a second of several processes together; at the same time so many of each.

    They share a file descriptor of `new_turns`, which those that are started inherit. All have the same clock.
    """

    def __init__(self, per_sec: float, at_once: int, turns: int) -> None:
        super().__init__(per_sec, at_once)
        self._turns = turns

    def _take(self, now: float) -> float:
        # Of a process, not of the descriptor: the kernel frees it when its holder dies.
        fcntl.lockf(self._turns, fcntl.LOCK_EX)
        try:
            (self._next,) = _TURN.unpack(os.pread(self._turns, _TURN.size, 0))
            turn = super()._take(now)
            os.pwrite(self._turns, _TURN.pack(self._next), 0)
        finally:
            fcntl.lockf(self._turns, fcntl.LOCK_UN)
        return turn


def new_turns() -> int:
    """A file descriptor without a name, by which processes know when the next call may be made."""
    turns = os.memfd_create("wms2-turns")
    os.pwrite(turns, _TURN.pack(0.0), 0)
    return turns
