"""A request workflow in a world of its own: activities that do as they are told, and remember what they did."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.conftest import PATIENCE_SEC
from wms2.models.actions import Action
from wms2.models.messages import (
    Alert,
    ClosedRound,
    DagObservation,
    DagOrder,
    FollowOrder,
    OperatorAction,
    OutputAnnounced,
    OutputOrder,
    PlannedRoundReport,
    PlanOrder,
    RoundOrder,
    Slot,
    SlotRequest,
    StatusRecord,
    SubmittedDag,
)
from wms2.models.next_round import Need, NextRound
from wms2.models.progress import DagOutcome, RoundProgress
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState
from wms2.models.sizing import MeasuredSizing
from wms2.temporal.attributes import INTEGERS, KEYWORDS
from wms2.temporal.ids import request_id
from wms2.temporal.queues import WORKFLOWS, host_queue, watch_queue
from wms2.worker import workflow_runner
from wms2.workflows.request import RequestWorkflow

DATASET = "/MinBias/Run2024A-Test-v1/GEN-SIM"
HOST = "here"


# In the sandbox each of them would import this module anew, pytest included.
@workflow.defn(name="OutputDatasetWorkflow", sandboxed=False)
class QuietOutput:
    """Announces as soon as it is told to finish, freezes as soon as it is told to freeze."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.run
    async def run(self, order: OutputOrder) -> None:
        await workflow.wait_condition(lambda: self.word in ("finish", "freeze"))
        parent = workflow.get_external_workflow_handle(request_id(order.request))
        if self.word == "finish":
            announced = OutputAnnounced(dataset=order.dataset, files=1, events=1)
            await parent.signal("output_announced", announced)
        else:
            await parent.signal("output_frozen", order.dataset)

    @workflow.signal
    def news(self) -> None:
        pass

    @workflow.signal
    def finish(self) -> None:
        self.word = "finish"

    @workflow.signal
    def freeze(self) -> None:
        self.word = "freeze"


