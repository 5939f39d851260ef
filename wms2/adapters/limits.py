"""How much of a service WMS2 takes at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

BURST_SEC = 1.0
"""A service that was left alone for a while may be asked at once what it could have been asked in this time."""


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
        turn = max(self._next, now - self._burst)
        self._next = turn + self._interval
        if turn > now:
            await asyncio.sleep(turn - now)
