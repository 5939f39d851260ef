"""A person's word on a request's priority: in the line for a slot, in the round that runs, in those to come."""

import asyncio
import uuid

import pytest
from temporalio.client import WorkflowUpdateFailedError

from tests.patience import PATIENCE_SEC
from tests.workflows.life import Life
from wms2.core.rounds import RESCUE_RAISE
from wms2.models.actions import Action
from wms2.models.messages import PriorityAction
from wms2.models.next_round import Need
from wms2.models.progress import DagOutcome
from wms2.models.request import RequestStatus


async def prioritise(life: Life, priority: int, action_id: str | None = None) -> str:
    return await life.ask(
        PriorityAction(
            actor="operator", reason="because", action_id=action_id or uuid.uuid4().hex, priority=priority
        )
    )


async def until_ranked(life: Life, *ranks: int) -> None:
    async with asyncio.timeout(PATIENCE_SEC):
        while life.world.ranks != list(ranks):
            await asyncio.sleep(0.05)


async def test_who_waits_for_a_slot_asks_for_it_anew_with_the_new_priority(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.lend_slots = False
    await life.begin()
    await life.until_asked()
    life.world.lend_slots = True
    assert "has the priority 7" in await prioritise(life, 7)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert [asked.priority for asked in life.world.asked] == [1, 7]
    # The same question with another priority, so that it keeps its turn.
    assert life.world.asked[0].age == life.world.asked[1].age
    assert [order.next.priority for order in life.world.planned] == [7]
    assert life.world.ranks == [], "the round was planned with it"


async def test_the_jobs_of_a_running_round_get_it_and_nothing_is_interrupted(life: Life) -> None:
    life.world.rounds = [Need.ROUND, Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await prioritise(life, 9)
    await until_ranked(life, 9)
    life.world.hang_in_follow = False
    state = await life.end()
    assert state.status is RequestStatus.COMPLETED
    assert (state.priority, state.ranked_by_hand) == (9, True)
    assert [order.next.priority for order in life.world.planned] == [1, 9]
    assert life.world.statuses.count("stopping") == 0
    assert [(action.action, action.detail) for action in life.world.audited] == [
        ("priority", {"priority": 9})
    ]


async def test_a_persons_word_takes_the_place_of_the_production_steps(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.step_priority = 5000
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    assert [order.next.priority for order in life.world.planned] == [5000]
    await prioritise(life, 3)
    await until_ranked(life, 3)
    life.world.hang_in_follow = False
    await life.end()


async def test_what_failed_once_goes_first_in_its_rescue(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.ends = [DagOutcome.PARTIAL]
    await life.begin()
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.ranks == [1 + RESCUE_RAISE]


async def test_a_priority_that_is_told_twice_is_set_once(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await prioritise(life, 7, "same")
    await prioritise(life, 8)
    await prioritise(life, 7, "same")
    assert (await life.state()).priority == 8
    await life.say(Action.ABORT)
    await life.end()
    assert [action.action for action in life.world.audited] == ["priority", "priority", "abort"]


async def test_a_round_that_cannot_be_ranked_is_reported_and_goes_on(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    life.world.broken = {"rank_round"}
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await prioritise(life, 9)
    async with asyncio.timeout(PATIENCE_SEC):
        while "rank" not in life.world.alerts:
            await asyncio.sleep(0.05)
    life.world.hang_in_follow = False
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_what_the_record_cannot_hold_is_refused(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await life.ask(PriorityAction(actor="", action_id="x", priority=1))
    assert "the record cannot hold it" in str(refused.value.cause)
    await life.say(Action.ABORT)
    await life.end()
