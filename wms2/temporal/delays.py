"""Services that say when they want to be asked again are asked then, whatever the retry preset says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from wms2.errors import Unavailable


class Delays(Interceptor):
    """Passes on how long a service that is unavailable wants to be left alone."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Delaying(next)


class _Delaying(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await self.next.execute_activity(input)
        except Unavailable as error:
            if error.retry_after is None:
                raise
            raise delayed(error, error.retry_after) from None


def delayed(error: Unavailable, retry_after: float) -> ApplicationError:
    return ApplicationError(
        str(error), type=type(error).__name__, next_retry_delay=timedelta(seconds=retry_after)
    )
