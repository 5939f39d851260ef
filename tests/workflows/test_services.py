"""An outside service that hangs: what waits for it, and what does not."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.client import WorkflowFailureError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.patience import PATIENCE_SEC
from tests.workflows.life import HOST
from wms2.errors import Unauthorised
from wms2.models.imports import Imported, Reported
from wms2.models.messages import InVain
from wms2.models.reconciliation import Reconciled
from wms2.temporal.queues import SERVICES, WORKFLOWS, host_queue, planning_queue
from wms2.temporal.retries import HOST as HOST_WORK
from wms2.temporal.retries import OUTPUT, RECORD, TIDYING, TRANSFER, Preset
from wms2.worker import (
    PLANNING_SLOTS,
    SERVICE_SLOTS,
    TRANSFER_SLOTS,
    Hands,
    build_workers,
    defined_activities,
    workflow_runner,
)
from wms2.workflows.reconciliation import ReconciliationWorkflow
from wms2.workflows.reqmgr2 import ReqMgr2Workflow

TEST = "test"
begun: list[str] = []


@activity.defn
async def ask_rucio() -> None:
    """Nobody answers."""
    begun.append(activity.info().activity_id)
    await asyncio.sleep(timedelta(days=1).total_seconds())


@activity.defn
async def record() -> str:
    return "recorded"


async def nothing(*_: str) -> None:
    pass


@workflow.defn(sandboxed=False)
class Asking:
    @workflow.run
    async def run(self) -> None:
        placed: Preset = {"task_queue": WORKFLOWS, **OUTPUT}
        for _ in range(SERVICE_SLOTS + 1):
            workflow.start_activity(ask_rucio, **placed)
        await workflow.wait_condition(lambda: False)


@workflow.defn(sandboxed=False)
class Recording:
    @workflow.run
    async def run(self) -> str:
        placed: Preset = {"task_queue": WORKFLOWS, **RECORD}
        return await workflow.execute_activity(record, **placed)


async def test_a_service_that_hangs_keeps_no_record_from_being_written(
    real_env: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.worker.GRACE", timedelta(0))
    client = real_env.client
    hands = Hands([record], [ask_rucio], [record], [record], [record], nothing, nothing, nothing, None)
    async with AsyncExitStack() as workers, asyncio.timeout(PATIENCE_SEC):
        for worker in build_workers(client, hands, HOST, dags=1):
            await workers.enter_async_context(worker)
        await workers.enter_async_context(Worker(client, task_queue=TEST, workflows=[Asking, Recording]))
        await client.start_workflow(Asking.run, id="asking", task_queue=TEST)
        while len(begun) < SERVICE_SLOTS:
            await asyncio.sleep(0.1)
        assert await client.execute_workflow(Recording.run, id="recording", task_queue=TEST) == "recorded"


looks: list[str] = []


@activity.defn
async def place_blocks() -> None:
    """Rucio lists the rules of thousands of blocks."""
    looks.append(activity.info().activity_id)
    await asyncio.sleep(timedelta(days=1).total_seconds())


@activity.defn
async def protect_outputs() -> str:
    return "protected"


@workflow.defn(sandboxed=False)
class Looking:
    @workflow.run
    async def run(self) -> None:
        for _ in range(SERVICE_SLOTS + 1):
            workflow.start_activity(place_blocks, **TRANSFER)
        await workflow.wait_condition(lambda: False)


@workflow.defn(sandboxed=False)
class Protecting:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_activity(protect_outputs, **OUTPUT)


async def test_looks_at_transfers_however_many_keep_no_files_from_being_protected(
    real_env: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.worker.GRACE", timedelta(0))
    client = real_env.client
    services = [place_blocks, protect_outputs]
    hands = Hands([record], services, [record], [record], [record], nothing, nothing, nothing, None)
    async with AsyncExitStack() as workers, asyncio.timeout(PATIENCE_SEC):
        for worker in build_workers(client, hands, HOST, dags=1):
            await workers.enter_async_context(worker)
        await workers.enter_async_context(Worker(client, task_queue=TEST, workflows=[Looking, Protecting]))
        await client.start_workflow(Looking.run, id="looking", task_queue=TEST)
        while len(looks) < TRANSFER_SLOTS:
            await asyncio.sleep(0.1)
        assert await client.execute_workflow(Protecting.run, id="protecting", task_queue=TEST) == "protected"
        assert len(looks) == TRANSFER_SLOTS, "so many and no more"


planners: list[str] = []


@activity.defn
async def plan_round() -> None:
    """DBS takes the question and never answers."""
    planners.append(activity.info().activity_id)
    await asyncio.sleep(timedelta(days=1).total_seconds())


@workflow.defn(sandboxed=False)
class Planning:
    @workflow.run
    async def run(self) -> None:
        placed: Preset = {**HOST_WORK, "task_queue": planning_queue(HOST)}
        for _ in range(PLANNING_SLOTS + 1):
            workflow.start_activity(plan_round, **placed)
        await workflow.wait_condition(lambda: False)


@workflow.defn(sandboxed=False)
class Submitting:
    @workflow.run
    async def run(self) -> str:
        placed: Preset = {**HOST_WORK, "task_queue": host_queue(HOST)}
        return await workflow.execute_activity(record, **placed)


async def test_plans_that_wait_for_a_service_keep_nothing_else_from_being_done_on_their_host(
    real_env: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.worker.GRACE", timedelta(0))
    client = real_env.client
    hands = Hands(
        [record], [ask_rucio], [record, plan_round], [plan_round], [record], nothing, nothing, nothing, None
    )
    async with AsyncExitStack() as workers, asyncio.timeout(PATIENCE_SEC):
        for worker in build_workers(client, hands, HOST, dags=1):
            await workers.enter_async_context(worker)
        await workers.enter_async_context(Worker(client, task_queue=TEST, workflows=[Planning, Submitting]))
        await client.start_workflow(Planning.run, id="planning", task_queue=TEST)
        while len(planners) < PLANNING_SLOTS:
            await asyncio.sleep(0.1)
        assert await client.execute_workflow(Submitting.run, id="submitting", task_queue=TEST) == "recorded"
        assert len(planners) == PLANNING_SLOTS, "so many processes and no more"


class Record:
    @activity.defn
    async def reconcile_requests(self) -> Reconciled:
        return Reconciled(living=7)

    @activity.defn
    async def expire_bans(self) -> None:
        pass

    @activity.defn
    async def start_cleanups(self) -> None:
        pass


async def test_reconciliation_does_not_wait_for_a_service_that_nobody_gets_through_to(
    real_env: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No worker asks Rucio at all; the ten minutes are a second.
    monkeypatch.setitem(TIDYING, "schedule_to_close_timeout", timedelta(seconds=1))
    async with (
        asyncio.timeout(PATIENCE_SEC),
        Worker(
            real_env.client,
            task_queue=WORKFLOWS,
            workflows=[ReconciliationWorkflow],
            activities=defined_activities(Record()),
            workflow_runner=workflow_runner(),
        ),
    ):
        found = await real_env.client.execute_workflow(
            ReconciliationWorkflow.run, id="reconciliation", task_queue=WORKFLOWS
        )
    assert found == Reconciled(living=7)


class Refusing:
    """A ReqMgr2 that lets nobody in, or only those who tell it something."""

    def __init__(self, refused: set[str]) -> None:
        self.refused = refused
        self.vain: list[InVain] = []

    def answer(self, asked: str) -> None:
        if asked in self.refused:
            raise Unauthorised("ReqMgr2 refused GET with 403")

    @activity.defn
    async def import_assigned(self) -> Imported:
        self.answer("import_assigned")
        return Imported()

    @activity.defn
    async def report_statuses(self) -> Reported:
        self.answer("report_statuses")
        return Reported()

    @activity.defn
    async def asked_in_vain(self, vain: InVain) -> str:
        self.vain.append(vain)
        return ""


@pytest.mark.parametrize(
    "refused", [{"import_assigned"}, {"report_statuses"}, {"import_assigned", "report_statuses"}]
)
async def test_what_reqmgr2_is_asked_in_vain_is_noted(env: WorkflowEnvironment, refused: set[str]) -> None:
    reqmgr2 = Refusing(refused)
    client = env.client
    async with (
        Worker(
            client,
            task_queue=WORKFLOWS,
            workflows=[ReqMgr2Workflow],
            activities=[reqmgr2.asked_in_vain],
            workflow_runner=workflow_runner(),
        ),
        Worker(client, task_queue=SERVICES, activities=[reqmgr2.import_assigned, reqmgr2.report_statuses]),
    ):
        with pytest.raises(WorkflowFailureError):
            await client.execute_workflow(ReqMgr2Workflow.run, id="reqmgr2", task_queue=WORKFLOWS)
    assert {(vain.service, vain.asked) for vain in reqmgr2.vain} == {("ReqMgr2", asked) for asked in refused}
    assert "refused GET with 403" in reqmgr2.vain[0].problem
