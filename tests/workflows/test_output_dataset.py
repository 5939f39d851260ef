"""The workflow of an output dataset on a Temporal server that skips time, its activities replaced."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

with workflow.unsafe.imports_passed_through():
    from tests.conftest import PATIENCE_SEC
    from tests.workflows.servers import skipping_server
    from wms2.models.messages import OutputAnnounced, OutputOrder
    from wms2.models.output_state import OutputState
    from wms2.temporal.ids import output_id, request_id
    from wms2.temporal.queues import WORKFLOWS
    from wms2.workflows.output_dataset import OutputDatasetWorkflow

DATASET = "/MinBias/Run2024A-Test-v1/GEN-SIM"
ORDER = OutputOrder(request="simulation", dataset=DATASET)
ANNOUNCED = OutputAnnounced(dataset=DATASET, files=3, events=300)


@workflow.defn(sandboxed=False)
class Listener:
    """In place of the request: remembers what it is told."""

    def __init__(self) -> None:
        self._told: list[str] = []

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def output_announced(self, announced: OutputAnnounced) -> None:
        self._told.append(f"announced {announced.dataset} {announced.files}")

    @workflow.signal
    def output_frozen(self, dataset: str) -> None:
        self._told.append(f"frozen {dataset}")

    @workflow.query
    def told(self) -> list[str]:
        return self._told


class Service:
    """In place of DBS and the database: each call is noted, `failing` ones are refused, `gate` delays them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.finished = 0
        self.failing: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def _call(self, name: str) -> None:
        self.calls.append(name)
        try:
            while not self.gate.is_set():
                activity.heartbeat()
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            await self.gate.wait()
            self.finished += 1
            raise
        self.finished += 1
        if name in self.failing:
            raise ApplicationError(f"{name} is refused", type="DbsRefused")

    @activity.defn
    async def register_outputs(self, order: OutputOrder) -> int:
        assert order == ORDER
        await self._call("register")
        return 3

    @activity.defn
    async def announce_output(self, order: OutputOrder) -> OutputAnnounced:
        await self._call("announce")
        return ANNOUNCED


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def environment(service: Service) -> AsyncIterator[WorkflowEnvironment]:
    async with (
        await skipping_server() as started,
        Worker(
            started.client,
            task_queue=WORKFLOWS,
            workflows=[OutputDatasetWorkflow, Listener],
            activities=[service.register_outputs, service.announce_output],
        ),
    ):
        yield started


@pytest.fixture
def client(environment: WorkflowEnvironment) -> Client:
    return environment.client


async def start(
    client: Client, order: OutputOrder | OutputState = ORDER, listener: bool = True
) -> WorkflowHandle[Any, Any]:
    if listener:
        await client.start_workflow(Listener.run, id=request_id("simulation"), task_queue=WORKFLOWS)
    return await client.start_workflow(
        "OutputDatasetWorkflow",
        order,
        id=output_id("simulation", DATASET),
        task_queue=WORKFLOWS,
        result_type=OutputAnnounced | None,  # type: ignore[arg-type]
    )


async def told(client: Client) -> list[str]:
    return await client.get_workflow_handle(request_id("simulation")).query(Listener.told)


async def details(handle: WorkflowHandle[Any, Any]) -> str:
    metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(metadata.current_details)


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SEC):
        while not await reached():
            await asyncio.sleep(0.02)


async def until_finished(service: Service, calls: int, handle: WorkflowHandle[Any, Any]) -> None:
    """So many calls are done, and the workflow has taken note of the last one."""

    async def reached() -> bool:
        state = await handle.query(OutputDatasetWorkflow.state)
        return service.finished >= calls and (state.registered > 0 or bool(state.problem))

    await until(reached)


async def test_files_are_registered_at_the_start_and_with_each_news(client: Client, service: Service) -> None:
    handle = await start(client)
    await until_finished(service, 1, handle)
    await handle.signal("news")
    await until_finished(service, 2, handle)
    await until(lambda: _registered(handle, 6))
    assert service.calls == ["register"] * 2
    assert "6 files registered" in await details(handle)


async def _registered(handle: WorkflowHandle[Any, Any], files: int) -> bool:
    return (await handle.query(OutputDatasetWorkflow.state)).registered == files


