"""Servers and lives for the tests of workflows."""

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from tests.workflows.life import Life, add_search_attributes, living
from tests.workflows.servers import real_server, skipping_server


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await skipping_server() as started:
        await add_search_attributes(started)
        yield started


@pytest.fixture
async def real_env() -> AsyncIterator[WorkflowEnvironment]:
    """The server that skips time cannot continue a workflow as new once it was cancelled; the real one can."""
    async with await real_server() as started:
        await add_search_attributes(started)
        yield started


@pytest.fixture
async def life(env: WorkflowEnvironment) -> AsyncIterator[Life]:
    async with living(env) as life:
        yield life


@pytest.fixture
async def real_life(real_env: WorkflowEnvironment) -> AsyncIterator[Life]:
    async with living(real_env) as life:
        yield life
