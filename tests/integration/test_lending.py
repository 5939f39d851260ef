"""Admission loses its workflow and neither the operators' words nor the slots that rounds have."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from alembic import command
from sqlalchemy import Engine
from sqlalchemy.orm import Session
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from tests.factories import simulation
from tests.integration.rounds import unique
from tests.integration.test_database import planned
from tests.patience import PATIENCE_SEC
from wms2.activities.admission import AdmissionActivities, AdmissionSignal, signal_admission
from wms2.activities.callbacks import Callbacks
from wms2.activities.dags import DagActivities
from wms2.activities.lending import Lending
from wms2.activities.planning import PlanningActivities
from wms2.activities.reconciliation import ReconciliationActivities
from wms2.activities.records import RecordActivities
from wms2.config import Settings
from wms2.core.admission import AdmissionState
from wms2.db import admission, migrate
from wms2.db.audit import record_action
from wms2.db.ledger import record_plan
from wms2.db.requests import insert_request, record_status
from wms2.db.session import transaction
from wms2.door.admission import admission_state
from wms2.models.audit import Action
from wms2.models.messages import AdmissionOrder, DagOrder, HostList, PlanOrder, Slot, SlotRequest
from wms2.models.next_round import Need, NextRound
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState
from wms2.planner import PlanningSettings
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.ids import ADMISSION, request_id
from wms2.temporal.launch import first_state, start_request
from wms2.temporal.queues import WORKFLOWS
from wms2.worker import workflow_runner
from wms2.workflows.admission import AdmissionWorkflow


@pytest.fixture
async def client(stack: Settings) -> Client:
    settings = stack.model_copy(update={"temporal_namespace": unique("lending")})
    client = await connect(settings)
    await bootstrap(client, settings)
    return client


@pytest.fixture
async def activities(engine: Engine, client: Client) -> AsyncIterator[AdmissionActivities]:
    """Those of a worker that runs admission and no requests: what these would do, the tests do."""
    own = AdmissionActivities(engine, client)
    async with Worker(
        client,
        task_queue=WORKFLOWS,
        workflows=[AdmissionWorkflow],
        workflow_runner=workflow_runner(),
        activities=[
            own.closed_requests,
            own.record_slots,
            own.strike_slots,
            RecordActivities(engine).record_action,
        ],
    ):
        yield own


async def change(client: Client, action: str, action_id: str, **given: int) -> None:
    order = AdmissionOrder(action=action, actor="operator", reason="why", action_id=action_id, **given)
    await client.get_workflow_handle(ADMISSION).execute_update(AdmissionWorkflow.change, order)


async def known(client: Client) -> AdmissionState:
    return await client.get_workflow_handle(ADMISSION).query(AdmissionWorkflow.state)


async def blank() -> AdmissionState:
    return AdmissionState()


async def know_hosts(client: Client, dagmans: dict[str, int]) -> None:
    await signal_admission(client, "know_hosts", HostList(at=datetime.now(UTC), dagmans=dagmans), blank)


def running(session: Session, name: str, status: RequestStatus = RequestStatus.ACTIVE) -> None:
    """A request that has a slot on one host."""
    insert_request(session, simulation(request_name=name))
    record_status(session, name, status, 2, "wms2")
    admission.record_slot(session, name, 1, 40, "submit-a")


def slot(name: str) -> Slot:
    return Slot(request=name, round=1, host="submit-a", idle_jobs=40)


async def until_lent(client: Client, *names: str) -> AdmissionState:
    async with asyncio.timeout(PATIENCE_SEC):
        while set((state := await known(client)).leases) != set(names):
            await asyncio.sleep(0.1)
    return state


async def test_admission_that_begins_anew_keeps_the_operators_words_and_lends_no_slot_twice(
    engine: Engine, client: Client, activities: AdmissionActivities
) -> None:
    await know_hosts(client, {"submit-a": 22})
    await change(client, "set", "set-3", limit=3, idle_budget=3000)
    await change(client, "drain", "drain-1")
    with transaction(engine) as session:
        running(session, "runs")
    await client.get_workflow_handle(ADMISSION).terminate("lost")

    await activities.ask_admission(SlotRequest(request="waits", round=0, priority=1, said=3))
    anew = await known(client)
    assert (anew.limit, anew.idle_budget, anew.draining) == (3, 3000, True)
    assert [lease.slot for lease in anew.leases.values()] == [slot("runs")]
    await change(client, "drain", "drain-1")
    assert list(anew.waiting) == ["waits"]

    # One slot of two is left on the host, and only one of those who wait can have it.
    await start_request(client, simulation(request_name="waits"))
    await activities.ask_admission(SlotRequest(request="waits_too", round=0, priority=0, said=3))
    await know_hosts(client, {"submit-a": 22})
    await change(client, "resume", "resume-1")
    lent = await until_lent(client, "runs", "waits")
    assert list(lent.waiting) == ["waits_too"]


async def test_admission_that_was_terminated_does_not_speak_any_more_and_who_waits_asks_again(
    engine: Engine, client: Client, activities: AdmissionActivities
) -> None:
    await know_hosts(client, {"submit-a": 22})
    await change(client, "drain", "drain-1")
    await start_request(client, simulation(request_name="waits"))
    with transaction(engine) as session:
        insert_request(session, simulation(request_name="waits"))
        record_status(session, "waits", RequestStatus.QUEUED, 2, "wms2")
    await activities.ask_admission(SlotRequest(request="waits", round=0, priority=1, said=2))
    later = datetime.now(UTC) + timedelta(minutes=1)
    await Callbacks(engine, client).repeat(later)
    assert await asked_again(client, "waits") == 0, "it is in line"
    await client.get_workflow_handle(ADMISSION).terminate("lost")
    assert await admission_state(client) is None
    await Callbacks(engine, client).repeat(later)
    async with asyncio.timeout(PATIENCE_SEC):
        # What comes while the workflow is at work is in its history only after that.
        while not await asked_again(client, "waits"):
            await asyncio.sleep(0.1)


async def asked_again(client: Client, name: str) -> int:
    """How often a request that nobody runs was told to ask again."""
    events = (await client.get_workflow_handle(request_id(name)).fetch_history()).events
    told = [event.workflow_execution_signaled_event_attributes.signal_name for event in events]
    return told.count("ask_again")


async def test_a_slot_that_was_lent_and_not_yet_used_outlives_admission_too(
    engine: Engine, client: Client, activities: AdmissionActivities
) -> None:
    await know_hosts(client, {"submit-a": 22})
    await change(client, "set", "set-1", limit=1)
    for name in ("has_it", "waits"):
        with transaction(engine) as session:
            insert_request(session, simulation(request_name=name))
            record_status(session, name, RequestStatus.QUEUED, 2, "wms2")
        await start_request(client, simulation(request_name=name))
        await activities.ask_admission(SlotRequest(request=name, round=0, priority=1, said=2))
    lent = await until_lent(client, "has_it")
    async with asyncio.timeout(PATIENCE_SEC):
        while not (await known(client)).leases["has_it"].told:
            await asyncio.sleep(0.1)
    await client.get_workflow_handle(ADMISSION).terminate("lost")

    await activities.ask_admission(SlotRequest(request="waits", round=0, priority=1, said=2))
    await know_hosts(client, {"submit-a": 22})
    anew = await known(client)
    assert list(anew.waiting) == ["waits"]
    assert [lease.slot for lease in anew.leases.values()] == [
        lent.leases["has_it"].slot.model_copy(update={"said": 0})
    ]
    await activities.give_back_slot(SlotRequest(request="has_it", round=0, priority=1, said=2))
    await until_lent(client, "waits")


async def test_a_slot_that_is_given_back_before_its_request_hears_of_it_is_not_in_the_record(
    engine: Engine, client: Client
) -> None:
    """Admission records what it lends; the request leaves the line meanwhile."""

    class Leaves(AdmissionActivities):
        @activity.defn
        async def record_slots(self, slots: list[Slot]) -> None:
            asked = SlotRequest(request="leaves", round=0, priority=1, said=3)
            await self.give_back_slot(asked)
            await super().record_slots(slots)

    own = Leaves(engine, client)
    with transaction(engine) as session:
        insert_request(session, simulation(request_name="leaves"))
        record_status(session, "leaves", RequestStatus.QUEUED, 2, "wms2")
    await start_request(client, simulation(request_name="leaves"))
    async with Worker(
        client,
        task_queue=WORKFLOWS,
        workflows=[AdmissionWorkflow],
        workflow_runner=workflow_runner(),
        activities=[own.closed_requests, own.record_slots, own.strike_slots],
    ):
        await know_hosts(client, {"submit-a": 22})
        await own.ask_admission(SlotRequest(request="leaves", round=0, priority=1, said=2))
        async with asyncio.timeout(PATIENCE_SEC):
            while "strike_slots" not in await scheduled(client):
                await asyncio.sleep(0.1)
            while recorded(engine):
                await asyncio.sleep(0.1)
        assert (await known(client)).leases == {}


def recorded(engine: Engine) -> list[Slot]:
    with transaction(engine) as session:
        return admission.lent_slots(session)


async def scheduled(client: Client) -> list[str]:
    """The activities that admission has asked for."""
    return [
        event.activity_task_scheduled_event_attributes.activity_type.name
        async for event in client.get_workflow_handle(ADMISSION).fetch_history_events()
        if event.HasField("activity_task_scheduled_event_attributes")
    ]


async def test_a_request_asks_with_the_time_when_it_was_recorded(
    engine: Engine, client: Client, activities: AdmissionActivities
) -> None:
    with transaction(engine) as session:
        recorded = insert_request(session, simulation(request_name="waits"))
    await activities.ask_admission(SlotRequest(request="waits", round=0, priority=1, said=3))
    assert (await known(client)).waiting["waits"].asked.created_at == recorded.created_at


async def test_a_slot_that_is_given_back_is_no_longer_in_the_record(
    engine: Engine, client: Client, activities: AdmissionActivities
) -> None:
    with transaction(engine) as session:
        running(session, "runs")
        running(session, "goes_on")
    await activities.give_back_slot(SlotRequest(request="runs", round=1, priority=1, said=4))
    with transaction(engine) as session:
        assert admission.lent_slots(session) == [slot("goes_on")]
    await until_lent(client, "goes_on")


@pytest.mark.parametrize("status", [RequestStatus.HELD, RequestStatus.RESUBMITTING, RequestStatus.FAILED])
def test_a_request_that_cannot_have_a_slot_has_none_whatever_the_record_says(
    engine: Engine, status: RequestStatus
) -> None:
    with transaction(engine) as session:
        running(session, "runs", status)
        assert admission.lent_slots(session) == []


async def test_reconciliation_tells_admission_of_the_slots_that_it_misses_and_only_of_the_living(
    engine: Engine, client: Client, activities: AdmissionActivities
) -> None:
    await know_hosts(client, {"submit-a": 22})
    with transaction(engine) as session:
        for name in ("runs", "is_gone"):
            running(session, name)
    await start_request(client, simulation(request_name="runs"))
    lending, living = Lending(engine, client), {request_id("runs")}
    for _ in range(2):
        await lending.settle(living)
    await until_lent(client, "runs")
    assert [name for name, _ in await signals(client)] == ["know_hosts", "remember"], "it is told once"


async def test_reconciliation_reminds_admission_in_each_of_its_runs(
    engine: Engine, client: Client, activities: AdmissionActivities
) -> None:
    await know_hosts(client, {"submit-a": 22})
    with transaction(engine) as session:
        running(session, "runs")
    await start_request(client, simulation(request_name="runs"))
    reconcile = ReconciliationActivities(engine, client).reconcile_requests
    async with asyncio.timeout(PATIENCE_SEC):
        # The list of workflows may be behind for a moment.
        while "remember" not in [name for name, _ in await signals(client)]:
            await reconcile()
    await until_lent(client, "runs")


async def test_a_slot_that_is_given_back_while_admission_is_reminded_of_it_is_free(
    engine: Engine, client: Client, activities: AdmissionActivities
) -> None:
    class Slow(Lending):
        async def _tell(self, signal: AdmissionSignal, content: Any) -> None:
            if signal == "remember":
                await activities.give_back_slot(SlotRequest(request="runs", round=1, priority=1, said=4))
            await super()._tell(signal, content)

    await know_hosts(client, {"submit-a": 22})
    with transaction(engine) as session:
        running(session, "runs")
    await Slow(engine, client).settle({request_id("runs")})
    async with asyncio.timeout(PATIENCE_SEC):
        # What comes while the workflow is at work is in its history only after that.
        while len(told := [name for name, _ in await signals(client)]) < 4:
            await asyncio.sleep(0.1)
    assert told == ["know_hosts", "give_back", "remember", "give_back"]
    await until_lent(client)


@workflow.defn(name="RequestWorkflow", sandboxed=False)
class Standing:
    """A request that does nothing, and says where it stands."""

    @workflow.init
    def __init__(self, state: RequestState) -> None:
        self._state = state

    @workflow.run
    async def run(self, state: RequestState) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def slot_granted(self, slot: Slot) -> None:
        """It wants none, or has one."""

    @workflow.query
    def state(self) -> RequestState:
        return self._state


async def test_a_slot_that_was_lent_for_a_question_that_came_late_is_taken_back_and_one_in_use_is_not(
    engine: Engine, client: Client
) -> None:
    """A worker that was stopped for minutes goes on, and asks for a request that was held meanwhile."""
    own = AdmissionActivities(engine, client)
    statuses = {
        "is_held": RequestStatus.HELD,
        "announces": RequestStatus.ACTIVE,
        "runs": RequestStatus.ACTIVE,
    }
    for name, status in statuses.items():
        request = simulation(request_name=name)
        with transaction(engine) as session:
            insert_request(session, request)
            record_status(session, name, status, 5, "wms2")
        host = "submit-a" if name == "runs" else None
        state = first_state(request, hold=False).model_copy(update={"status": status, "slot_host": host})
        await client.start_workflow("RequestWorkflow", state, id=request_id(name), task_queue=WORKFLOWS)
    async with Worker(
        client,
        task_queue=WORKFLOWS,
        workflows=[AdmissionWorkflow, Standing],
        workflow_runner=workflow_runner(),
        activities=[own.closed_requests, own.record_slots, own.strike_slots],
    ):
        await know_hosts(client, {"submit-a": 100})
        for name in statuses:
            await own.ask_admission(SlotRequest(request=name, round=0, priority=1, said=2))
        await until_told(client, *statuses)
        with transaction(engine) as session:
            # Of the one that runs, too: as if the record had lost it.
            admission.strike_slots(session, statuses)
        await Lending(engine, client).settle({request_id(name) for name in statuses})
        await until_lent(client, "runs")


async def until_told(client: Client, *names: str) -> None:
    async with asyncio.timeout(PATIENCE_SEC):
        while {name for name, lease in (await known(client)).leases.items() if lease.told} != set(names):
            await asyncio.sleep(0.1)


async def signals(client: Client) -> list[tuple[str, list[object]]]:
    """What admission was told."""
    told = []
    async for event in client.get_workflow_handle(ADMISSION).fetch_history_events():
        if event.HasField("workflow_execution_signaled_event_attributes"):
            signal = event.workflow_execution_signaled_event_attributes
            told.append((signal.signal_name, await client.data_converter.decode(signal.input.payloads)))
    return told


def word(number: int, action: str, **detail: int) -> Action:
    return Action(action_id=f"word-{number}", actor="operator", action=f"admission_{action}", detail=detail)


class Cut(Exception):
    """The worker goes no further."""


async def test_the_record_has_a_slot_before_the_round_is_planned_and_before_it_is_submitted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise Cut

    with transaction(engine) as session:
        for name in ("plans", "submits", "by_hand"):
            insert_request(session, simulation(request_name=name))
            record_status(session, name, RequestStatus.QUEUED, 2, "wms2")
        for name in ("submits", "by_hand"):
            plan = planned(1, (1, 100), request=name).model_copy(update={"submit_host": "submit-a"})
            record_plan(session, plan)
    monkeypatch.setattr("wms2.activities.planning.run_planner", cut)
    monkeypatch.setattr("wms2.activities.dags.read_round", lambda _: None)
    monkeypatch.setattr("wms2.activities.dags._intent", cut)
    condor = SimpleNamespace(sites=AsyncMock(return_value=[]))
    plans = PlanOrder(
        request="plans", round=1, host="submit-a", first_lumi=1, next=NextRound(need=Need.ROUND), idle_jobs=40
    )
    with pytest.raises(Cut):
        await PlanningActivities(engine, condor, Settings(), PlanningSettings()).plan_round(plans)
    for name, idle_jobs in (("submits", 40), ("by_hand", None)):
        order = DagOrder(request=name, round=1, attempt=1, folder=Path("/nowhere"), idle_jobs=idle_jobs)
        with pytest.raises(Cut):
            await DagActivities(condor, engine).submit_dag(order)
    with transaction(engine) as session:
        assert admission.lent_slots(session) == [slot("plans"), slot("submits")]


def test_what_operators_say_holds_until_they_say_something_else_and_counts_once(engine: Engine) -> None:
    with transaction(engine) as session:
        assert admission.remembered_admission(session) == AdmissionState()
        said = [
            word(0, "set", limit=5),
            word(1, "drain"),
            word(2, "set", idle_budget=700),
            word(3, "resume"),
            word(1, "drain"),
        ]
        assert [admission.record_word(session, one) for one in said] == [True] * 4 + [False]
        kept = admission.remembered_admission(session)
    assert (kept.limit, kept.idle_budget, kept.draining) == (5, 700, False)
    assert kept.handled_actions == ("word-0", "word-1", "word-2", "word-3")


def test_words_and_slots_from_before_the_tables_are_taken_over_by_the_upgrade(
    engine: Engine, database_url: str
) -> None:
    with transaction(engine) as session:
        for number, said in enumerate([("set", {"limit": 5}), ("drain", {}), ("set", {"idle_budget": 700})]):
            record_action(session, word(number, said[0], **said[1]))
        for name, status in (("runs", RequestStatus.ACTIVE), ("is_held", RequestStatus.HELD)):
            insert_request(session, simulation(request_name=name))
            record_status(session, name, status, 2, "wms2")
            plan = planned(1, (1, 100), request=name).model_copy(update={"submit_host": "submit-a"})
            record_plan(session, plan)
    with engine.begin() as connection:
        scripts = Path(str(files("wms2.db") / "migrations"))
        command.downgrade(migrate._configuration(connection, scripts), "0009")
    migrate.upgrade(database_url)
    with transaction(engine) as session:
        kept = admission.remembered_admission(session)
    assert (kept.limit, kept.idle_budget, kept.draining) == (5, 700, True)
    assert [lease.slot for lease in kept.leases.values()] == [
        slot("runs").model_copy(update={"idle_jobs": None})
    ]
