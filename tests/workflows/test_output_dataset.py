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
    from tests.patience import PATIENCE_SEC
    from tests.workflows.servers import skipping_server
    from wms2.models.messages import Alert, OutputAnnounced, OutputOrder
    from wms2.models.output_state import OutputState
    from wms2.models.output_steps import OutputStuck, Placed, Protected, Registered
    from wms2.temporal.ids import output_id, request_id
    from wms2.temporal.queues import SERVICES, TRANSFERS, WORKFLOWS
    from wms2.workflows.output_dataset import OutputDatasetWorkflow

DATASET = "/MinBias/Run2024A-Test-v1/GEN-SIM"
ORDER = OutputOrder(request="simulation", dataset=DATASET)
TRIES_SEC = 20
"""Longer than the tries of one activity, shorter than with the first wait after them."""
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
    def output_stuck(self, stuck: OutputStuck) -> None:
        self._told.append(f"stuck {stuck.problem}")

    @workflow.signal
    def output_recovered(self, dataset: str) -> None:
        self._told.append(f"recovered {dataset}")

    @workflow.signal
    def output_frozen(self, dataset: str) -> None:
        self._told.append(f"frozen {dataset}")

    @workflow.query
    def told(self) -> list[str]:
        return self._told


class Service:
    """In place of DBS, Rucio and the database: each call is noted, `failing` ones are refused, `gate` delays them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.finished = 0
        self.failing: dict[str, str] = {}
        self.done_all_the_same: tuple[Protected, ...] = ()
        self.gate = asyncio.Event()
        self.gate.set()
        self.protected = Protected(files=3)
        self.placed = Placed(waiting=0, complete=True)
        self.alerts: list[Alert] = []

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
        if kind := self.failing.get(name):
            raise ApplicationError(f"{name} does not work", *self.done_all_the_same, type=kind)

    @activity.defn
    async def protect_outputs(self, order: OutputOrder) -> Protected:
        assert (order.request, order.dataset) == (ORDER.request, ORDER.dataset)
        await self._call("protect")
        return self.protected

    @activity.defn
    async def register_blocks(self, order: OutputOrder) -> Registered:
        await self._call("register all" if order.finishing else "register")
        return Registered(blocks=1, files=3)

    @activity.defn
    async def place_blocks(self, order: OutputOrder) -> Placed:
        await self._call("place")
        return self.placed

    @activity.defn
    async def announce_output(self, order: OutputOrder) -> OutputAnnounced:
        await self._call("announce")
        return ANNOUNCED

    @activity.defn
    async def raise_alert(self, alert: Alert) -> None:
        self.alerts.append(alert)


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
            activities=[service.raise_alert],
        ),
        Worker(
            started.client,
            task_queue=SERVICES,
            activities=[
                service.protect_outputs,
                service.register_blocks,
                service.announce_output,
            ],
        ),
        Worker(started.client, task_queue=TRANSFERS, activities=[service.place_blocks]),
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


async def _state(handle: WorkflowHandle[Any, Any]) -> OutputState:
    return await handle.query(OutputDatasetWorkflow.state)


async def until_state(handle: WorkflowHandle[Any, Any], reached: Callable[[OutputState], bool]) -> None:
    async def is_reached() -> bool:
        return reached(await _state(handle))

    await until(is_reached)


async def until_true(condition: Callable[[], bool]) -> None:
    async def is_true() -> bool:
        return condition()

    await until(is_true)


async def test_files_are_protected_at_the_start_and_with_each_news(client: Client, service: Service) -> None:
    handle = await start(client)
    await until_state(handle, lambda state: state.protected == 3)
    await handle.signal("news")
    await until_state(handle, lambda state: state.protected == 6)
    assert service.calls == ["protect"] * 2
    assert "6 files protected at their sites, 0 registered in DBS" in await details(handle)


async def test_news_that_come_together_are_looked_at_once(client: Client, service: Service) -> None:
    service.gate.clear()
    handle = await start(client)
    await until_true(lambda: service.calls == ["protect"])
    for _ in range(20):
        await handle.signal("news")
    service.gate.set()
    await until_state(handle, lambda state: state.protected == 6)
    assert service.calls == ["protect"] * 2


async def test_a_block_that_is_full_is_registered_while_others_are_open(
    client: Client, service: Service
) -> None:
    service.protected = Protected(files=3, blocks_due=True)
    handle = await start(client)
    await until_true(lambda: service.calls == ["protect", "register", "place"])
    await until_state(handle, lambda state: state.registered == 3)


async def test_an_open_block_is_closed_when_its_time_has_come(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.protected = Protected(files=3, next_due_sec=3600)
    handle = await start(environment.client)
    await until_state(handle, lambda state: state.close_at is not None)
    assert service.calls == ["protect"]
    service.protected = Protected(files=0, blocks_due=True)
    await environment.sleep(3700)
    await until_true(lambda: service.calls == ["protect", "protect", "register", "place"])


async def test_when_no_more_comes_it_closes_all_blocks_and_announces(
    client: Client, service: Service
) -> None:
    handle = await start(client)
    await until_state(handle, lambda state: state.protected == 3)
    await handle.signal("finish")
    assert await handle.result() == ANNOUNCED
    assert service.calls == ["protect", "protect", "register all", "place", "announce"]
    assert await told(client) == [f"announced {DATASET} 3"]
    history = await handle.fetch_history()
    replayer = Replayer(workflows=[OutputDatasetWorkflow], data_converter=pydantic_data_converter)
    await replayer.replay_workflow(history)


async def test_it_is_announced_when_its_blocks_are_where_they_should_be_and_rucio_is_asked_every_five_minutes(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.placed = Placed(waiting=2, trouble="the rule for T1_US_FNAL_Tape is stuck")
    handle = await start(environment.client)
    await handle.signal("finish")
    await until_state(handle, lambda state: state.waiting == 2)
    assert "2 blocks are not yet where they should be" in await details(handle)
    assert "the rule for T1_US_FNAL_Tape is stuck" in await details(handle)
    before = service.calls.count("place")
    await environment.sleep(3600)
    asked = service.calls.count("place") - before
    assert 1 <= asked <= 12
    service.placed = Placed(waiting=0, complete=True)
    assert await handle.result() == ANNOUNCED


async def test_a_transfer_that_is_in_trouble_for_long_is_told_to_people_once(
    environment: WorkflowEnvironment, service: Service
) -> None:
    stuck = Placed(waiting=1, trouble="the rule for T1_US_FNAL_Tape is stuck", patience_hours=2)
    service.placed = stuck
    handle = await start(environment.client)
    await handle.signal("finish")
    await until_state(handle, lambda state: state.trouble_since is not None)
    assert service.alerts == []
    service.placed = Placed(waiting=1, left_alone=1, patience_hours=2)
    await environment.sleep(3600)
    service.placed = stuck
    await environment.sleep(2 * 3600)
    await until_state(handle, lambda state: state.trouble_told)
    await environment.sleep(24 * 3600)
    message = f"{DATASET} does not get where it should be: the rule for T1_US_FNAL_Tape is stuck"
    assert [(alert.kind, alert.message) for alert in service.alerts] == [("stuck_transfer", message)]
    service.placed = Placed(waiting=1)
    await environment.sleep(600)
    await until_state(handle, lambda state: not state.trouble)
    service.placed = stuck
    await environment.sleep(3 * 3600)
    await until_true(lambda: len(service.alerts) == 2)
    service.placed = Placed(waiting=0, complete=True)
    assert await handle.result() == ANNOUNCED


async def test_it_finishes_although_the_request_is_gone(client: Client, service: Service) -> None:
    handle = await start(client, listener=False)
    await handle.signal("finish")
    assert await handle.result() == ANNOUNCED


@pytest.mark.parametrize("call", ["protect", "register all", "place", "announce"])
async def test_what_fails_is_tried_again_later_and_later_and_then_a_person_is_called(
    environment: WorkflowEnvironment, service: Service, call: str
) -> None:
    service.failing[call] = "Unavailable"
    handle = await start(environment.client)
    await handle.signal("finish")
    await environment.sleep(TRIES_SEC)
    await until_state(handle, lambda state: bool(state.problem))
    assert f"{call} does not work" in await details(handle)
    await environment.sleep(15 * 3600)
    await until(lambda: _was_told(environment.client, f"stuck {call} does not work"))
    assert (await _state(handle)).failures >= 7
    service.failing.clear()
    await handle.signal("retry")
    assert await handle.result() == ANNOUNCED
    assert "Problem" not in await details(handle)


async def _was_told(client: Client, words: str) -> bool:
    return words in await told(client)


async def test_it_waits_between_its_tries_whatever_the_news(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.failing["protect"] = "Unavailable"
    handle = await start(environment.client)
    await environment.sleep(TRIES_SEC)
    await until_state(handle, lambda state: state.failures == 1)
    tries = service.calls.count("protect")
    for _ in range(5):
        await handle.signal("news")
    assert (await _state(handle)).failures == 1
    assert service.calls.count("protect") == tries
    service.failing.clear()
    await environment.sleep(120)
    await until_state(handle, lambda state: state.protected == 3 and not state.problem)


async def test_files_are_protected_with_each_news_while_dbs_is_away(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.failing["register"] = "Unavailable"
    service.protected = Protected(files=3, blocks_due=True, next_due_sec=-1)
    service.placed = Placed(waiting=1)
    handle = await start(environment.client)
    await environment.sleep(TRIES_SEC)
    await until_state(handle, lambda state: state.failures == 1)
    tries = service.calls.count("register")
    before = (await _state(handle)).protected
    for number in range(1, 4):
        await handle.signal("news")
        await until_state(handle, lambda state, number=number: state.protected >= before + 3 * number)  # type: ignore[misc]
    assert service.calls.count("register") == tries, "it waits for its own time"
    assert service.calls.count("place") > 0
    service.failing.clear()
    service.protected = Protected(files=0, blocks_due=True)
    await environment.sleep(8 * 3600)
    await until_state(handle, lambda state: state.registered > 0 and not state.problem)


async def test_what_fails_for_some_blocks_goes_on_for_the_others_and_is_tried_again_in_its_own_time(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.failing["protect"] = "Unavailable"
    service.done_all_the_same = (Protected(files=2, blocks_due=True),)
    service.placed = Placed(waiting=1)
    handle = await start(environment.client)
    await environment.sleep(TRIES_SEC)
    await until_state(handle, lambda state: state.failures == 1)
    for number in range(2, 5):
        await handle.signal("news")
        await environment.sleep(TRIES_SEC / 2)
        await until_state(handle, lambda state, number=number: state.protected >= 2 * number)  # type: ignore[misc]
    assert (await _state(handle)).failures == 1, "what is done for others is no try"
    assert "register" in service.calls
    await environment.sleep(16 * 3600)
    await until(lambda: _was_told(environment.client, "stuck protect does not work"))
    assert len(await told(environment.client)) == 1
    service.failing.clear()
    await handle.signal("finish")
    await until(lambda: _was_told(environment.client, f"recovered {DATASET}"))


async def test_a_service_that_goes_away_while_some_blocks_fail_is_left_alone_for_a_short_time_first(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.failing["protect"] = "Refused"
    service.done_all_the_same = (Protected(files=2),)
    handle = await start(environment.client)
    await environment.sleep(4 * 3600)
    await until_state(handle, lambda state: state.failures > 3)
    service.failing["protect"], service.done_all_the_same = "Unavailable", ()
    await handle.signal("news")
    await environment.sleep(TRIES_SEC)
    await until_state(handle, lambda state: state.failures == 1)
    tries = service.calls.count("protect")
    await handle.signal("news")
    service.failing.clear()
    assert service.calls.count("protect") == tries
    await environment.sleep(120)
    await until_state(handle, lambda state: state.protected > 0 and not state.problem)


async def test_it_is_not_announced_as_long_as_a_step_fails(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.failing["protect"] = "Unavailable"
    handle = await start(environment.client)
    await handle.signal("finish")
    await environment.sleep(3600)
    await until_state(handle, lambda state: state.failures > 1)
    assert "announce" not in service.calls
    service.failing.clear()
    await handle.signal("retry")
    assert await handle.result() == ANNOUNCED


async def test_what_was_refused_is_a_persons_business_at_once(client: Client, service: Service) -> None:
    service.failing["protect"] = "Refused"
    handle = await start(client)
    await until(lambda: _was_told(client, "stuck protect does not work"))
    assert service.calls == ["protect"]
    service.failing.clear()
    await handle.signal("retry")
    await until_state(handle, lambda state: state.protected == 3)


async def test_who_was_told_of_a_problem_is_told_that_it_is_over(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.failing["protect"] = "Refused"
    handle = await start(environment.client)
    await until(lambda: _was_told(environment.client, "stuck protect does not work"))
    service.failing.clear()
    await environment.sleep(120)
    await until_state(handle, lambda state: state.protected == 3)
    await until(lambda: _was_told(environment.client, f"recovered {DATASET}"))
    assert await told(environment.client) == ["stuck protect does not work", f"recovered {DATASET}"]


async def test_nobody_hears_of_a_setback_that_is_over_soon(
    environment: WorkflowEnvironment, service: Service
) -> None:
    service.failing["protect"] = "Unavailable"
    handle = await start(environment.client)
    await environment.sleep(TRIES_SEC)
    await until_state(handle, lambda state: state.failures == 1)
    service.failing.clear()
    await handle.signal("retry")
    await until_state(handle, lambda state: state.protected == 3 and not state.problem)
    assert await told(environment.client) == []


async def test_a_cancel_in_temporal_is_heard_as_a_wish_to_try_again(client: Client, service: Service) -> None:
    service.failing["protect"] = "Refused"
    handle = await start(client)
    await until_state(handle, lambda state: state.failures == 1)
    service.failing.clear()
    await handle.cancel()
    await until_state(handle, lambda state: state.protected == 3 and not state.problem)
    await handle.signal("finish")
    assert await handle.result() == ANNOUNCED


async def test_a_cancel_in_temporal_breaks_no_call_off(client: Client, service: Service) -> None:
    service.gate.clear()
    handle = await start(client)
    await until_true(lambda: service.calls == ["protect"])
    await handle.cancel()
    await until_state(handle, lambda state: state.retry)
    service.gate.set()
    await handle.signal("finish")
    assert await handle.result() == ANNOUNCED
    assert service.finished == len(service.calls)


async def test_who_is_told_again_to_finish_looks_again(client: Client, service: Service) -> None:
    service.placed = Placed(waiting=0, complete=False)
    handle = await start(client)
    await handle.signal("finish")
    await until_true(lambda: "place" in service.calls)
    await until_state(handle, lambda state: not state.news and state.look_at is None)
    service.placed = Placed(waiting=0, complete=True)
    await handle.signal("finish")
    assert await handle.result() == ANNOUNCED


async def test_frozen_with_nothing_under_way_it_says_so_and_ends(client: Client, service: Service) -> None:
    handle = await start(client)
    await until_state(handle, lambda state: state.protected == 3)
    await handle.signal("freeze")
    assert await handle.result() is None
    assert service.calls == ["protect"]
    assert await told(client) == [f"frozen {DATASET}"]


async def test_frozen_it_waits_for_the_call_under_way_and_starts_no_other(
    client: Client, service: Service
) -> None:
    service.gate.clear()
    handle = await start(client)
    await until_true(lambda: service.calls == ["protect"])
    await handle.signal("finish")
    await handle.signal("freeze")
    await until_state(handle, lambda state: state.frozen)
    assert (service.finished, await told(client)) == (0, [])
    service.gate.set()
    assert await handle.result() is None
    assert (service.calls, service.finished) == (["protect"], 1)
    assert await told(client) == [f"frozen {DATASET}"]


async def test_what_it_knows_survives_a_new_start_of_its_history(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_first_run(info: workflow.Info) -> bool:
        return info.continued_run_id is None

    monkeypatch.setattr(workflow.Info, "is_continue_as_new_suggested", in_first_run)
    handle = await start(
        client, OutputState(request=ORDER.request, dataset=DATASET, protected=5, finishing=True)
    )
    assert await handle.result() == ANNOUNCED
    assert service.calls == ["protect", "register all", "place", "announce"]
    runs = client.get_workflow_handle(handle.id)
    assert (await runs.query(OutputDatasetWorkflow.state)).protected == 8
    assert (await runs.describe()).run_id != handle.first_execution_run_id
