"""Temporal's servers for single tests, on a machine that may be busy."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

PROGRAMS = Path(sys.executable).parent
TRIES = 20


async def skipping_server() -> WorkflowEnvironment:
    """The server that skips time."""
    return await _started(
        lambda: WorkflowEnvironment.start_time_skipping(
            data_converter=pydantic_data_converter,
            test_server_existing_path=str(PROGRAMS / "temporal-test-server"),
        )
    )


async def real_server(*options: str) -> WorkflowEnvironment:
    """The server as it is in production, with more options for its command line."""
    return await _started(
        lambda: WorkflowEnvironment.start_local(
            data_converter=pydantic_data_converter,
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
