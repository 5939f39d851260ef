"""Admission on a Temporal server, with requests that do nothing but hold their slot."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

with workflow.unsafe.imports_passed_through():
    from tests.patience import PATIENCE_SEC
    from tests.workflows.forgetful import ForgetfulAdmission, nothing_remembered
    from tests.workflows.servers import real_server, skipping_server
    from wms2.activities.admission import signal_admission
    from wms2.core.admission import AdmissionState, Waiter
    from wms2.models.audit import Action
    from wms2.models.messages import AdmissionOrder, HostList, Slot, SlotRequest
    from wms2.temporal.ids import ADMISSION, request_id
    from wms2.temporal.queues import WORKFLOWS
    from wms2.temporal.retries import RECORD
    from wms2.workflows.admission import AdmissionWorkflow


# In the sandbox each of them would import this module anew, pytest included, and 45 would keep a processor for long.
@workflow.defn(sandboxed=False)
class Holder:
    """Asks for a slot, holds it for some minutes, gives it back."""

    def __init__(self) -> None:
        self._slots: list[Slot] = []

    @workflow.run
    async def run(self, asked: SlotRequest, minutes: int) -> list[Slot]:
        await workflow.execute_activity("ask_admission", asked, **RECORD)
        await workflow.wait_condition(lambda: bool(self._slots))
        await workflow.sleep(timedelta(minutes=minutes))
        await workflow.execute_activity("give_back_slot", asked, **RECORD)
        return self._slots

    @workflow.signal
    def slot_granted(self, slot: Slot) -> None:
        self._slots.append(slot)

    @workflow.query
    def slots(self) -> list[Slot]:
        return self._slots


HolderHandle: TypeAlias = WorkflowHandle[Holder, list[Slot]]


@pytest.fixture
async def environment() -> AsyncIterator[WorkflowEnvironment]:
    async with await skipping_server() as started:
        yield started


@pytest.fixture
async def client(environment: WorkflowEnvironment) -> AsyncIterator[Client]:
    async with worker(environment.client):
        yield environment.client


@activity.defn
async def record_action(action: Action) -> bool:
    audited.append(action)
    return True


audited: list[Action] = []


@pytest.fixture(autouse=True)
def _nothing_audited() -> None:
    audited.clear()


def worker(client: Client) -> Worker:
    activities = ForgetfulAdmission(client)
    return Worker(
        client,
        task_queue=WORKFLOWS,
        workflows=[AdmissionWorkflow, Holder],
        activities=[
            activities.ask_admission,
            activities.give_back_slot,
            activities.closed_requests,
            activities.record_slots,
            activities.strike_slots,
            record_action,
        ],
    )


async def know_hosts(client: Client, dagmans: dict[str, int]) -> None:
    await signal_admission(
        client, "know_hosts", HostList(at=datetime.now(UTC), dagmans=dagmans), nothing_remembered
    )


async def change(client: Client, action: str, action_id: str = "", **given: int) -> AdmissionState:
    order = AdmissionOrder.model_validate(
        {
            "action": action,
            "actor": "operator",
            "reason": "because",
            "action_id": action_id or uuid.uuid4().hex,
            **given,
        }
    )
    return await client.get_workflow_handle(ADMISSION).execute_update(AdmissionWorkflow.change, order)


def asked(request: str, priority: int = 1) -> SlotRequest:
    return SlotRequest(request=request, round=0, priority=priority)


async def start_holder(client: Client, request: SlotRequest, minutes: int = 1) -> HolderHandle:
    return await client.start_workflow(
        Holder.run, args=[request, minutes], id=request_id(request.request), task_queue=WORKFLOWS
    )


async def admission_state(client: Client) -> AdmissionState:
    return await client.get_workflow_handle(ADMISSION).query(AdmissionWorkflow.state)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SEC):
        while not await holds():
            await asyncio.sleep(0.05)


async def test_45_requests_at_a_limit_of_5_get_their_slots_in_perfect_order(client: Client) -> None:
    await know_hosts(client, {"submit-a": 1000})
    await change(client, "drain")
    chance = random.Random(45)
    priorities = {f"req_{number:02}": chance.randrange(5) for number in range(45)}
    holders = [
        await start_holder(client, asked(name, priority), chance.randrange(1, 9))
        for name, priority in priorities.items()
    ]

    async def all_wait() -> bool:
        return len((await admission_state(client)).waiting) == 45

    await until(all_wait)
    turns = {name: waiter.turn for name, waiter in (await admission_state(client)).waiting.items()}
    await change(client, "set", limit=5)
    await change(client, "resume")
    # One after the other: each that is waited for lets time pass, and two at once let it pass twice over.
    slots = [await holder.result() for holder in holders]

    assert [len(each) for each in slots] == [1] * 45
    lent, most = await grants(client)
    assert lent == [
        request_id(name) for name in sorted(turns, key=lambda one: (-priorities[one], turns[one]))
    ]
    assert most == 5


async def grants(client: Client) -> tuple[list[str], int]:
    """Whom admission told of a slot, in its order, and how many slots were out at most."""
    lent: list[str] = []
    active = most = 0
    async for event in client.get_workflow_handle(ADMISSION).fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
            told = event.signal_external_workflow_execution_initiated_event_attributes
            lent.append(told.workflow_execution.workflow_id)
            active += 1
            most = max(most, active)
        elif event.workflow_execution_signaled_event_attributes.signal_name == "give_back":
            active -= 1
    return lent, most


async def test_the_slot_of_a_terminated_request_is_freed_within_the_hour(
    environment: WorkflowEnvironment, client: Client
) -> None:
    await know_hosts(client, {"submit-a": 11})
    leaking = await start_holder(client, asked("leaking", 9), minutes=60 * 24)
    await until(lambda: has_slot(leaking))
    patient = await start_holder(client, asked("patient", 5), minutes=60 * 24)
    impatient = await start_holder(client, asked("impatient", 8))
    await until(lambda: waiting_are(client, {"patient", "impatient"}))
    # The server skips no time while it believes in an activity, also in one of a workflow that was terminated.
    await until(lambda: does_nothing(impatient))
    await leaking.terminate("lost")
    await impatient.terminate("lost as well")

    await environment.sleep(timedelta(minutes=61))
    await until(lambda: has_slot(patient))
    state = await admission_state(client)
    assert list(state.leases) == ["patient"]
    assert state.waiting == {}


async def has_slot(holder: HolderHandle) -> bool:
    return bool(await holder.query(Holder.slots))


async def does_nothing(holder: HolderHandle) -> bool:
    return not (await holder.describe()).raw_description.pending_activities


async def waiting_are(client: Client, names: set[str]) -> bool:
    return (await admission_state(client)).waiting.keys() == names


async def test_a_request_that_is_gone_when_its_turn_comes_hands_it_to_the_next(client: Client) -> None:
    await signal_admission(client, "ask", asked("never_started", 9), nothing_remembered)
    next_one = await start_holder(client, asked("next_one"))
    await know_hosts(client, {"submit-a": 11})
    [slot] = await next_one.result()
    assert slot == Slot(request="next_one", round=0, host="submit-a", idle_jobs=100)


async def test_a_request_that_asks_twice_is_told_twice_and_holds_one_slot(client: Client) -> None:
    await know_hosts(client, {"submit-a": 1000})
    holder = await start_holder(client, asked("forgetful"), minutes=60)
    await until(lambda: has_slot(holder))
    await signal_admission(client, "ask", asked("forgetful"), nothing_remembered)

    async def told_twice() -> bool:
        return len(await holder.query(Holder.slots)) == 2

    await until(told_twice)
    assert len((await admission_state(client)).leases) == 1


async def test_a_drained_admission_lends_nothing_until_it_is_resumed_and_what_is_lent_stays(
    client: Client,
) -> None:
    await know_hosts(client, {"submit-a": 1000})
    running = await start_holder(client, asked("running"), minutes=60 * 24)
    await until(lambda: has_slot(running))
    assert (await change(client, "drain")).draining
    late = await start_holder(client, asked("late"), minutes=60 * 24)
    await until(lambda: waiting_are(client, {"late"}))
    assert list((await admission_state(client)).leases) == ["running"]
    await change(client, "resume")
    await until(lambda: has_slot(late))
    assert list((await admission_state(client)).leases) == ["running", "late"]
    assert [(one.action, one.actor, one.reason) for one in audited] == [
        ("admission_drain", "operator", "because"),
        ("admission_resume", "operator", "because"),
    ]


async def test_limits_change_while_it_runs_and_what_does_not_fit_is_refused_unrecorded(
    client: Client,
) -> None:
    await know_hosts(client, {"submit-a": 1000})
    await change(client, "set", limit=1, idle_budget=10)
    holders = [await start_holder(client, asked("req_0"), minutes=60 * 24)]
    await until(lambda: has_slot(holders[0]))
    holders += [await start_holder(client, asked(f"req_{number}"), minutes=60 * 24) for number in (1, 2)]

    async def lent(number: int) -> bool:
        return len((await admission_state(client)).leases) == number

    await until(lambda: waiting_are(client, {"req_1", "req_2"}))
    assert (await admission_state(client)).idle_lent == 10
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await change(client, "set", limit=2)
    assert "2 slots need an idle budget of 20 jobs at least" in str(refused.value.cause)
    await change(client, "set", "only-once", limit=2, idle_budget=20)
    await until(lambda: lent(2))
    await change(client, "set", limit=3, idle_budget=30)
    await until(lambda: lent(3))
    await change(client, "set", "only-once", limit=2, idle_budget=20)
    assert (await admission_state(client)).limit == 3
    slots = [slot for holder in holders for slot in await holder.query(Holder.slots)]
    assert [slot.idle_jobs for slot in slots] == [1, 1, 1]
    assert [one.detail for one in audited][:2] == [
        {"limit": 1, "idle_budget": 10},
        {"limit": 2, "idle_budget": 20},
    ]


async def test_a_higher_priority_overtakes_those_in_line(client: Client) -> None:
    await know_hosts(client, {"submit-a": 11})
    running = await start_holder(client, asked("running"), minutes=60)
    await until(lambda: has_slot(running))
    first = await start_holder(client, asked("first", 5), minutes=60)
    second = await start_holder(client, asked("second", 4), minutes=60)
    await until(lambda: waiting_are(client, {"first", "second"}))
    await signal_admission(client, "ask", asked("second", 6), nothing_remembered)
    for holder in (running, first, second):
        await holder.result()
    lent, most = await grants(client)
    assert lent == [request_id(name) for name in ("running", "second", "first")]
    assert most == 1


async def test_a_round_whose_own_host_is_full_or_gone_keeps_nobody_waiting(client: Client) -> None:
    await know_hosts(client, {"full": 11, "free": 33})
    filling = await start_holder(client, asked("filling", 9).model_copy(update={"host": "full"}), 60 * 24)
    await until(lambda: has_slot(filling))
    bound = await start_holder(client, asked("bound", 8).model_copy(update={"host": "full"}), 60 * 24)
    absent = await start_holder(client, asked("absent", 7).model_copy(update={"host": "vanished"}), 60 * 24)
    anywhere = await start_holder(client, asked("anywhere", 1), minutes=60 * 24)
    await until(lambda: has_slot(anywhere))
    await until(lambda: waiting_are(client, {"bound", "absent"}))
    await know_hosts(client, {"full": 22, "free": 33, "vanished": 11})
    await until(lambda: has_slot(bound))
    await until(lambda: has_slot(absent))
    assert (await absent.query(Holder.slots))[0].host == "vanished"


async def test_what_a_request_has_is_free_as_soon_as_admission_hears_that_it_is_gone(client: Client) -> None:
    await know_hosts(client, {"submit-a": 11})
    leaking = await start_holder(client, asked("leaking", 9), minutes=60 * 24)
    await until(lambda: has_slot(leaking))
    patient = await start_holder(client, asked("patient", 5), minutes=60 * 24)
    await until(lambda: waiting_are(client, {"patient"}))
    await leaking.terminate("lost")
    await signal_admission(client, "forget", ["leaking", "never_known"], nothing_remembered)
    await until(lambda: has_slot(patient))


async def test_a_recorded_history_replays(environment: WorkflowEnvironment, client: Client) -> None:
    await know_hosts(client, {"submit-a": 11})
    await signal_admission(client, "ask", asked("never_started"), nothing_remembered)
    holders = [await start_holder(client, asked(f"req_{number}"), minutes=45) for number in range(4)]
    for holder in holders:
        await holder.result()
    history = await client.get_workflow_handle(ADMISSION).fetch_history()
    scheduled = [
        event for event in history.events if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled, "the hours that passed must have brought a look for requests that are gone"
    replayer = Replayer(workflows=[AdmissionWorkflow], data_converter=pydantic_data_converter)
    await replayer.replay_workflow(history)


async def test_admission_continues_as_new_when_its_history_is_long_and_forgets_nothing() -> None:
    # On the real server, which can be told to suggest it early.
    async with (
        await real_server(
            "--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=40"
        ) as environment,
        worker(environment.client),
    ):
        client = environment.client
        await know_hosts(client, {"submit-a": 22})
        first = await client.get_workflow_handle(ADMISSION).describe()
        holders = [await start_holder(client, asked(f"req_{number}"), minutes=60) for number in range(2)]

        async def both_have_slots() -> bool:
            return all([await has_slot(holder) for holder in holders])

        await until(both_have_slots)
        before = await admission_state(client)
        for number in range(60):
            await signal_admission(client, "ask", asked(f"late_{number:02}", number), nothing_remembered)

        async def is_new_run() -> bool:
            return (await client.get_workflow_handle(ADMISSION).describe()).run_id != first.run_id

        await until(is_new_run)
        state = await admission_state(client)
        assert state.leases == before.leases
        assert state.look_at == before.look_at
        assert len(state.waiting) == 60
        history = await client.get_workflow_handle(ADMISSION, run_id=first.run_id).fetch_history()
        replayer = Replayer(workflows=[AdmissionWorkflow], data_converter=pydantic_data_converter)
        await replayer.replay_workflow(history)


async def test_ten_thousand_in_line_are_carried_into_a_new_history_and_the_first_of_them_is_served() -> None:
    def waiter(number: int) -> Waiter:
        name = f"pdmvserv_task_SUS-RunIISummer20UL18wmLHEGEN-{number:05}__v1_T_261118_151515_{number % 977}"
        return Waiter(asked=asked(name, number % 50), turn=number)

    line = [waiter(number) for number in range(10_000)]
    state = AdmissionState(waiting={one.asked.request: one for one in line}, next_turn=len(line))
    async with (
        await real_server(
            "--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=40"
        ) as environment,
        worker(environment.client),
    ):
        client = environment.client
        handle = await client.start_workflow(AdmissionWorkflow.run, state, id=ADMISSION, task_queue=WORKFLOWS)
        first = line[49].asked.request
        holder = await start_holder(client, SlotRequest(request=first, round=0, priority=49), minutes=60)

        # Enough for a long history, and fewer than the server keeps for a workflow that is at work.
        for _ in range(60):
            await signal_admission(client, "ask", asked("one_more"), nothing_remembered)

        async def is_new_run() -> bool:
            now = await client.get_workflow_handle(ADMISSION).describe()
            return now.run_id != handle.first_execution_run_id

        await until(is_new_run)
        assert len((await admission_state(client)).waiting) == 10_001
        await know_hosts(client, {"submit-a": 11})
        await until(lambda: has_slot(holder))
        assert list((await admission_state(client)).leases) == [first]
