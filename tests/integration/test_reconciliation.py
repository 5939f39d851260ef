"""Requests whose submission was cut off, or whose workflow is gone, are found by schedule."""

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text
from temporalio.client import Client
from temporalio.worker import Worker

from tests.conftest import PATIENCE_SEC
from tests.factories import simulation
from tests.integration.rounds import unique
from wms2.activities.reconciliation import ReconciliationActivities
from wms2.config import Settings
from wms2.db.requests import insert_request, record_status
from wms2.db.session import connect as connect_database
from wms2.db.session import transaction
from wms2.models.reconciliation import Reconciled
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.ids import RECONCILIATION, request_id
from wms2.temporal.launch import start_request
from wms2.temporal.queues import WORKFLOWS
from wms2.worker import WORKFLOW_TYPES, defined_activities, workflow_runner


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect_database(database_url)
    yield engine
    engine.dispose()


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
    found = await ReconciliationActivities(engine, client).reconcile_requests()
    assert (found.started, found.lost) == ((), ("terminated",))
    assert "ALERT [lost_workflow] terminated: is queued, and its workflow is gone" in caplog.text


async def test_the_schedule_is_made_once_and_does_its_work(engine: Engine, client: Client) -> None:
    assert [found.id async for found in await client.list_schedules()] == [RECONCILIATION]
    schedule = client.get_schedule_handle(RECONCILIATION)
    activities = defined_activities(ReconciliationActivities(engine, client))
    async with Worker(
        client, task_queue=WORKFLOWS, workflows=WORKFLOW_TYPES, activities=activities, workflow_runner=workflow_runner()
    ):  # fmt: skip
        await schedule.trigger()
        async with asyncio.timeout(PATIENCE_SEC):
            while not (actions := (await schedule.describe()).info.recent_actions):
                await asyncio.sleep(0.2)
        run = client.get_workflow_handle(actions[0].action.workflow_id, result_type=Reconciled)
        assert await run.result() == Reconciled(living=0)
