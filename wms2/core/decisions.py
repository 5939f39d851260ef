"""What to do when the DAG of a round has ended: the table of the error-handling specification."""

from __future__ import annotations

from enum import StrEnum

from wms2.models.base import Count, Fraction, Model


class Verdict(StrEnum):
    COMPLETE = "complete"
    RESCUE = "rescue"
    HOLD = "hold"


class RoundEnd(Model):
    """How the DAG of a round ended, in numbers."""

    units: Count
    units_failed: Count
    """Units without output; those that never began because the DAG ended early count too."""
    aborted: bool = False
    vanished: bool = False
    failure_rescues: Count = 0
    pilot: bool = False


class Policy(Model):
    hold_threshold: Fraction
    max_rescues: Count


class Decision(Model):
    verdict: Verdict
    reason: str = ""


PILOT_RESCUES = 1


def decide(end: RoundEnd, policy: Policy) -> Decision:
    """Complete, rescue the same DAG, or hold for a person. FAILED is never decided here."""
    if end.units_failed == 0:
        return Decision(verdict=Verdict.COMPLETE)
    failed = f"{end.units_failed} of {end.units} work units failed"
    if end.aborted:
        return Decision(verdict=Verdict.HOLD, reason=f"the DAG was aborted, {failed}")
    most = min(PILOT_RESCUES, policy.max_rescues) if end.pilot else policy.max_rescues
    if end.failure_rescues >= most:
        return Decision(verdict=Verdict.HOLD, reason=f"{failed} after {end.failure_rescues} rescues")
    # One work unit is all a pilot has: a ratio would hold it at the first failure.
    if not end.pilot and not end.vanished and end.units_failed / end.units >= policy.hold_threshold:
        return Decision(verdict=Verdict.HOLD, reason=f"{failed}, the limit is {policy.hold_threshold:.0%}")
    return Decision(verdict=Verdict.RESCUE, reason=failed)
