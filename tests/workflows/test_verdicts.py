"""What a person says of failures that no rule knows: a rule of the request, and perhaps the end of its being held."""

import uuid
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from tests.workflows.life import Life
from wms2.core.remedies import MOST_RULES
from wms2.models.actions import Action
from wms2.models.messages import JudgeAction
from wms2.models.next_round import Need
from wms2.models.policy import FailureRule
from wms2.models.progress import DagOutcome
from wms2.models.request import RequestStatus
from wms2.workflows.judge import WRITE_AGAIN


def judge(name: str = "licence", action_id: str = "", **fields: Any) -> JudgeAction:
    rule = FailureRule(**({"name": name, "category": "transient", "exit_codes": (123,)} | fields))
    return JudgeAction(actor="operator", reason="because", action_id=action_id or uuid.uuid4().hex, rule=rule)


async def waiting_for_a_verdict(life: Life, rounds: int = 1) -> None:
    """Held at its first failure, although a rescue would be left for it."""
    life.world.rounds = [Need.ROUND] * rounds
    life.world.ends = [DagOutcome.PARTIAL]
    life.world.units_waiting = 1
    await life.begin()
    await life.until(RequestStatus.HELD)
    assert "1 of them wait for a verdict" in (await life.state()).held_reason


async def test_a_verdict_lets_a_request_go_on_that_waits_for_it_and_is_a_rule_of_all_later_rounds(
    life: Life,
) -> None:
    await waiting_for_a_verdict(life, rounds=2)
    answer = await life.ask(judge())
    assert "licence is a rule" in answer
    state = await life.end()
    assert state.status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2", "1:1"]
    assert [rule.name for rule in state.rules] == ["licence"]
    assert life.world.rules == [["licence"], ["licence"]]
    (told,) = life.world.audited
    assert (told.action, told.detail) == (
        "judge",
        {"rule": {"name": "licence", "category": "transient", "exit_codes": [123]}},
    )
    assert [decided.detail["rule"] for decided in life.world.decided[:2]] == [
        "failures wait for a verdict", "a verdict lets them try again",
    ]  # fmt: skip


async def test_a_verdict_that_helps_nobody_leaves_the_request_held_with_what_is_known_now(life: Life) -> None:
    await waiting_for_a_verdict(life)
    life.world.verdict_helps = False
    await life.ask(judge())
    held = life.world.statuses.count("held")
    life.world.units_waiting = 1
    life.world.failed_units = 3
    await life.ask(judge("another", exit_codes=(124,)))
    await life.until_held_again(held)
    assert (await life.state()).held_reason.startswith("3 of 10 work units failed")
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED


async def test_the_same_verdict_twice_is_one_and_a_newer_one_of_that_name_replaces_it(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    for _ in range(2):
        await life.ask(judge(action_id="one"))
    await life.ask(judge(category="permanent"))
    state = await life.state()
    assert [(rule.name, str(rule.category)) for rule in state.rules] == [("licence", "permanent")]
    assert [told.action for told in life.world.audited] == ["judge", "judge"]
    life.world.hang_in_follow = False
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1"]


async def test_a_verdict_that_comes_while_the_dag_ends_is_not_forgotten(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    # The verdict is written, and yet this look at the failures was made without it.
    await life.ask(judge())
    await life.until_told("licence")
    life.world.ends, life.world.units_waiting = [DagOutcome.PARTIAL], 1
    life.world.judged_when_reviewed = True
    life.world.hang_in_follow = False
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2"]


async def test_a_submit_host_that_does_not_answer_keeps_nobody_waiting_and_is_reported(life: Life) -> None:
    await waiting_for_a_verdict(life)
    life.world.broken = {"apply_rules"}
    assert "is a rule" in await life.ask(judge())
    await life.until_alerted("rules")
    life.world.broken = set()
    await life.env.sleep(WRITE_AGAIN)
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_a_request_has_only_so_many_verdicts_and_none_once_it_has_ended(life: Life) -> None:
    await waiting_for_a_verdict(life)
    life.world.verdict_helps = False
    for number in range(MOST_RULES):
        await life.ask(judge(f"rule{number}", exit_codes=(1000 + number,)))
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await life.ask(judge("one-more"))
    assert "100 at most" in str(refused.value.cause)
    await life.ask(judge("rule7", category="permanent", exit_codes=(1007,)))
    await life.say(Action.ABORT)
    await life.end()
