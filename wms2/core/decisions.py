"""What to do when the DAG of a round has ended: the table of the error-handling specification."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from wms2.models.audit import Action
from wms2.models.base import Count, Fraction, Model
from wms2.models.request import Request

DECIDED = "decide"
"""The name of a decision in the audit trail."""
DECIDER = "wms2"


class Verdict(StrEnum):
    COMPLETE = "complete"
    RESCUE = "rescue"
    HOLD = "hold"


class Rule(StrEnum):
    """The rows of the table, in the order in which they are asked."""

    NONE_FAILED = "none failed"
    ABORTED = "the DAG was aborted"
    UNJUDGED = "failures wait for a verdict"
    REMOVED = "the DAG was removed by hand"
    REMOVED_AGAIN = "the DAG was removed by hand again and again"
    JUDGED = "a verdict lets them try again"
    RESCUES_USED_UP = "all rescues used up"
    PILOT_RESCUE = "a pilot gets one rescue"
    DAG_LOST = "the DAG ended without a word"
    ALL_FAILED = "all failed"
    AT_THE_THRESHOLD = "at or above the threshold"
    BELOW_THE_THRESHOLD = "below the threshold"


class RoundEnd(Model):
    """How the DAG of a round ended, in numbers."""

    units: Count
    units_failed: Count
    """Units without output; those that never began because the DAG ended early count too."""
    aborted: bool = False
    vanished: bool = False
    removed: bool = False
    """Somebody took it out of the queue, and WMS2 had not asked for it."""
    removals: Count = 0
    """How often that happened to the round before."""
    units_waiting: Count = 0
    """Of the failed ones, those that are not tried again before a person has judged them."""
    units_judged: Count = 0
    """Of the failed ones, those that a person's verdict lets have another attempt."""
    failure_rescues: Count = 0
    """Rescues after a stop, after a removal and after a verdict are not among them."""
    pilot: bool = False
    causes: str = ""
    """Why they failed, in a few words."""


class Policy(Model):
    hold_threshold: Fraction = 0.2
    max_rescues: Count = 3


USUAL = Policy()


class Decision(Model):
    verdict: Verdict
    rule: Rule
    reason: str = ""

    @property
    def uses_a_rescue(self) -> bool:
        """Whether the rescue is one after failures, of which there are only so many."""
        return self.verdict is Verdict.RESCUE and self.rule not in (Rule.REMOVED, Rule.JUDGED)


PILOT_RESCUES = 1
MOST_REMOVALS = 3
"""So often a DAG that somebody removed by hand is submitted again."""


def with_policy(request: Request, policy: Policy) -> Request:
    """The request with what is configured, where it does not decide that itself."""
    configured = {
        "error_hold_threshold": policy.hold_threshold,
        "error_max_rescue_attempts": policy.max_rescues,
    }
    left = configured.keys() - request.model_fields_set
    return request.model_copy(update={field: configured[field] for field in left})


def decide(end: RoundEnd, policy: Policy) -> Decision:
    """Complete, rescue the same DAG, or hold for a person. FAILED is never decided here."""
    rule = _rule(end, policy)
    if rule is Rule.NONE_FAILED:
        return Decision(verdict=Verdict.COMPLETE, rule=rule)
    reason = f"{_what_is_missing(rule, end)}{_remark(rule, end, policy)}"
    if end.causes:
        reason += f": {end.causes}"
    return Decision(verdict=Verdict.RESCUE if rule in _RESCUED else Verdict.HOLD, rule=rule, reason=reason)


_RESCUED = (Rule.REMOVED, Rule.JUDGED, Rule.PILOT_RESCUE, Rule.DAG_LOST, Rule.BELOW_THE_THRESHOLD)


def _rule(end: RoundEnd, policy: Policy) -> Rule:
    if end.units_failed == 0:
        return Rule.NONE_FAILED
    if end.aborted:
        return Rule.ABORTED
    if end.units_waiting:
        return Rule.UNJUDGED
    # Somebody took it out of the queue: that says nothing against the work.
    if end.removed:
        return Rule.REMOVED if end.removals < MOST_REMOVALS else Rule.REMOVED_AGAIN
    failed = end.units_failed - min(end.units_judged, end.units_failed)
    return Rule.JUDGED if failed == 0 else _rule_of_failures(end, failed, policy)


def _rule_of_failures(end: RoundEnd, failed: int, policy: Policy) -> Rule:
    """`failed` are the units that no verdict speaks for."""
    most = min(PILOT_RESCUES, policy.max_rescues) if end.pilot else policy.max_rescues
    if end.failure_rescues >= most:
        return Rule.RESCUES_USED_UP
    # One work unit is all a pilot has: a ratio would hold it at the first failure.
    if end.pilot:
        return Rule.PILOT_RESCUE
    # Nothing is known of the units of a DAG that vanished, so nothing can be said against them.
    if end.vanished:
        return Rule.DAG_LOST
    if failed >= end.units:
        return Rule.ALL_FAILED
    if failed / end.units >= policy.hold_threshold:
        return Rule.AT_THE_THRESHOLD
    return Rule.BELOW_THE_THRESHOLD


def _what_is_missing(rule: Rule, end: RoundEnd) -> str:
    if rule in (Rule.REMOVED, Rule.REMOVED_AGAIN):
        return f"{end.units_failed} of {end.units} work units are not finished"
    return f"{end.units_failed} of {end.units} work units failed"


def _remark(rule: Rule, end: RoundEnd, policy: Policy) -> str:
    remarks = {
        Rule.ABORTED: ", the DAG was aborted",
        Rule.REMOVED: ", the DAG was removed by hand",
        Rule.REMOVED_AGAIN: f", the DAG was removed {end.removals + 1} times by hand",
        Rule.UNJUDGED: f", {end.units_waiting} of them wait for a verdict",
        Rule.JUDGED: ", a verdict lets them try again",
        Rule.RESCUES_USED_UP: f" after {end.failure_rescues} rescues",
        Rule.AT_THE_THRESHOLD: f", the limit is {policy.hold_threshold:.0%}",
    }
    return remarks.get(rule, "")


def decision_record(dag_id: str, request: str, end: RoundEnd, policy: Policy, decision: Decision) -> Action:
    """The decision with all that it was made from, for the audit trail. The same one is the same record."""
    detail = {
        "dag_id": dag_id,
        "rule": str(decision.rule),
        "verdict": str(decision.verdict),
        "end": end.model_dump(mode="json"),
        "policy": policy.model_dump(mode="json"),
    }
    digest = hashlib.sha256(f"{dag_id} {decision} {end} {policy}".encode()).hexdigest()
    return Action(
        action_id=f"{DECIDED}-{digest[:32]}",
        actor=DECIDER,
        action=DECIDED,
        request_name=request,
        reason=decision.reason,
        detail=detail,
    )
