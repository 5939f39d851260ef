"""Inputs that are fetched before a request begins, and let go when it ends."""

import asyncio
from datetime import timedelta

import pytest

from tests.patience import PATIENCE_SEC
from tests.workflows.life import INPUT_PATIENCE, Life
from wms2.models.actions import Action
from wms2.models.input_rule import InputProgress
from wms2.models.messages import ReleaseAction
from wms2.models.request import RequestStatus
from wms2.workflows.prefetcher import LOOK_AGAIN

CERN = "T2_CH_CERN"
WHY = "the rule for T2_CH_CERN is stuck with 3 files: no space left"


def seen(there: int, problem: str = "") -> InputProgress:
    return InputProgress(
        rse_expression=CERN, rules=1, rules_ok=int(there == 10), files=10, files_there=there, problem=problem
    )


async def get_stuck(life: Life) -> None:
    life.world.looks = [seen(7, WHY)]
    await life.begin(prefetch=CERN)
    await life.until(RequestStatus.QUEUED)
    await life.env.sleep(INPUT_PATIENCE + 2 * LOOK_AGAIN)
    await life.until(RequestStatus.HELD)


async def test_the_input_is_awaited_before_the_first_slot_is_asked_for(life: Life) -> None:
    life.world.looks = [seen(0), seen(4), seen(10)]
    life.world.lend_slots = False
    await life.begin(prefetch=CERN)
    await life.until(RequestStatus.QUEUED)
    await life.env.sleep(LOOK_AGAIN + timedelta(minutes=1))
    assert life.world.asked == []
    assert (await life.state()).input_progress == f"4 of 10 files at {CERN}"
    await life.env.sleep(LOOK_AGAIN)
    await life.until_told(f"its input is there: 10 of 10 files at {CERN}")
    first, second, third = life.world.looked_at
    assert min(second - first, third - second) >= LOOK_AGAIN == timedelta(minutes=5)
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED
    assert life.world.done.count("release_input") == 1


async def test_an_input_that_was_fetched_is_let_go_once_when_all_is_done(life: Life) -> None:
    life.world.looks = [seen(10)]
    await life.begin(prefetch=CERN)
    assert (await life.end()).status is RequestStatus.COMPLETED
    done = [name for name in life.world.done if name in ("fetch_input", "next_round", "release_input")]
    assert done == ["fetch_input", "next_round", "next_round", "next_round", "release_input"]


async def test_a_request_that_asks_for_nothing_waits_for_nothing(life: Life) -> None:
    await life.begin()
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert not {"fetch_input", "release_input"} & set(life.world.done)


async def test_an_input_that_is_stuck_for_long_holds_the_request_and_a_release_waits_for_it_again(
    life: Life,
) -> None:
    await get_stuck(life)
    assert (await life.state()).held_reason == f"its input does not come to {CERN}: {WHY}"
    looks = len(life.world.looked_at)
    assert life.world.looked_at[-1] - life.world.looked_at[0] >= INPUT_PATIENCE
    assert looks <= INPUT_PATIENCE / LOOK_AGAIN + 2
    assert "release_input" not in life.world.done
    assert life.world.asked == []
    life.world.lend_slots = False
    await life.ask(ReleaseAction(actor="operator", action_id="again"))
    async with asyncio.timeout(PATIENCE_SEC):
        while len(life.world.looked_at) == looks:
            await asyncio.sleep(0.05)
    life.world.looks = [seen(10)]
    await life.env.sleep(LOOK_AGAIN + timedelta(minutes=1))
    await life.until_told("its input is there")
    assert life.world.statuses.count("held") == 1


async def test_what_rucio_refuses_holds_the_request_with_its_reason(life: Life) -> None:
    life.world.looks = [seen(10)]
    life.world.broken = {"fetch_input"}
    await life.begin(prefetch=CERN)
    await life.until(RequestStatus.HELD)
    assert "fetch_input is broken" in (await life.state()).held_reason
    life.world.broken = set()
    await life.ask(ReleaseAction(actor="operator", action_id="again"))
    assert (await life.end()).status is RequestStatus.COMPLETED


@pytest.mark.parametrize("action", [Action.ABORT, Action.RESTART])
async def test_the_input_is_let_go_when_a_person_ends_the_request(life: Life, action: Action) -> None:
    await get_stuck(life)
    await life.say(action)
    assert (await life.end()).status.is_final
    assert life.world.done.count("release_input") == 1


async def test_a_request_ends_also_when_rucio_does_not_let_its_input_go(life: Life) -> None:
    life.world.looks = [seen(10)]
    life.world.broken = {"release_input"}
    await life.begin(prefetch=CERN)
    assert (await life.end()).status is RequestStatus.COMPLETED
