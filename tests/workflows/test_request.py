"""The life of a request on the time-skipping server, with the activities replaced by a small world."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.conftest import PATIENCE_SEC
from tests.workflows.servers import real_server, skipping_server
from wms2.core.lifecycle import FITS, TIME_LIMITS
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
from wms2.temporal.ids import output_id, request_id
from wms2.temporal.queues import WORKFLOWS, host_queue, watch_queue
from wms2.temporal.retries import FOLLOW
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


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await skipping_server() as started:
        await _add_search_attributes(started)
        yield started


@pytest.fixture
async def real_env() -> AsyncIterator[WorkflowEnvironment]:
    """The server that skips time cannot continue a workflow as new once it was cancelled; the real one can."""
    async with await real_server() as started:
        await _add_search_attributes(started)
        yield started


async def _add_search_attributes(env: WorkflowEnvironment) -> None:
    types = {key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for key in KEYWORDS}
    types |= {key.name: IndexedValueType.INDEXED_VALUE_TYPE_INT for key in INTEGERS}
    await env.client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace="default", search_attributes=types)
    )


@pytest.fixture
async def life(env: WorkflowEnvironment) -> AsyncIterator[Life]:
    async with living(env) as life:
        yield life


@pytest.fixture
async def real_life(real_env: WorkflowEnvironment) -> AsyncIterator[Life]:
    async with living(real_env) as life:
        yield life


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


async def test_a_request_lives_from_submission_to_completion(life: Life) -> None:
    await life.begin()
    state = await life.end()
    assert state.status is RequestStatus.COMPLETED
    assert life.world.statuses == [
        "submitted", "queued", "pilot_running", "queued", "planning", "active", "active", "completed",
    ]  # fmt: skip
    assert life.world.attempts == ["0:1", "1:1"]
    assert state.next_lumi == 21


async def test_a_few_failures_are_rescued_with_the_slot_kept(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.ends = [DagOutcome.PARTIAL, DagOutcome.PARTIAL]
    await life.begin()
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2", "0:3"]
    assert life.world.statuses.count("partial") == 2
    assert life.world.done.count("give_back_slot") == 1


async def test_many_failures_hold_the_request_and_release_closes_the_round(life: Life) -> None:
    life.world.rounds = [Need.ROUND, Need.ROUND]
    life.world.ends = [DagOutcome.PARTIAL]
    life.world.failed_units = 2
    await life.begin()
    await life.until(RequestStatus.HELD)
    assert (
        "2 of 10 work units failed"
        in (await life.handle.query("state", result_type=RequestState)).held_reason
    )
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert "round given up" in life.world.closed[0].reason
    assert life.world.attempts == ["0:1", "1:1"]


async def test_rescues_that_do_not_help_hold_the_request(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.ends = [DagOutcome.PARTIAL] * 4
    await life.begin()
    await life.until(RequestStatus.HELD)
    assert life.world.attempts == ["0:1", "0:2", "0:3", "0:4"]
    await life.say(Action.FAIL)
    assert (await life.end()).status is RequestStatus.FAILED


async def test_a_stop_resumes_the_same_round_and_does_not_count_as_a_rescue(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await life.say(Action.STOP)
    state = await life.end()
    assert state.status is RequestStatus.COMPLETED
    assert life.world.statuses[3:7] == ["active", "stopping", "resubmitting", "queued"]
    assert life.world.attempts == ["0:1", "0:2"]


async def test_a_hold_stops_and_waits_and_a_release_goes_on_where_it_was(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await life.say(Action.HOLD)
    await life.until(RequestStatus.HELD)
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2"]
    assert [order.reason for order in life.world.closed] == [""]


async def test_an_abort_ends_a_running_request_without_failing_it(life: Life) -> None:
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.PILOT_RUNNING)
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED
    assert "stop_dag" in life.world.done
    assert "abort by operator" in life.world.closed[0].reason


async def test_a_stop_that_fails_holds_the_request_and_its_dag_is_followed_again(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    life.world.broken = {"stop_dag"}
    await life.say(Action.STOP)
    await life.until(RequestStatus.HELD)
    life.world.broken, life.world.hang_in_follow = set(), False
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1"]


async def test_a_hold_in_the_queue_leaves_the_queue(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await life.say(Action.HOLD)
    await life.until(RequestStatus.HELD)
    assert life.world.done.count("give_back_slot") == 1
    life.world.lend_slots = True
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_a_request_kept_back_waits_for_its_release(life: Life) -> None:
    await life.begin(RequestStatus.NEW)
    await life.until(RequestStatus.NEW)
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED


@pytest.mark.parametrize("broken", ["next_round", "plan_round", "submit_dag", "follow_dag", "close_round"])
async def test_whatever_breaks_for_good_holds_the_request_and_release_tries_again(
    life: Life, broken: str
) -> None:
    life.world.broken = {broken}
    await life.begin()
    await life.until(RequestStatus.HELD)
    state: RequestState = await life.handle.query("state", result_type=RequestState)
    assert f"{broken} is broken" in state.held_reason
    life.world.broken = set()
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "1:1"]


@pytest.mark.parametrize("action", [Action.RELEASE, Action.FAIL])
async def test_what_does_not_fit_is_refused_in_words_and_leaves_no_trace(life: Life, action: Action) -> None:
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.PILOT_RUNNING)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await life.say(action)
    assert f"{action} needs one that is" in str(refused.value.cause)
    life.world.hang_in_follow = False
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_the_same_action_twice_has_one_effect(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await asyncio.gather(life.say(Action.STOP, "same"), life.say(Action.STOP, "same"))
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.done.count("stop_dag") == 1


async def test_signals_work_as_the_updates_do(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    asked = OperatorAction(action=Action.STOP, actor="operator", action_id="x")
    await life.handle.signal("stop", asked)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2"]


async def test_temporals_own_cancel_is_a_stop(real_life: Life) -> None:
    real_life.world.rounds = [Need.ROUND]
    real_life.world.hang_in_follow = True
    await real_life.begin()
    await real_life.until(RequestStatus.ACTIVE)
    await real_life.handle.cancel()
    state = await real_life.end()
    assert state.status is RequestStatus.COMPLETED
    assert real_life.world.statuses[3:7] == ["active", "stopping", "resubmitting", "queued"]
    assert real_life.world.attempts == ["0:1", "0:2"]


async def test_a_cancel_where_no_stop_fits_changes_nothing(real_life: Life) -> None:
    await real_life.begin(RequestStatus.NEW)
    await real_life.until(RequestStatus.NEW)
    await real_life.handle.cancel()
    await real_life.say(Action.RELEASE)
    assert (await real_life.end()).status is RequestStatus.COMPLETED


async def test_a_ledger_that_does_not_add_up_holds_the_request(life: Life) -> None:
    life.world.discrepancies = ("90 events planned in work units, 100 in rounds",)
    await life.begin()
    await life.until(RequestStatus.HELD)
    state: RequestState = await life.handle.query("state", result_type=RequestState)
    assert state.held_reason.startswith("the ledger does not add up: 90 events planned")
    life.world.discrepancies = ()
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_outputs_hear_of_units_that_a_dead_follower_credited(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.ends = [DagOutcome.RUNNING, DagOutcome.RUNNING]
    await life.begin()
    await life.end()
    assert life.world.told == [0, 9, 9]


async def test_an_abort_of_a_request_that_is_held_removes_the_dag_that_nobody_could_follow(
    life: Life,
) -> None:
    life.world.broken = {"follow_dag"}
    await life.begin()
    await life.until(RequestStatus.HELD)
    assert "stop_dag" not in life.world.done
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED
    assert life.world.done.index("stop_dag") < life.world.done.index("close_round")


async def test_an_output_workflow_that_lives_already_is_used(life: Life) -> None:
    order = OutputOrder(request=life.name, dataset=DATASET)
    await life.env.client.start_workflow(
        QuietOutput.run, order, id=output_id(life.name, DATASET), task_queue=WORKFLOWS
    )
    await life.begin()
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_an_abort_does_not_wait_for_an_output_workflow_that_is_gone(life: Life) -> None:
    life.world.broken = {"close_round"}
    await life.begin()
    await life.until(RequestStatus.HELD)
    await life.env.client.get_workflow_handle(output_id(life.name, DATASET)).terminate()
    life.world.broken = set()
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED


async def test_thirty_days_in_the_queue_are_reported_every_week(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    for _ in range(30):
        await life.env.sleep(timedelta(days=1))
    await life.until_alerted(*["long_queued"] * 4)
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED


STUCK: dict[RequestStatus, str] = {
    RequestStatus.SUBMITTED: "next_round",
    RequestStatus.PILOT_RUNNING: "follow_dag",
    RequestStatus.ACTIVE: "follow_dag",
    RequestStatus.RESUBMITTING: "give_back_slot",
}
"""The activity that keeps a request in a status."""


@pytest.mark.parametrize("status", STUCK)
async def test_whoever_is_stuck_in_a_status_is_reported_when_its_time_is_over(
    life: Life, status: RequestStatus
) -> None:
    life.world.rounds = [Need.PILOT if status is RequestStatus.PILOT_RUNNING else Need.ROUND]
    await _get_stuck(life, status, STUCK[status])
    await life.env.sleep(TIME_LIMITS[status] + timedelta(minutes=1))
    await life.until_alerted(f"long_{status}")


@pytest.mark.parametrize(
    ("status", "activity"), [(RequestStatus.PLANNING, "plan_round"), (RequestStatus.STOPPING, "stop_dag")]
)
async def test_work_on_a_submit_host_that_does_not_end_in_time_is_held(
    life: Life, status: RequestStatus, activity: str
) -> None:
    life.world.rounds = [Need.ROUND]
    await _get_stuck(life, status, activity)
    await life.env.sleep(TIME_LIMITS[status] + timedelta(minutes=1))
    await life.until(RequestStatus.HELD)


@pytest.mark.parametrize("status", [RequestStatus.NEW, RequestStatus.HELD])
async def test_whoever_waits_for_a_person_is_reported_when_its_time_is_over(
    life: Life, status: RequestStatus
) -> None:
    life.world.broken = {"next_round"}
    await life.begin(RequestStatus.NEW if status is RequestStatus.NEW else RequestStatus.SUBMITTED)
    await life.until(status)
    await life.env.sleep(TIME_LIMITS[status] + timedelta(minutes=1))
    await life.until_alerted(f"long_{status}")


async def test_a_new_history_does_not_start_the_time_limit_anew(life: Life) -> None:
    life.world.lend_slots = False
    since = await life.env.get_current_time() - timedelta(days=6)
    await life.begin(RequestStatus.QUEUED, status_since=since)
    await life.env.sleep(timedelta(days=1, minutes=1))
    await life.until_alerted("long_queued")


async def test_a_dag_that_nobody_follows_is_reported_again_and_again_and_followed_later(
    real_env: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where time is skipped it stands still while an activity waits for its worker: here the hour is a second.
    monkeypatch.setitem(FOLLOW, "schedule_to_start_timeout", timedelta(seconds=1))
    async with living(real_env, watched=False) as life:
        await life.begin()
        async with asyncio.timeout(PATIENCE_SEC):
            while len(life.world.alerts) < 2:
                await asyncio.sleep(0.1)
        assert set(life.world.alerts) == {"lost_host"}
        async with Worker(real_env.client, task_queue=watch_queue(HOST), activities=life.world.activities()):
            assert (await life.end()).status is RequestStatus.COMPLETED


async def _get_stuck(life: Life, status: RequestStatus, activity: str) -> None:
    life.world.stuck = {activity: TIME_LIMITS[status]}
    after_a_stop = status in (RequestStatus.STOPPING, RequestStatus.RESUBMITTING)
    life.world.hang_in_follow = after_a_stop
    await life.begin()
    if after_a_stop:
        await life.until(RequestStatus.ACTIVE)
        await life.say(Action.STOP)
    await life.until(status)
    life.world.hang_in_follow = False


def test_every_status_that_can_wait_has_its_time_limit() -> None:
    assert set(TIME_LIMITS) == {status for status in RequestStatus if not status.is_final}


def test_no_action_fits_a_request_that_has_ended() -> None:
    for statuses in FITS.values():
        assert not any(status.is_final for status in statuses)
