"""Temporal's servers for single tests, on a machine that may be busy."""

import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from temporalio.api.testservice.v1 import SleepRequest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from tests.patience import PATIENCE_SEC
from tests.workflows.lag import LAG_SEC, Lag
from tests.workflows.patience import Patience

PROGRAMS = Path(sys.executable).parent
TRIES = 20
INTERCEPTORS = [Lag()] if LAG_SEC else []


async def skipping_server() -> WorkflowEnvironment:
    """The server that skips time."""
    started = await _started(
        lambda: WorkflowEnvironment.start_time_skipping(
            data_converter=pydantic_data_converter,
            interceptors=[Patience(), *INTERCEPTORS],
            test_server_existing_path=str(PROGRAMS / "temporal-test-server"),
        )
    )
    started.sleep = partial(_skip, started)  # type: ignore[method-assign]
    return started


async def _skip(env: WorkflowEnvironment, duration: timedelta | float) -> None:
    """As the SDK does it, which gives up after half a minute: what happens in that time may take longer to do."""
    asked = SleepRequest()
    asked.duration.FromTimedelta(duration if isinstance(duration, timedelta) else timedelta(seconds=duration))
    await env.client.test_service.unlock_time_skipping_with_sleep(
        asked, timeout=timedelta(seconds=PATIENCE_SEC)
    )


async def real_server(*options: str) -> WorkflowEnvironment:
    """The server as it is in production, with more options for its command line."""
    return await _started(
        lambda: WorkflowEnvironment.start_local(
            data_converter=pydantic_data_converter,
            interceptors=INTERCEPTORS,
            dev_server_existing_path=str(PROGRAMS / "temporal"),
            dev_server_extra_args=list(options),
        )
    )


async def _started(start: Callable[[], Awaitable[WorkflowEnvironment]]) -> WorkflowEnvironment:
    """The SDK gives a server five seconds to come up, and nobody can give it more: it is tried again."""
    for _ in range(TRIES - 1):
        try:
            return await start()
        except RuntimeError as error:
            if "did not start within" not in str(error):
                raise
    return await start()
