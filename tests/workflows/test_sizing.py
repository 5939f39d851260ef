"""An operator's word on what jobs need: from the next round on, once, and until it is cleared."""

import uuid
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError

from tests.workflows.life import Life
from wms2.models.messages import SizeAction
from wms2.models.next_round import Need
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState
from wms2.models.sizing import SizingOverride


async def size(life: Life, action_id: str | None = None, clear: bool = False, **fields: Any) -> str:
    asked = SizeAction(
        actor="operator", reason="because", action_id=action_id or uuid.uuid4().hex, clear=clear,
        change=SizingOverride(**fields),
    )  # fmt: skip
    answer: str = await life.handle.execute_update("size", asked, result_type=str)
    return answer


async def state(life: Life) -> RequestState:
    found: RequestState = await life.handle.query("state", result_type=RequestState)
    return found


def planned_with(life: Life) -> list[SizingOverride]:
    return [order.sizing.override for order in life.world.planned]


async def test_an_operators_word_is_in_force_from_the_next_planned_round_on(life: Life) -> None:
    life.world.rounds = [Need.PILOT, Need.ROUND, Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.PILOT_RUNNING)
    answer = await size(life, memory_mb=4000, cores=2)
    assert "memory_mb 4000, cores 2" in answer
    life.world.hang_in_follow = False
    assert (await life.end()).status is RequestStatus.COMPLETED
    decided = SizingOverride(memory_mb=4000, cores=2)
    # It outlives the history of a round.
    assert planned_with(life) == [SizingOverride(), decided, decided]
    assert life.world.statuses.count("stopping") == 0


async def test_words_add_up_and_are_cleared_together(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await size(life, memory_mb=4000)
    await size(life, memory_mb=5000, events_per_job=10)
    assert (await state(life)).override == SizingOverride(memory_mb=5000, events_per_job=10)
    answer = await size(life, clear=True)
    assert "from what was asked for and measured" in answer
    assert (await state(life)).override == SizingOverride()
    assert [entry.detail for entry in life.world.audited] == [
        {"memory_mb": 4000},
        {"memory_mb": 5000, "events_per_job": 10},
        {},
    ]
    assert {(entry.actor, entry.action, entry.reason) for entry in life.world.audited} == {
        ("operator", "size", "because")
    }


async def test_the_same_word_twice_has_one_effect(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await size(life, "once", memory_mb=4000)
    await size(life, cores=4)
    # The same id again, as after a lost answer, with a Temporal that no longer knows the first one.
    await size(life, "once", memory_mb=1)
    assert (await state(life)).override == SizingOverride(memory_mb=4000, cores=4)
    assert len(life.world.audited) == 2


async def test_the_logbook_names_an_operators_word(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await size(life, time_per_event_sec=2.5)
    assert "size by operator: time_per_event_sec 2.5, because" in (await state(life)).logbook[-1]


async def test_every_mistake_is_refused_at_once_and_leaves_no_trace(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await size(life, memory_mb=-1, cores=1000)
    assert "memory_mb is -1 and must be above 0; cores is 1000" in str(refused.value.cause)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await size(life)
    assert "nothing was given" in str(refused.value.cause)
    assert (await state(life)).override == SizingOverride()
    assert life.world.audited == []


async def test_a_held_request_can_be_sized_before_it_is_released(life: Life) -> None:
    await life.begin(RequestStatus.NEW)
    await life.until(RequestStatus.NEW)
    await size(life, disk_mb=9000)
    assert (await state(life)).status is RequestStatus.NEW


async def test_a_request_that_has_ended_is_not_sized(life: Life) -> None:
    await life.begin()
    await life.end()
    with pytest.raises(RPCError):
        await size(life, memory_mb=4000)
    assert life.world.audited == []
