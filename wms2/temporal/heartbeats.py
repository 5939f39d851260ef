"""Signs of life for activities, so that a worker that died is noticed within seconds.

An activity that hangs is another matter: its own time limit ends it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

BEATS = 4
"""How many heartbeats fit into the time after which an activity is given up for dead."""


class Heartbeats(Interceptor):
    """Makes a worker heartbeat for its activities. Not for followers: theirs say that they still look."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Beating(next)


class _Beating(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        timeout = activity.info().heartbeat_timeout
        if timeout is None:
            return await self.next.execute_activity(input)
        beating = asyncio.create_task(_beat(timeout.total_seconds() / BEATS))
        try:
            return await self.next.execute_activity(input)
        finally:
            beating.cancel()


async def _beat(every_sec: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(every_sec)


class Pulse:
    """The heartbeats of an activity that could give one every second: hundreds of such would keep a core busy."""

    def __init__(self, every_sec: float) -> None:
        self._every_sec = every_sec
        self._due = 0.0

    def beat(self) -> None:
        """Show a sign of life, if it is time for one."""
        if (now := time.monotonic()) >= self._due:
            self._due = now + self._every_sec
            activity.heartbeat()
