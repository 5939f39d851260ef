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

from tests.patience import PATIENCE_SEC
from wms2.core.decisions import DECIDED
from wms2.models.actions import Action
from wms2.models.audit import Action as AuditedAction
from wms2.models.input_rule import FetchedInput, InputProgress
from wms2.models.messages import (
    Alert,
    Changes,
    ClosedRound,
    DagObservation,
    DagOrder,
    DropAction,
    Dropped,
    FollowOrder,
    JudgedSites,
    OperatorAction,
    OutputAnnounced,
    OutputOrder,
    PlannedRoundReport,
    PlanOrder,
    RankOrder,
    RescueOrder,
    RoundOrder,
    RulesOrder,
    Slot,
    SlotRequest,
    StatusRecord,
    SubmittedDag,
    TimeLimits,
)
from wms2.models.next_round import Need, NextRound
from wms2.models.progress import DagOutcome, RoundProgress, Sighting
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState
from wms2.models.sizing import KnownSizing
from wms2.models.undo import UndoOrder
from wms2.temporal.attributes import INTEGERS, KEYWORDS
from wms2.temporal.ids import request_id
from wms2.temporal.queues import SERVICES, WORKFLOWS, host_queue, planning_queue, watch_queue
from wms2.worker import workflow_runner
from wms2.workflows.admission import AdmissionWorkflow
from wms2.workflows.request import RequestWorkflow

DATASET = "/MinBias/Run2024A-Test-v1/GEN-SIM"
SLOW_DATASET = "/MinBias/Run2024A-Slow-v1/GEN-SIM"
"""One that is never announced."""
DEAF_DATASET = "/MinBias/Run2024A-Deaf-v1/GEN-SIM"
"""One whose workflow does not answer."""
HOST = "here"
INPUT_PATIENCE = timedelta(hours=1)


# In the sandbox each of them would import this module anew, pytest included.
@workflow.defn(name="OutputDatasetWorkflow", sandboxed=False)
class QuietOutput:
    """Announces as soon as it is told to finish, freezes as soon as it is told to freeze."""

    def __init__(self) -> None:
        self.word = ""
        self.retried = 0

    @workflow.run
    async def run(self, order: OutputOrder) -> None:
        heard = {SLOW_DATASET: ("freeze",), DEAF_DATASET: ()}
        last_words = heard.get(order.dataset, ("finish", "freeze"))
        await workflow.wait_condition(lambda: self.word in last_words)
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
    def retry(self) -> None:
        self.retried += 1

    @workflow.signal
    def freeze(self) -> None:
        self.word = "freeze"

    @workflow.query
    def retries(self) -> int:
        return self.retried

    @workflow.query
    def last_word(self) -> str:
        return self.word


@workflow.defn(name="UndoWorkflow", sandboxed=False)
class QuietUndo:
    @workflow.run
    async def run(self, order: UndoOrder) -> UndoOrder:
        return order


