"""Whoever waits too long is reported, in every status."""

import asyncio
from datetime import timedelta

import pytest
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from temporalio.workflow import Info

from tests.patience import PATIENCE_SEC
from tests.workflows.life import DATASET, HOST, SLOW_DATASET, Life, living
from tests.workflows.test_remedies import release
from tests.workflows.test_verdicts import judge
from wms2.core.time_limits import TIME_LIMITS
from wms2.models.actions import Action
from wms2.models.next_round import Need
from wms2.models.progress import DagOutcome, Sighting
from wms2.models.request import RequestStatus
from wms2.temporal.queues import watch_queue
from wms2.temporal.retries import FOLLOW, LOOK


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
    RequestStatus.PLANNING: "plan_round",
    RequestStatus.PARTIAL: "apply_rules",
    RequestStatus.RESUBMITTING: "give_back_slot",
}
"""The activity that keeps a request in a status in which nothing takes long."""
SHORT = {RequestStatus.PLANNING: timedelta(minutes=10), RequestStatus.PARTIAL: timedelta(minutes=10)}
"""Work on a submit host is given up after an hour, and held for that reason: here the watch comes first."""
LIMITS = {**TIME_LIMITS, **SHORT}
SECOND = timedelta(seconds=1)
SOON = timedelta(seconds=8)
"""A limit on the real server: time enough for all that does not get stuck, on a busy machine too."""
AFTER_A_DAG = (RequestStatus.PARTIAL, RequestStatus.RESUBMITTING)


# Where time is skipped it may stand still after a follower was called back: a stop is tested on the real server.
@pytest.mark.parametrize("status", [status for status in STUCK if status is not RequestStatus.RESUBMITTING])
async def test_what_should_be_quick_and_is_not_is_broken_off_and_held_with_the_reason(
    life: Life, status: RequestStatus
) -> None:
    life.world.rounds, life.world.limits = [Need.ROUND], SHORT
    await _get_stuck(life, status, STUCK[status])
    await life.env.sleep(LIMITS[status] + timedelta(minutes=1))
    await life.until(RequestStatus.HELD)
    assert f"has been {status} since" in (await life.state()).held_reason
    await life.until_alerted(f"long_{status}")


@pytest.mark.parametrize("status", STUCK)
async def test_what_was_broken_off_goes_on_when_it_is_released(
    real_life: Life, status: RequestStatus
) -> None:
    life = real_life
    life.world.rounds, life.world.limits = [Need.ROUND], {status: SOON}
    await _get_stuck(life, status, STUCK[status], 2 * SECOND)
    await life.until(RequestStatus.HELD)
    assert f"has been {status} since" in (await life.state()).held_reason
    await life.until_alert(f"long_{status}")
    life.world.stuck = {}
    await life.ask(release())
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == (["0:1", "0:2"] if status in AFTER_A_DAG else ["0:1"])


