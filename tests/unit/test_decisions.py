import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms2.core.decisions import Policy, RoundEnd, Verdict, decide

POLICY = Policy(hold_threshold=0.2, max_rescues=3)


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        (RoundEnd(units=10, units_failed=0), Verdict.COMPLETE),
        (RoundEnd(units=10, units_failed=1), Verdict.RESCUE),
        (RoundEnd(units=10, units_failed=2), Verdict.HOLD),
        (RoundEnd(units=10, units_failed=1, failure_rescues=2), Verdict.RESCUE),
        (RoundEnd(units=10, units_failed=1, failure_rescues=3), Verdict.HOLD),
        (RoundEnd(units=10, units_failed=1, aborted=True), Verdict.HOLD),
        (RoundEnd(units=1, units_failed=1, pilot=True), Verdict.RESCUE),
        (RoundEnd(units=1, units_failed=1, pilot=True, failure_rescues=1), Verdict.HOLD),
        (RoundEnd(units=10, units_failed=9, vanished=True), Verdict.RESCUE),
    ],
)
def test_the_end_of_a_round_is_judged_by_the_table(end: RoundEnd, verdict: Verdict) -> None:
    assert decide(end, POLICY).verdict is verdict


@given(
    units=st.integers(1, 10_000),
    failed=st.integers(1, 10_000),
    rescues=st.integers(0, 10),
    aborted=st.booleans(),
    pilot=st.booleans(),
    vanished=st.booleans(),
)
def test_a_round_with_failures_is_never_complete_and_its_rescues_come_to_an_end(
    units: int, failed: int, rescues: int, aborted: bool, pilot: bool, vanished: bool
) -> None:
    end = RoundEnd(
        units=units, units_failed=min(failed, units), failure_rescues=rescues, aborted=aborted, pilot=pilot,
        vanished=vanished,
    )  # fmt: skip
    decision = decide(end, POLICY)
    assert decision.verdict is not Verdict.COMPLETE
    assert decision.reason
    if rescues >= POLICY.max_rescues or aborted:
        assert decision.verdict is Verdict.HOLD
