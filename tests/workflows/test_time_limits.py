"""Whoever waits too long is reported, in every status."""

import asyncio
from datetime import timedelta

import pytest
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.conftest import PATIENCE_SEC
from tests.workflows.life import HOST, Life, living
from wms2.core.lifecycle import TIME_LIMITS
from wms2.models.actions import Action
from wms2.models.next_round import Need
from wms2.models.request import RequestStatus
from wms2.temporal.queues import watch_queue
from wms2.temporal.retries import FOLLOW


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