class World:
    """What the activities see: rounds to come, how each DAG run ends, and all that was done."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.rounds = [Need.PILOT, Need.ROUND]
        self.ends: list[DagOutcome] = []
        """How the DAG runs end, in turn; completed when none is left."""
        self.failed_units = 1
        self.lend_slots = True
        self.hang_in_follow = False
        self.stuck: dict[str, timedelta] = {}
        self.broken: set[str] = set()
        self.done: list[str] = []
        self.statuses: list[str] = []
        self.alerts: list[str] = []
        self.attempts: list[str] = []
        self.closed: list[RoundOrder] = []
        self.told: list[int] = []
        self.discrepancies: tuple[str, ...] = ()

    def progress(self, outcome: DagOutcome) -> RoundProgress:
        whole = outcome in (DagOutcome.COMPLETED,)
        done = 10 if whole else 10 - self.failed_units
        return RoundProgress(
            outcome=outcome, units_total=10, units_done=done, units_failed=10 - done, units_running=0,
            nodes_total=50, nodes_done=5 * done, nodes_failed=0, jobs_idle=0, jobs_running=0, jobs_held=0,
            events_total=1000, events_done=100 * done,
        )  # fmt: skip

    def break_down(self, name: str) -> None:
        self.done.append(name)
        if name in self.stuck:
            # No time is skipped while an activity runs, so it does not hang: it fails again and again.
            raise ApplicationError("not now", next_retry_delay=self.stuck[name] / 2)
        if name in self.broken:
            raise ApplicationError(f"{name} is broken", type="UserError", non_retryable=True)

    @activity.defn
    async def record_status(self, record: StatusRecord) -> bool:
        self.statuses.append(str(record.status))
        return True

    @activity.defn
    async def next_round(self, name: str, sizing: MeasuredSizing | None) -> NextRound:
        self.break_down("next_round")
        return NextRound(need=self.rounds[0] if self.rounds else Need.NOTHING, events=100)

    @activity.defn
    async def raise_alert(self, alert: Alert) -> None:
        self.alerts.append(alert.kind)

    @activity.defn
    async def ask_admission(self, ask: SlotRequest) -> None:
        if self.lend_slots:
            slot = Slot(request=ask.request, round=ask.round, host=HOST, said=ask.said)
            await self.client.get_workflow_handle(request_id(ask.request)).signal("slot_granted", slot)

    @activity.defn
    async def give_back_slot(self, ask: SlotRequest) -> None:
        self.break_down("give_back_slot")

    @activity.defn
    async def plan_round(self, order: PlanOrder) -> PlannedRoundReport:
        self.break_down("plan_round")
        self.rounds.pop(0)
        return PlannedRoundReport(
            folder=Path("/f"), work_units=10, jobs=10, events=100, next_lumi=order.first_lumi + 10
        )

    @activity.defn
    async def submit_dag(self, order: DagOrder) -> SubmittedDag:
        self.break_down("submit_dag")
        self.attempts.append(order.dag_id.partition(":")[2])
        return SubmittedDag(order=order, cluster=len(self.attempts), intent_at=datetime.now(UTC), found=False)

    @activity.defn
    async def follow_dag(self, order: FollowOrder) -> DagObservation:
        self.break_down("follow_dag")
        self.told.append(order.units_told)
        while self.hang_in_follow:
            activity.heartbeat()
            await asyncio.sleep(0.1)
        outcome = self.ends.pop(0) if self.ends else DagOutcome.COMPLETED
        return DagObservation(progress=self.progress(outcome))

    @activity.defn
    async def stop_dag(self, dag: SubmittedDag, reason: str) -> DagObservation:
        self.break_down("stop_dag")
        self.hang_in_follow = False
        return DagObservation(progress=self.progress(DagOutcome.STOPPED))

    @activity.defn
    async def close_round(self, order: RoundOrder) -> ClosedRound:
        self.break_down("close_round")
        self.closed.append(order)
        return ClosedRound(units_produced=10, units_abandoned=0, discrepancies=self.discrepancies)

    def activities(self) -> list[Callable[..., Awaitable[Any]]]:
        return [
            self.record_status, self.next_round, self.raise_alert, self.ask_admission, self.give_back_slot,
            self.plan_round, self.submit_dag, self.follow_dag, self.stop_dag, self.close_round,
        ]  # fmt: skip


class Life:
    """A request workflow in its world."""

    def __init__(self, env: WorkflowEnvironment) -> None:
        self.env = env
        self.world = World(env.client)
        self.name = f"life_{uuid.uuid4().hex[:8]}"

    async def begin(
        self, status: RequestStatus = RequestStatus.SUBMITTED, status_since: datetime | None = None
    ) -> None:
        state = RequestState(
            request_name=self.name, requestor="tester", campaign="Tests", priority=1, datasets=(DATASET,),
            status=status, status_since=status_since,
        )  # fmt: skip
        await self.env.client.start_workflow(
            RequestWorkflow.run, state, id=request_id(self.name), task_queue=WORKFLOWS
        )

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.env.client.get_workflow_handle(request_id(self.name), result_type=RequestState)

    async def end(self) -> RequestState:
        result: RequestState = await self.handle.result()
        return result

    async def say(self, action: Action, action_id: str | None = None) -> str:
        asked = OperatorAction(
            action=action, actor="operator", reason="because", action_id=action_id or uuid.uuid4().hex
        )
        answer: str = await self.handle.execute_update(str(action), asked, result_type=str)
        return answer

    async def until(self, status: RequestStatus) -> None:
        async with asyncio.timeout(PATIENCE_SEC):
            while not self.world.statuses or self.world.statuses[-1] != str(status):
                await asyncio.sleep(0.05)

    async def until_alerted(self, *kinds: str) -> None:
        """Until exactly these alerts were raised: time may be skipped faster than they are written down."""
        async with asyncio.timeout(PATIENCE_SEC):
            while len(self.world.alerts) < len(kinds):
                await asyncio.sleep(0.05)
        assert self.world.alerts == list(kinds)


@asynccontextmanager
async def living(env: WorkflowEnvironment, *, watched: bool = True) -> AsyncIterator[Life]:
    """With `watched` false no worker takes up the followers."""
    life = Life(env)
    workflows = [RequestWorkflow, QuietOutput]
    queues: list[tuple[str, list[type]]] = [(WORKFLOWS, workflows), (host_queue(HOST), [])]
    queues += [(watch_queue(HOST), [])] if watched else []
    async with AsyncExitStack() as workers:
        for queue, flows in queues:
            await workers.enter_async_context(
                Worker(
                    env.client,
                    task_queue=queue,
                    workflows=flows,
                    activities=life.world.activities(),
                    workflow_runner=workflow_runner(),
                )
            )
        yield life


async def add_search_attributes(env: WorkflowEnvironment) -> None:
    types = {key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for key in KEYWORDS}
    types |= {key.name: IndexedValueType.INDEXED_VALUE_TYPE_INT for key in INTEGERS}
    await env.client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace="default", search_attributes=types)
    )
