"""What is wrong with a person's word on a request, beyond whether it fits the status. A sentence for each mistake."""

from __future__ import annotations

from collections.abc import Sequence

from wms2.core.sizing import MOST
from wms2.models.messages import DropAction, HostLostAction, JudgeAction, ReleaseAction
from wms2.models.policy import FailureRule
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState

MOST_RULES = 100
"""They travel with the state of the request."""


def release_mistakes(asked: ReleaseAction, state: RequestState) -> list[str]:
    round_, changes = state.open_round, asked.changes
    mistakes = []
    if asked.rescue and (round_ is None or round_.produced):
        mistakes.append("no round is open that has something left to rescue; release it without a rescue")
    if asked.rescue and round_ and round_.host_lost:
        mistakes.append(f"the submit host {round_.host} is lost; release it without a rescue")
    if asked.rescue and changes.exclude_files:
        mistakes.append("a rescue runs the round as it was planned, so no file can be excluded with it")
    if state.status is RequestStatus.NEW and changes.exclude_files:
        mistakes.append(
            "its input is not known before its first round is planned, so no file can be excluded yet"
        )
    if changes.memory_mb is not None and changes.memory_mb > MOST["memory_mb"]:
        mistakes.append(f"memory_mb is {changes.memory_mb} and can be {MOST['memory_mb']:g} at most")
    return mistakes


def with_rule(rules: Sequence[FailureRule], rule: FailureRule) -> tuple[FailureRule, ...]:
    """The rules of a request after a verdict: one of the same name is replaced."""
    return (*(known for known in rules if known.name != rule.name), rule)


def judge_mistakes(asked: JudgeAction, state: RequestState) -> list[str]:
    known = [rule for rule in state.rules if rule.name != asked.rule.name]
    if len(known) >= MOST_RULES:
        return [
            f"it has {len(known)} rules by verdict, and can have {MOST_RULES} at most; replace one of them"
        ]
    return []


def host_mistakes(asked: HostLostAction, state: RequestState) -> list[str]:
    round_ = state.open_round
    if round_ is None:
        # Of a plan that nobody heard of, a held request knows no more where it was made.
        plans_there = state.status is RequestStatus.HELD or state.slot_host == asked.host
        return [] if plans_there else [f"it neither plans nor has a round open on {asked.host}"]
    if round_.host != asked.host:
        return [f"no round of it is open on {asked.host}"]
    return [f"it is known that {asked.host} is lost"] if round_.host_lost else []


def drop_mistakes(asked: DropAction, *, simulation: bool | None = None) -> list[str]:
    """More can be said by whoever knows whether the request is a simulation."""
    if len(asked.given) != 1:
        return ["say what to drop: files, all files that are left, work units, or the events that are left"]
    if simulation is True and (asked.files or asked.files_left):
        return ["it is a simulation and reads no files; drop the events that are left, or work units"]
    if simulation is False and asked.events_left:
        return ["it reads files; drop those that are left"]
    return []
