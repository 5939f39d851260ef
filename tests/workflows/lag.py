"""A world in which all takes a while: `WORLD_LAG_SEC=0.4 pytest tests/workflows` finds tests that look too early."""

import asyncio
import os
import random
from typing import Any

from temporalio.client import Interceptor as ClientInterceptor
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

LAG_SEC = float(os.environ.get("WORLD_LAG_SEC", "0"))


class Lag(ClientInterceptor, Interceptor):
    """What an activity did is seen before the workflow hears of it, and what it will do is asked for before it begins.

    A test that takes the one for the other passes on an idle machine and fails on a busy one. Here it always fails.
    """

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Lagging(next)


class _Lagging(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        # Two that are asked for at once begin in any order.
        await asyncio.sleep(random.uniform(0, 2 * LAG_SEC))
        try:
            return await super().execute_activity(input)
        finally:
            await asyncio.sleep(LAG_SEC)
