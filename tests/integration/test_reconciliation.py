"""Requests whose submission was cut off, or whose workflow is gone, are found by schedule."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select, text
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from tests.factories import simulation
from tests.integration.publishing import begin
from tests.integration.rounds import unique
from tests.patience import PATIENCE_SEC
from wms2.activities.callbacks import Callbacks
from wms2.activities.cleanups import CleanupActivities
from wms2.activities.inputs import InputActivities
from wms2.activities.reconciliation import ReconciliationActivities
from wms2.activities.stuck import STUMBLING, Stuck
from wms2.adapters.connect import connect_rucio
from wms2.config import Settings
from wms2.core.admission import AdmissionState
from wms2.core.time_limits import TIME_LIMITS
from wms2.db.audit import newest_entry
from wms2.db.notices import list_notices, queue_alert, telling
from wms2.db.requests import insert_request, queued_requests, record_priority, record_status
from wms2.db.session import transaction
from wms2.db.tables import OutputDatasetRow, WorkflowRow
from wms2.models.contacts import Contacts
from wms2.models.messages import Alert
from wms2.models.output import OutputStatus
from wms2.models.reconciliation import Reconciled
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.ids import ADMISSION, CHAINS, HOSTS, RECONCILIATION, REQMGR2, SITES, request_id
from wms2.temporal.launch import living_requests, start_request
from wms2.temporal.queues import SERVICES, WORKFLOWS
from wms2.worker import WORKFLOW_TYPES, defined_activities, workflow_runner


@pytest.fixture
async def client(stack: Settings) -> Client:
    """In a namespace of its own, prepared by two workers at the same moment and by a later one."""
    settings = stack.model_copy(update={"temporal_namespace": unique("reconciled")})
    client = await connect(settings)
    await asyncio.gather(bootstrap(client, settings), bootstrap(client, settings))
    await bootstrap(client, settings)
    return client


def insert(engine: Engine, name: str, status: RequestStatus = RequestStatus.SUBMITTED) -> None:
    """A request that was recorded an hour ago."""
    with transaction(engine) as session:
        insert_request(session, simulation(request_name=name), status)
        session.execute(text("UPDATE requests SET created_at = now() - interval '1 hour'"))


async def first_state(client: Client, name: str) -> RequestState:
    async for event in client.get_workflow_handle(request_id(name)).fetch_history_events():
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        (state,) = await client.data_converter.decode(payloads, [RequestState])
        assert isinstance(state, RequestState)
        return state
    raise AssertionError("a history without an event")


async def told_admission(client: Client) -> list[tuple[str, list[object]]]:
    """The signals that admission got."""
    signals = []
    async for event in client.get_workflow_handle(ADMISSION).fetch_history_events():
        if event.HasField("workflow_execution_signaled_event_attributes"):
            signal = event.workflow_execution_signaled_event_attributes
            signals.append((signal.signal_name, await client.data_converter.decode(signal.input.payloads)))
    return signals


async def test_a_request_that_was_recorded_and_never_started_is_started_once(
    engine: Engine, client: Client
) -> None:
    insert(engine, "cut_off")
    insert(engine, "kept_back", RequestStatus.NEW)
    reconcile = ReconciliationActivities(engine, client).reconcile_requests
    assert (await reconcile()).started == ("cut_off", "kept_back")
    assert (await first_state(client, "cut_off")).status is RequestStatus.SUBMITTED
    assert (await first_state(client, "kept_back")).status is RequestStatus.NEW
    again = await reconcile()
    assert (again.started, again.lost) == ((), ())


async def test_a_request_whose_round_a_person_runs_by_hand_is_left_to_that_person(
    engine: Engine, client: Client
) -> None:
    begin(engine, simulation(request_name="by_hand"), 2)
    with transaction(engine) as session:
        session.execute(text("UPDATE requests SET created_at = now() - interval '1 hour'"))
    found = await ReconciliationActivities(engine, client).reconcile_requests()
    assert (found.started, found.lost) == ((), ())


async def test_a_submission_that_is_under_way_is_left_alone(engine: Engine, client: Client) -> None:
    with transaction(engine) as session:
        insert_request(session, simulation(request_name="under_way"))
    assert (await ReconciliationActivities(engine, client).reconcile_requests()).started == ()


async def test_a_request_whose_workflow_was_terminated_is_reported_and_not_begun_anew(
    engine: Engine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    insert(engine, "terminated")
    await start_request(client, simulation(request_name="terminated"))
    with transaction(engine) as session:
        record_status(session, "terminated", RequestStatus.QUEUED, 2, "wms2")
    await client.get_workflow_handle(request_id("terminated")).terminate()
    async with asyncio.timeout(PATIENCE_SEC):
        # The list of workflows may be behind for a moment.
        while await living_requests(client):
            await asyncio.sleep(0.1)
    found = await ReconciliationActivities(engine, client).reconcile_requests()
    assert (found.started, found.lost) == ((), ("terminated",))
    assert "ALERT [lost_workflow] terminated: is queued, and its workflow is gone" in caplog.text
    assert await told_admission(client) == [("forget", [["terminated"]])]


async def test_the_living_are_listed_whole_however_many_pages_they_fill(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.temporal.launch.PAGE", 2)
    names = [f"alive_{number}" for number in range(5)]
    for name in names:
        await start_request(client, simulation(request_name=name))
    async with asyncio.timeout(PATIENCE_SEC):
        # The list of workflows may be behind for a moment.
        while await living_requests(client) != {request_id(name) for name in names}:
            await asyncio.sleep(0.1)


@workflow.defn(name="RequestWorkflow", sandboxed=False)
class Stumbling:
    """Its code is broken."""

    @workflow.run
    async def run(self, state: RequestState) -> None:
        raise RuntimeError("a mistake in the code")


@workflow.defn(name="AdmissionWorkflow", sandboxed=False)
class StumblingToo:
    @workflow.run
    async def run(self, state: AdmissionState) -> None:
        raise RuntimeError("a mistake in the code")


async def test_a_workflow_whose_code_fails_again_and_again_is_reported_to_the_operators(
    engine: Engine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    insert(engine, "stumbles")
    await start_request(client, simulation(request_name="stumbles"))
    await client.start_workflow("AdmissionWorkflow", AdmissionState(), id=ADMISSION, task_queue=WORKFLOWS)
    told = telling(engine, Contacts(operators=("ops@example.org",)))
    async with (
        Worker(client, task_queue=WORKFLOWS, workflows=[Stumbling, StumblingToo]),
        asyncio.timeout(PATIENCE_SEC),
    ):
        # Temporal says so after the fifth failure; of others that this worker does not know, too.
        while not {request_id("stumbles"), ADMISSION} <= {
            found.id async for found in client.list_workflows(STUMBLING)
        }:
            await asyncio.sleep(0.5)
        for _ in range(2):
            await Stuck(told, client, TIME_LIMITS).report()
    assert "ALERT [stuck_workflow] stumbles: cannot go on, request-stumbles is stuck" in caplog.text
    with transaction(engine) as session:
        notices = [(one.about, one.reason) for one in list_notices(session)]
        entry = newest_entry(session, "stumbles", "alert")
    for name in ("stumbles", ADMISSION):
        assert notices.count((name, "lost_workflow")) == 1, "it is told once a day"
    assert entry is not None
    assert entry.action.detail == {"kind": "stuck_workflow"}


async def test_a_status_that_has_passed_its_limit_without_a_word_of_its_workflow_is_reported_once(
    engine: Engine, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    standings = {"says_nothing": 120, "has_said_it": 120, "is_in_time": 70}
    for name, minutes in standings.items():
        insert(engine, name)
        with transaction(engine) as session:
            record_status(session, name, RequestStatus.PLANNING, 2, "wms2")
            came = text(
                "UPDATE requests SET status_transitions = jsonb_set(status_transitions, '{-1,at}', "
                "to_jsonb(now() - make_interval(mins => :minutes))) WHERE request_name = :name"
            )
            session.execute(came, {"minutes": minutes, "name": name})
    with transaction(engine) as session:
        queue_alert(
            session, Alert(request="has_said_it", kind="long_planning", message="has been so for long")
        )
    for _ in range(2):
        await Stuck(engine, client, TIME_LIMITS).report()
    told = [record.message for record in caplog.records if "ALERT" in record.message]
    assert len(told) == 1
    assert told[0].startswith("ALERT [long_planning] says_nothing: has been planning since")


async def test_reconciliation_tells_of_what_is_stuck_in_each_of_its_runs(
    engine: Engine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Mapping[RequestStatus, timedelta]] = []

    async def report(self: Stuck) -> None:
        reported.append(self._limits)

    monkeypatch.setattr(Stuck, "report", report)
    limits = {RequestStatus.NEW: timedelta(days=1)}
    await ReconciliationActivities(engine, client, limits).reconcile_requests()
    assert reported == [limits]


async def test_a_request_that_ends_while_it_is_looked_for_is_neither_lost_nor_begun_anew(
    engine: Engine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(engine, "ends")

    async def ends(_: Client, name: str) -> bool:
        with transaction(engine) as session:
            record_status(session, name, RequestStatus.COMPLETED, 1, "wms2")
        return False

    monkeypatch.setattr("wms2.activities.reconciliation.request_lives", ends)
    found = await ReconciliationActivities(engine, client).reconcile_requests()
    assert (found.started, found.lost) == ((), ())


async def signals(client: Client, name: str) -> list[str]:
    """What a request that nobody runs was told."""
    events = (await client.get_workflow_handle(request_id(name)).fetch_history()).events
    told = [event.workflow_execution_signaled_event_attributes.signal_name for event in events]
    return [signal for signal in told if signal]


async def test_a_request_that_did_not_hear_of_its_slot_or_its_outputs_is_told_again(
    engine: Engine, client: Client
) -> None:
    outputs = {"told": OutputStatus.ANNOUNCED, "untold": OutputStatus.PENDING}
    for name in ("in_line", *outputs):
        await start_request(client, simulation(request_name=name))
        with transaction(engine) as session:
            insert_request(session, simulation(request_name=name))
            status = RequestStatus.ACTIVE if name in outputs else RequestStatus.QUEUED
            record_status(session, name, status, 2, "wms2")
            if name in outputs:
                workflow = select(WorkflowRow.id).where(WorkflowRow.request_name == name).scalar_subquery()
                session.add(
                    OutputDatasetRow(
                        workflow_id=workflow, dataset_name="/A/B-v1/GEN-SIM",
                        status=outputs[name], announced_at=func.now(),
                    )
                )  # fmt: skip
    callbacks = Callbacks(engine, client)
    await callbacks.repeat(datetime.now(UTC) - timedelta(minutes=1))
    assert [await signals(client, name) for name in ("in_line", *outputs)] == [[], [], []], "it is too early"
    await callbacks.repeat(datetime.now(UTC) + timedelta(minutes=1))
    assert await signals(client, "in_line") == ["ask_again"]
    assert await signals(client, "told") == ["output_announced"]
    assert await signals(client, "untold") == []


def test_what_else_is_recorded_of_a_request_in_line_does_not_make_its_wait_begin_anew(engine: Engine) -> None:
    with transaction(engine) as session:
        insert_request(session, simulation(request_name="in_line"))
        record_status(session, "in_line", RequestStatus.QUEUED, 2, "wms2")
    with transaction(engine) as session:
        since = session.scalar(select(func.now()))
    assert since is not None
    with transaction(engine) as session:
        record_priority(session, "in_line", 7)
        insert_request(session, simulation(request_name="goes_first", priority=9))
        record_status(session, "goes_first", RequestStatus.QUEUED, 2, "wms2")
        assert queued_requests(session, since) == ["in_line"]
        assert queued_requests(session, since + timedelta(hours=1)) == ["goes_first", "in_line"]
        record_status(session, "in_line", RequestStatus.QUEUED, 3, "wms2")
        assert queued_requests(session, since) == []


async def test_the_schedule_is_made_once_and_does_its_work(
    stack: Settings, engine: Engine, client: Client
) -> None:
    expected = {CHAINS, HOSTS, RECONCILIATION, REQMGR2, SITES}
    async with asyncio.timeout(PATIENCE_SEC):
        # The list of schedules may be behind for a moment.
        while {found.id async for found in await client.list_schedules()} != expected:
            await asyncio.sleep(0.1)
    schedule = client.get_schedule_handle(RECONCILIATION)
    async with (
        connect_rucio(stack) as rucio,
        Worker(
            client, task_queue=WORKFLOWS, workflows=WORKFLOW_TYPES, workflow_runner=workflow_runner(),
            activities=[
                *defined_activities(ReconciliationActivities(engine, client)),
                *defined_activities(CleanupActivities(engine, client)),
            ],
        ),
        Worker(
            client, task_queue=SERVICES,
            activities=defined_activities(InputActivities(engine, rucio, stuck_hours=24)),
        ),
    ):  # fmt: skip
        await schedule.trigger()
        async with asyncio.timeout(PATIENCE_SEC):
            while not (actions := (await schedule.describe()).info.recent_actions):
                await asyncio.sleep(0.2)
        run = client.get_workflow_handle(actions[0].action.workflow_id, result_type=Reconciled)
        assert await run.result() == Reconciled(living=0)