class World:
    """What the activities see: rounds to come, how each DAG run ends, and all that was done."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.rounds = [Need.PILOT, Need.ROUND]
        self.ends: list[DagOutcome] = []
        """How the DAG runs end, in turn; completed when none is left."""
        self.failed_units = 1
        self.step_priority: int | None = None
        self.from_catalogues = False
        self.lend_slots = True
        self.hang_in_follow = False
        self.stuck: dict[str, timedelta] = {}
        self.broken: set[str] = set()
        self.done: list[str] = []
        self.statuses: list[str] = []
        self.alerts: list[str] = []
        self.audited: list[AuditedAction] = []
        self.decided: list[AuditedAction] = []
        self.planned: list[PlanOrder] = []
        self.attempts: list[str] = []
        self.closed: list[RoundOrder] = []
        self.told: list[int] = []
        self.followed_in: list[str] = []
        """The runs of the workflow that had a DAG followed."""
        self.discrepancies: tuple[str, ...] = ()
        self.bans: tuple[str, ...] = ()
        self.sites_left: tuple[str, ...] = ("T2_CH_CERN",)
        self.asked: list[SlotRequest] = []
        self.ranks: list[int] = []
        self.rescues: list[RescueOrder] = []
        self.attempts_given: list[int | None] = []
        self.changes: list[Changes] = []
        self.dropped: list[DropAction] = []
        self.units_waiting = self.units_judged = 0
        self.verdict_helps = True
        """Whether the next verdict lets all try again that wait for one."""
        self.judged_when_reviewed = False
        self.rules: list[list[str]] = []
        self.looks: list[InputProgress] = []
        """What is seen of an input that is fetched, in turn; the last one is seen again and again."""
        self.looked_at: list[datetime] = []
        self.limits: dict[RequestStatus, timedelta] = {}
        self.sighting = Sighting.QUEUED
        self.told_people: list[str] = []
        self.planned_by: list[str] = []
        """The task queues on which rounds were planned."""
        self.closed_by: list[str] = []
        """The task queues on which rounds were closed."""

    def progress(self, outcome: DagOutcome) -> RoundProgress:
        whole = outcome in (DagOutcome.COMPLETED,)
        done = 10 if whole else 10 - self.failed_units
        return RoundProgress(
            outcome=outcome, units_total=10, units_done=done, units_failed=10 - done, units_running=0,
            nodes_total=50, nodes_done=5 * done, nodes_failed=0, jobs_idle=0, jobs_running=0, jobs_held=0,
            events_total=1000, events_done=100 * done,
        )  # fmt: skip

    def observation(self, outcome: DagOutcome) -> DagObservation:
        return DagObservation(
            progress=self.progress(outcome), units_waiting=self.units_waiting, units_judged=self.units_judged
        )

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
    async def next_round(self, name: str, sizing: KnownSizing) -> NextRound:
        self.break_down("next_round")
        need = self.rounds[0] if self.rounds else Need.NOTHING
        return NextRound(
            need=need, events=100, priority=self.step_priority, from_catalogues=self.from_catalogues
        )

    @activity.defn
    async def record_action(self, action: AuditedAction) -> bool:
        (self.decided if action.action == DECIDED else self.audited).append(action)
        return True

    @activity.defn
    async def raise_alert(self, alert: Alert) -> None:
        self.break_down("raise_alert")
        self.alerts.append(alert.kind)
        self.told_people.append(alert.message)

    @activity.defn
    async def time_limits(self) -> TimeLimits:
        return TimeLimits(limits=self.limits)

    @activity.defn
    async def look_for_dag(self, dag: SubmittedDag) -> Sighting:
        self.break_down("look_for_dag")
        return self.sighting

    @activity.defn
    async def ask_admission(self, ask: SlotRequest) -> None:
        self.asked.append(ask)
        if self.lend_slots:
            slot = Slot(request=ask.request, round=ask.round, host=HOST, said=ask.said)
            await self.client.get_workflow_handle(request_id(ask.request)).signal("slot_granted", slot)

    @activity.defn
    async def give_back_slot(self, ask: SlotRequest) -> None:
        self.break_down("give_back_slot")

    @activity.defn
    async def plan_round(self, order: PlanOrder) -> PlannedRoundReport:
        self.break_down("plan_round")
        self.planned.append(order)
        self.planned_by.append(activity.info().task_queue)
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
        self.followed_in.append(activity.info().workflow_run_id or "")
        while self.hang_in_follow:
            activity.heartbeat()
            await asyncio.sleep(0.1)
        outcome = self.ends.pop(0) if self.ends else DagOutcome.COMPLETED
        return self.observation(outcome)

    @activity.defn
    async def review_dag(self, dag: SubmittedDag) -> DagObservation:
        self.break_down("review_dag")
        if self.judged_when_reviewed:
            self.units_waiting, self.units_judged = 0, self.units_waiting
        return self.observation(DagOutcome.PARTIAL)

    @activity.defn
    async def apply_rules(self, order: RulesOrder) -> None:
        self.break_down("apply_rules")
        self.rules.append([rule.name for rule in order.rules])
        self.attempts_given.append(order.attempts)
        if self.verdict_helps:
            self.units_waiting, self.units_judged = 0, self.units_waiting

    @activity.defn
    async def stop_dag(self, dag: SubmittedDag, reason: str) -> DagObservation:
        self.break_down("stop_dag")
        self.hang_in_follow = False
        return DagObservation(progress=self.progress(DagOutcome.STOPPED))

    @activity.defn
    async def judge_sites(self, dag: SubmittedDag) -> JudgedSites:
        return JudgedSites(banned=self.bans, left=self.sites_left)

    @activity.defn
    async def close_round(self, order: RoundOrder) -> ClosedRound:
        self.break_down("close_round")
        self.closed.append(order)
        self.closed_by.append(activity.info().task_queue)
        return ClosedRound(units_produced=10, units_abandoned=0, discrepancies=self.discrepancies)

    @activity.defn
    async def record_priority(self, action: AuditedAction) -> None:
        self.audited.append(action)

    @activity.defn
    async def rank_round(self, order: RankOrder) -> None:
        self.break_down("rank_round")
        self.ranks.append(order.priority)

    @activity.defn
    async def prepare_rescue(self, order: RescueOrder) -> None:
        self.break_down("prepare_rescue")
        self.rescues.append(order)

    @activity.defn
    async def apply_changes(self, action: AuditedAction, changes: Changes) -> None:
        self.break_down("apply_changes")
        self.audited.append(action)
        self.changes.append(changes)

    @activity.defn
    async def drop_work(self, action: AuditedAction, asked: DropAction) -> Dropped:
        self.break_down("drop_work")
        self.audited.append(action)
        self.dropped.append(asked)
        return Dropped(files=len(asked.files))

    @activity.defn
    async def write_invalidation(self, action: AuditedAction) -> None:
        self.break_down("write_invalidation")

    @activity.defn
    async def supersede(self, action: AuditedAction) -> str:
        self.break_down("supersede")
        self.audited.append(action)
        return f"{action.request_name}_v2"

    @activity.defn
    async def supersede_outputs(self, name: str) -> None:
        self.break_down("supersede_outputs")

    @activity.defn
    async def start_clone(self, name: str) -> None:
        self.break_down("start_clone")

    @activity.defn
    async def fetch_input(self, name: str) -> FetchedInput:
        self.break_down("fetch_input")
        self.looked_at.append(activity.info().scheduled_time)
        progress = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return FetchedInput(progress=progress, patience_hours=INPUT_PATIENCE.total_seconds() / 3600)

    @activity.defn
    async def release_input(self, name: str) -> int:
        self.break_down("release_input")
        return 1

    def activities(self) -> list[Callable[..., Awaitable[Any]]]:
        return [
            self.record_status, self.next_round, self.record_action, self.raise_alert, self.ask_admission,
            self.give_back_slot, self.plan_round, self.submit_dag, self.follow_dag, self.stop_dag,
            self.judge_sites, self.close_round,
            self.record_priority, self.rank_round, self.prepare_rescue, self.apply_changes, self.drop_work,
            self.write_invalidation, self.supersede, self.start_clone, self.review_dag, self.apply_rules,
            self.supersede_outputs, self.time_limits, self.look_for_dag,
        ]  # fmt: skip

    def services(self) -> list[Callable[..., Awaitable[Any]]]:
        """Those that call outside services."""
        return [self.fetch_input, self.release_input]


class Life:
    """A request workflow in its world."""

    def __init__(self, env: WorkflowEnvironment, world: World | None = None) -> None:
        self.env = env
        self.world = world or World(env.client)
        self.name = f"life_{uuid.uuid4().hex[:8]}"

    async def begin(
        self,
        status: RequestStatus = RequestStatus.SUBMITTED,
        status_since: datetime | None = None,
        replaces: str = "",
        waits_for: str = "",
        prefetch: str = "",
        priority: int = 1,
        datasets: tuple[str, ...] = (DATASET,),
    ) -> None:
        state = RequestState(
            request_name=self.name, requestor="tester", campaign="Tests", priority=priority, datasets=datasets,
            status=status, status_since=status_since, replaces=replaces, waits_for=waits_for, prefetch=prefetch,
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
        return await self.ask(
            OperatorAction(
                action=action, actor="operator", reason="because", action_id=action_id or uuid.uuid4().hex
            )
        )

    async def ask(self, asked: OperatorAction) -> str:
        answer: str = await self.handle.execute_update(str(asked.action), asked, result_type=str)
        return answer

    async def state(self) -> RequestState:
        found: RequestState = await self.handle.query("state", result_type=RequestState)
        return found

    async def until(self, status: RequestStatus) -> None:
        async with asyncio.timeout(PATIENCE_SEC):
            while not self.world.statuses or self.world.statuses[-1] != str(status):
                await asyncio.sleep(0.05)

    async def until_held_again(self, before: int) -> None:
        async with asyncio.timeout(PATIENCE_SEC):
            while self.world.statuses.count(RequestStatus.HELD) <= before:
                await asyncio.sleep(0.05)

    async def until_told(self, words: str) -> None:
        """Until the logbook says so."""
        async with asyncio.timeout(PATIENCE_SEC):
            while not any(words in line for line in (await self.state()).logbook):
                await asyncio.sleep(0.05)

    async def until_alert(self, kind: str) -> None:
        """Until such an alert was raised, whatever else was."""
        async with asyncio.timeout(PATIENCE_SEC):
            while kind not in self.world.alerts:
                await asyncio.sleep(0.05)

    async def until_asked(self) -> None:
        """Until admission was asked for a slot."""
        async with asyncio.timeout(PATIENCE_SEC):
            while not self.world.asked:
                await asyncio.sleep(0.05)

    async def until_done(self, activity: str) -> None:
        async with asyncio.timeout(PATIENCE_SEC):
            while activity not in self.world.done:
                await asyncio.sleep(0.05)

    async def until_alerted(self, *kinds: str) -> None:
        """Until exactly these alerts were raised: time may be skipped faster than they are written down."""
        async with asyncio.timeout(PATIENCE_SEC):
            while len(self.world.alerts) < len(kinds):
                await asyncio.sleep(0.05)
        assert self.world.alerts == list(kinds)


@asynccontextmanager
async def living(
    env: WorkflowEnvironment, *, served: bool = True, watched: bool = True, world: World | None = None
) -> AsyncIterator[Life]:
    """With `served` false no worker takes up the work on the host, with `watched` false none the followers."""
    life = Life(env, world)
    workflows = [RequestWorkflow, QuietOutput, QuietUndo, AdmissionWorkflow]
    queues: list[tuple[str, list[type]]] = [(WORKFLOWS, workflows)]
    queues += [(host_queue(HOST), []), (planning_queue(HOST), [])] if served else []
    queues += [(watch_queue(HOST), [])] if watched else []
    async with AsyncExitStack() as workers:
        await workers.enter_async_context(
            Worker(env.client, task_queue=SERVICES, activities=life.world.services())
        )
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