async def test_news_that_come_together_are_looked_at_once(client: Client, service: Service) -> None:
    service.gate.clear()
    handle = await start(client)
    await until(lambda: _is(service.calls == ["register"]))
    for _ in range(20):
        await handle.signal("news")
    service.gate.set()
    await until(lambda: _registered(handle, 6))
    assert service.calls == ["register"] * 2


async def _is(condition: bool) -> bool:
    return condition


async def test_when_no_more_comes_it_looks_once_more_and_announces(client: Client, service: Service) -> None:
    handle = await start(client)
    await until_finished(service, 1, handle)
    await handle.signal("finish")
    assert await handle.result() == ANNOUNCED
    assert service.calls == ["register", "register", "announce"]
    assert await told(client) == [f"announced {DATASET} 3"]
    history = await handle.fetch_history()
    replayer = Replayer(workflows=[OutputDatasetWorkflow], data_converter=pydantic_data_converter)
    await replayer.replay_workflow(history)


async def test_it_finishes_although_the_request_is_gone(client: Client, service: Service) -> None:
    handle = await start(client, listener=False)
    await handle.signal("finish")
    assert await handle.result() == ANNOUNCED


@pytest.mark.parametrize("call", ["register", "announce"])
async def test_a_failure_is_shown_and_tried_again_within_the_hour(
    environment: WorkflowEnvironment, service: Service, call: str
) -> None:
    service.failing.add(call)
    handle = await start(environment.client)
    await handle.signal("finish")
    await until(lambda: _problem(handle))
    assert (
        f"**Problem**, tried again within an hour or with the next news: {call} is refused"
        in await details(handle)
    )
    before = service.calls.count(call)
    await environment.sleep(3 * 3600 + 60)
    await until(lambda: _is(service.calls.count(call) >= before + 3))
    service.failing.clear()
    assert await handle.result() == ANNOUNCED
    assert await told(environment.client) == [f"announced {DATASET} 3"]


async def _problem(handle: WorkflowHandle[Any, Any]) -> bool:
    return bool((await handle.query(OutputDatasetWorkflow.state)).problem)


async def test_a_failure_is_tried_again_at_once_with_the_next_news(client: Client, service: Service) -> None:
    service.failing.add("register")
    handle = await start(client)
    await until(lambda: _problem(handle))
    service.failing.clear()
    await handle.signal("news")
    await until(lambda: _registered(handle, 3))
    assert "Problem" not in await details(handle)


async def test_frozen_with_nothing_under_way_it_says_so_and_ends(client: Client, service: Service) -> None:
    handle = await start(client)
    await until_finished(service, 1, handle)
    await handle.signal("freeze")
    assert await handle.result() is None
    assert service.calls == ["register"]
    assert await told(client) == [f"frozen {DATASET}"]


async def test_frozen_it_waits_for_the_call_under_way_and_starts_no_other(
    client: Client, service: Service
) -> None:
    service.gate.clear()
    handle = await start(client)
    await until(lambda: _is(service.calls == ["register"]))
    await handle.signal("finish")
    await handle.signal("freeze")
    await until(lambda: _frozen(handle))
    assert (service.finished, await told(client)) == (0, [])
    service.gate.set()
    assert await handle.result() is None
    assert (service.calls, service.finished) == (["register"], 1)
    assert await told(client) == [f"frozen {DATASET}"]


async def _frozen(handle: WorkflowHandle[Any, Any]) -> bool:
    return (await handle.query(OutputDatasetWorkflow.state)).frozen


async def test_what_it_knows_survives_a_new_start_of_its_history(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_first_run(info: workflow.Info) -> bool:
        return info.continued_run_id is None

    monkeypatch.setattr(workflow.Info, "is_continue_as_new_suggested", in_first_run)
    handle = await start(client, OutputState(**ORDER.model_dump(), registered=5, finishing=True))
    assert await handle.result() == ANNOUNCED
    assert service.calls == ["register", "announce"]
    runs = client.get_workflow_handle(handle.id)
    assert (await runs.query(OutputDatasetWorkflow.state)).registered == 8
    assert (await runs.describe()).run_id != handle.first_execution_run_id