async def test_work_on_a_submit_host_that_does_not_end_in_time_is_held(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    await _get_stuck(life, RequestStatus.PLANNING, "plan_round")
    await life.env.sleep(TIME_LIMITS[RequestStatus.PLANNING] + timedelta(minutes=1))
    await life.until(RequestStatus.HELD)
    assert (await life.state()).held_reason == "plan_round failed: not now"


async def test_a_plan_that_no_worker_takes_up_is_broken_off_and_can_be_ended(
    real_env: WorkflowEnvironment,
) -> None:
    async with living(real_env, served=False) as life:
        life.world.rounds = [Need.ROUND]
        life.world.limits = {RequestStatus.PLANNING: SECOND}
        await life.begin()
        await life.until(RequestStatus.HELD)
        assert (await life.state()).open_round is None
        await life.until_alert("long_planning")
        await life.say(Action.ABORT)
        assert (await life.end()).status is RequestStatus.ABORTED


async def test_a_submission_is_never_broken_off(real_life: Life) -> None:
    life = real_life
    life.world.rounds, life.world.limits = [Need.ROUND], {RequestStatus.PLANNING: SOON}
    await _get_stuck(life, RequestStatus.PLANNING, "submit_dag", 2 * SECOND)
    await life.until_alert("long_planning")
    assert (await life.state()).status is RequestStatus.PLANNING
    life.world.stuck = {}
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert RequestStatus.HELD not in life.world.statuses
    assert life.world.attempts == ["0:1"]


@pytest.mark.parametrize("mended", [False, True])
async def test_a_dag_that_does_not_stop_is_asked_once_more_to_and_then_held(
    real_life: Life, mended: bool
) -> None:
    life = real_life
    life.world.rounds, life.world.limits = [Need.ROUND], {RequestStatus.STOPPING: SOON}
    await _get_stuck(life, RequestStatus.STOPPING, "stop_dag", 2 * SECOND)
    await life.until_alert("slow_stop")
    if mended:
        life.world.stuck = {}
        assert (await life.end()).status is RequestStatus.COMPLETED
        return
    await life.until(RequestStatus.HELD)
    state = await life.state()
    assert state.held_reason == "stop_dag failed: not now"
    assert state.open_round is not None
    assert state.open_round.dag is not None


async def test_whoever_is_stopping_for_too_long_is_reported(real_life: Life) -> None:
    life = real_life
    life.world.rounds, life.world.limits = [Need.ROUND], {RequestStatus.STOPPING: SOON}
    # The DAG is gone; what comes then does not get on.
    await _get_stuck(life, RequestStatus.STOPPING, "supersede", 2 * SECOND, word=Action.RESTART)
    await life.until_alert("long_stopping")


RUNNING = [RequestStatus.PILOT_RUNNING, RequestStatus.ACTIVE]


@pytest.mark.parametrize("status", RUNNING)
@pytest.mark.parametrize(
    ("sighting", "alert"),
    [(Sighting.QUEUED, "slow_dag"), (Sighting.NO_SCHEDD, "schedd_unreachable")],
)
async def test_a_dag_that_takes_long_is_looked_for_and_left_to_people(
    life: Life, status: RequestStatus, sighting: Sighting, alert: str
) -> None:
    life.world.sighting = sighting
    await _run_long(life, status)
    await life.env.sleep(TIME_LIMITS[status] + timedelta(minutes=1))
    await life.until_alerted(alert)
    await life.env.sleep(TIME_LIMITS[status])
    await life.until_alerted(alert, alert)
    assert (await life.state()).status is status


@pytest.mark.parametrize("status", RUNNING)
async def test_a_dag_that_is_gone_without_anybody_telling_how_it_ended_is_held(
    life: Life, status: RequestStatus
) -> None:
    life.world.sighting = Sighting.GONE
    await _run_long(life, status)
    await life.env.sleep(TIME_LIMITS[status] + timedelta(hours=1))
    await life.until(RequestStatus.HELD)
    await life.until_alerted("lost_dag")
    assert "has left the queue of here" in (await life.state()).held_reason


@pytest.mark.parametrize("told", [False, True])
async def test_a_dag_that_is_gone_is_followed_again_and_not_submitted_twice(
    real_life: Life, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """Told: its follower says how it ended before the DAG counts as lost."""
    life = real_life
    life.world.rounds, life.world.sighting = [Need.ROUND], Sighting.GONE
    life.world.limits = {RequestStatus.ACTIVE: SOON}
    monkeypatch.setattr("wms2.core.time_limits.LAST_WORD", SECOND if not told else timedelta(hours=1))
    await _get_stuck(life, RequestStatus.ACTIVE, "follow_dag", 2 * SECOND)
    await life.until_done("look_for_dag")
    if not told:
        await life.until(RequestStatus.HELD)
        life.world.stuck = {}
        await life.ask(release())
    life.world.stuck = {}
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert (RequestStatus.HELD in life.world.statuses, "lost_dag" in life.world.alerts) == (
        not told,
        not told,
    )
    assert life.world.attempts == ["0:1"]


async def test_a_submit_host_where_nobody_looks_is_reported(
    real_env: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LOOK, "schedule_to_close_timeout", timedelta(seconds=1))
    async with living(real_env) as life:
        life.world.stuck = {"look_for_dag": timedelta(seconds=10)}
        life.world.limits = {RequestStatus.PILOT_RUNNING: timedelta(seconds=1)}
        life.world.hang_in_follow = True
        await life.begin()
        async with asyncio.timeout(PATIENCE_SEC):
            while not life.world.alerts:
                await asyncio.sleep(0.1)
        assert set(life.world.alerts) == {"lost_host"}
        assert (await life.state()).status is RequestStatus.PILOT_RUNNING


async def test_whoever_waits_for_outputs_for_too_long_is_reported_with_their_names(life: Life) -> None:
    life.world.rounds = []
    await life.begin(datasets=(DATASET, SLOW_DATASET))
    await life.until(RequestStatus.ACTIVE)
    await life.env.sleep(TIME_LIMITS[RequestStatus.ACTIVE] + timedelta(hours=1))
    await life.until_alerted("slow_outputs")
    assert f"waits for {SLOW_DATASET} to be announced" in life.world.told_people[0]


async def test_whoever_waits_for_outputs_is_reported_however_often_its_history_began_anew(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Info, "is_continue_as_new_suggested", lambda _: True)
    life.world.rounds = []
    await life.begin(datasets=(SLOW_DATASET,))
    await life.until(RequestStatus.ACTIVE)
    first = (await life.handle.describe()).run_id
    await life.env.sleep(TIME_LIMITS[RequestStatus.ACTIVE] + timedelta(hours=1))
    await life.until_alerted("slow_outputs")
    assert (await life.handle.describe()).run_id != first
    assert life.world.statuses.count(RequestStatus.ACTIVE) == 1


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


async def test_whoever_waits_for_a_slot_on_the_host_of_its_round_says_so(real_life: Life) -> None:
    life = real_life
    life.world.rounds, life.world.hang_in_follow = [Need.ROUND], True
    life.world.limits = {RequestStatus.QUEUED: SOON}
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    life.world.lend_slots = False
    await life.say(Action.STOP)
    await life.until_alert("long_queued")
    assert life.world.told_people[0].endswith(f"and waits for a slot on {HOST}, where its round is planned")


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


async def test_a_limit_that_was_configured_holds(life: Life) -> None:
    life.world.lend_slots = False
    life.world.limits = {RequestStatus.QUEUED: timedelta(hours=2)}
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await life.env.sleep(timedelta(hours=4, minutes=1))
    await life.until_alerted("long_queued", "long_queued")


async def test_an_alert_that_cannot_be_recorded_does_not_end_the_watch(life: Life) -> None:
    life.world.lend_slots, life.world.broken = False, {"raise_alert"}
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await life.env.sleep(TIME_LIMITS[RequestStatus.QUEUED] + timedelta(minutes=1))
    life.world.broken = set()
    await life.env.sleep(TIME_LIMITS[RequestStatus.QUEUED])
    await life.until_alerted("long_queued")


async def _get_stuck(
    life: Life,
    status: RequestStatus,
    activity: str,
    for_: timedelta | None = None,
    word: Action = Action.STOP,
) -> None:
    life.world.stuck = {activity: for_ or TIME_LIMITS[status]}
    after_a_stop = status in (RequestStatus.STOPPING, RequestStatus.RESUBMITTING)
    life.world.hang_in_follow = after_a_stop or status is RequestStatus.PARTIAL
    await life.begin()
    if after_a_stop:
        await life.until(RequestStatus.ACTIVE)
        await life.say(word)
    if status is RequestStatus.PARTIAL:
        # A verdict that comes while the DAG runs is written before its rescue is submitted.
        await life.until(RequestStatus.ACTIVE)
        await life.ask(judge())
        life.world.ends = [DagOutcome.PARTIAL]
        life.world.hang_in_follow = False
    await life.until(status)
    life.world.hang_in_follow = False


async def _run_long(life: Life, status: RequestStatus) -> None:
    """Nobody tells how the DAG goes."""
    life.world.rounds = [Need.PILOT if status is RequestStatus.PILOT_RUNNING else Need.ROUND]
    await _get_stuck(life, status, "follow_dag")


def test_every_status_has_its_alarm() -> None:
    """Each of them is reached above, and left alone there."""
    rung = {
        *STUCK,
        *RUNNING,
        RequestStatus.NEW,
        RequestStatus.HELD,
        RequestStatus.QUEUED,
        RequestStatus.STOPPING,
    }
    assert rung == set(TIME_LIMITS) == {status for status in RequestStatus if not status.is_final}
