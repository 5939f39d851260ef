"""A submit host that does not come back: a person says so, and the round is closed from the ledger alone."""

import uuid
from datetime import timedelta

import pytest
from temporalio.client import WorkflowUpdateFailedError

from tests.workflows.life import HOST, Life
from tests.workflows.test_remedies import release
from tests.workflows.test_verdicts import judge
from wms2.models.actions import Action
from wms2.models.messages import HostLostAction
from wms2.models.next_round import Need
from wms2.models.progress import DagOutcome
from wms2.models.request import RequestStatus
from wms2.temporal.queues import WORKFLOWS, host_queue

SOON = timedelta(seconds=4)


def lost(host: str = HOST) -> HostLostAction:
    return HostLostAction(
        actor="operator", reason="its disk is broken", action_id=uuid.uuid4().hex, host=host
    )


async def running(life: Life) -> None:
    life.world.rounds = [Need.ROUND, Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)


async def test_a_round_on_a_lost_host_is_held_and_its_release_closes_it_without_that_host(life: Life) -> None:
    await running(life)
    await life.ask(lost())
    await life.until(RequestStatus.HELD)
    state = await life.state()
    assert state.held_reason == f"submit host {HOST} is lost, says operator: its disk is broken"
    life.world.hang_in_follow = False
    done = list(life.world.done)
    await life.ask(release())
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert "stop_dag" not in done, "nothing more is asked of the host"
    assert [(order.round, order.folder is None) for order in life.world.closed] == [(0, True), (1, False)]
    assert life.world.closed_by == [WORKFLOWS, host_queue(HOST)]
    assert life.world.attempts == ["0:1", "1:1"]
    assert [told.action for told in life.world.audited] == ["host_lost", "release"]


async def test_a_request_that_is_held_already_hears_of_it_too(life: Life) -> None:
    life.world.rounds = [Need.ROUND, Need.ROUND]
    life.world.ends, life.world.failed_units = [DagOutcome.PARTIAL], 4
    await life.begin()
    await life.until(RequestStatus.HELD)
    held = life.world.statuses.count("held")
    await life.ask(lost())
    await life.until_held_again(held)
    assert (await life.state()).held_reason.endswith("its disk is broken")
    await life.ask(release())
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.closed_by[0] == WORKFLOWS


@pytest.mark.parametrize(
    ("need", "status"), [(Need.PILOT, RequestStatus.QUEUED), (Need.ROUND, RequestStatus.PLANNING)]
)
async def test_a_request_whose_round_is_planned_on_a_lost_host_is_held_at_once_and_plans_it_anew(
    life: Life, need: Need, status: RequestStatus
) -> None:
    life.world.rounds = [need]
    life.world.stuck["plan_round"] = timedelta(hours=1)
    await life.begin()
    await life.until_done("plan_round")
    assert (await life.state()).status is status
    await life.ask(lost())
    await life.until(RequestStatus.HELD)
    state = await life.state()
    assert state.held_reason == f"submit host {HOST} is lost, says operator: its disk is broken"
    assert not state.release_closes_round, "there is none that the request knows of"
    life.world.stuck.clear()
    await life.ask(release())
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert [order.round for order in life.world.planned] == [0], "what was not heard of is withdrawn"
    assert [told.action for told in life.world.audited] == ["host_lost", "release"]


async def test_a_held_request_whose_plan_nobody_heard_of_takes_the_word_that_its_host_is_lost(
    life: Life,
) -> None:
    life.world.broken.add("plan_round")
    await life.begin()
    await life.until(RequestStatus.HELD)
    held = life.world.statuses.count("held")
    await life.ask(lost())
    await life.until_held_again(held)
    life.world.broken.clear()
    await life.ask(release())
    assert (await life.end()).status is RequestStatus.COMPLETED


@pytest.mark.parametrize("word", [Action.STOP, Action.ABORT])
async def test_a_request_that_is_stopping_on_a_lost_host_is_held_at_once_and_not_after_hours(
    real_life: Life, word: Action
) -> None:
    life = real_life
    await running(life)
    life.world.stuck["stop_dag"] = timedelta(hours=1)
    await life.say(word)
    await life.until(RequestStatus.STOPPING)
    await life.until_done("stop_dag")
    await life.ask(lost())
    await life.until(RequestStatus.HELD)
    assert (await life.state()).held_reason.endswith("its disk is broken")
    life.world.hang_in_follow = False
    await life.ask(release())
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.closed_by == [WORKFLOWS, host_queue(HOST)]
    assert life.world.attempts == ["0:1", "1:1"]


async def test_a_request_that_cannot_be_rescued_on_a_lost_host_takes_the_word_when_it_is_held(
    real_life: Life,
) -> None:
    life = real_life
    await running(life)
    life.world.ends, life.world.broken = [DagOutcome.PARTIAL], {"apply_rules"}
    life.world.stuck["apply_rules"] = SOON
    await life.ask(judge())
    life.world.hang_in_follow = False
    await life.until(RequestStatus.PARTIAL)
    await life.ask(lost())
    life.world.stuck.clear()
    await life.until(RequestStatus.HELD)
    await life.until_told("its disk is broken")
    life.world.broken.clear()
    await life.ask(release())
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.closed_by == [WORKFLOWS, host_queue(HOST)]


@pytest.mark.parametrize("action", [Action.ABORT, Action.FAIL, Action.RESTART])
async def test_a_request_on_a_lost_host_can_be_ended_without_it(life: Life, action: Action) -> None:
    await running(life)
    await life.ask(lost())
    await life.until(RequestStatus.HELD)
    await life.say(action)
    assert (await life.end()).status.is_final
    assert "stop_dag" not in life.world.done
    assert life.world.closed_by == [WORKFLOWS]


async def test_what_does_not_fit_a_lost_host_is_refused(life: Life) -> None:
    await running(life)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await life.ask(lost("elsewhere"))
    assert "no round of it is open on elsewhere" in str(refused.value.cause)
    await life.ask(lost())
    await life.until(RequestStatus.HELD)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await life.ask(release(rescue=True))
    assert "is lost; release it without a rescue" in str(refused.value.cause)
    await life.say(Action.ABORT)
    await life.end()
