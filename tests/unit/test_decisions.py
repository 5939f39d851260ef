"""The table of design section 5 is the test."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import simulation
from wms2.config import Settings
from wms2.core.decisions import Policy, RoundEnd, Rule, Verdict, decide, decision_record, with_policy

POLICY = Policy(hold_threshold=0.2, max_rescues=3)
STRICT = Policy(hold_threshold=0.05, max_rescues=1)
LENIENT = Policy(hold_threshold=0.5, max_rescues=5)


@pytest.mark.parametrize(
    ("end", "policy", "verdict", "rule"),
    [
        (RoundEnd(units=10, units_failed=0), POLICY, Verdict.COMPLETE, Rule.NONE_FAILED),
        (RoundEnd(units=10, units_failed=0, aborted=True), POLICY, Verdict.COMPLETE, Rule.NONE_FAILED),
        (RoundEnd(units=10, units_failed=1), POLICY, Verdict.RESCUE, Rule.BELOW_THE_THRESHOLD),
        (RoundEnd(units=10, units_failed=1, failure_rescues=2), POLICY, Verdict.RESCUE, Rule.BELOW_THE_THRESHOLD),
        (RoundEnd(units=10, units_failed=2), POLICY, Verdict.HOLD, Rule.AT_THE_THRESHOLD),
        (RoundEnd(units=10, units_failed=3), POLICY, Verdict.HOLD, Rule.AT_THE_THRESHOLD),
        (RoundEnd(units=10, units_failed=10), POLICY, Verdict.HOLD, Rule.ALL_FAILED),
        (RoundEnd(units=10, units_failed=10), LENIENT, Verdict.HOLD, Rule.ALL_FAILED),
        (RoundEnd(units=10, units_failed=1, aborted=True), POLICY, Verdict.HOLD, Rule.ABORTED),
        (RoundEnd(units=10, units_failed=1, failure_rescues=3), POLICY, Verdict.HOLD, Rule.RESCUES_USED_UP),
        (RoundEnd(units=1, units_failed=1, pilot=True), POLICY, Verdict.RESCUE, Rule.PILOT_RESCUE),
        (RoundEnd(units=1, units_failed=1, pilot=True, failure_rescues=1), POLICY, Verdict.HOLD, Rule.RESCUES_USED_UP),
        (RoundEnd(units=1, units_failed=1, pilot=True, aborted=True), POLICY, Verdict.HOLD, Rule.ABORTED),
        (RoundEnd(units=10, units_failed=9, vanished=True), POLICY, Verdict.RESCUE, Rule.DAG_LOST),
        (RoundEnd(units=9, units_failed=9, vanished=True, failure_rescues=3), POLICY, Verdict.HOLD,
         Rule.RESCUES_USED_UP),
        (RoundEnd(units=10, units_failed=9, removed=True), POLICY, Verdict.RESCUE, Rule.REMOVED),
        (RoundEnd(units=10, units_failed=10, removed=True, removals=2, failure_rescues=3), POLICY, Verdict.RESCUE,
         Rule.REMOVED),
        (RoundEnd(units=1, units_failed=1, removed=True, pilot=True, failure_rescues=1), POLICY, Verdict.RESCUE,
         Rule.REMOVED),
        (RoundEnd(units=10, units_failed=1, removed=True, removals=3), POLICY, Verdict.HOLD, Rule.REMOVED_AGAIN),
        (RoundEnd(units=10, units_failed=1, removed=True, aborted=True), POLICY, Verdict.HOLD, Rule.ABORTED),
        (RoundEnd(units=10, units_failed=1, units_waiting=1), POLICY, Verdict.HOLD, Rule.UNJUDGED),
        (RoundEnd(units=10, units_failed=2, units_waiting=1, units_judged=1), POLICY, Verdict.HOLD, Rule.UNJUDGED),
        (RoundEnd(units=1, units_failed=1, units_waiting=1, pilot=True), POLICY, Verdict.HOLD, Rule.UNJUDGED),
        (RoundEnd(units=10, units_failed=1, units_waiting=1, removed=True), POLICY, Verdict.HOLD, Rule.UNJUDGED),
        (RoundEnd(units=10, units_failed=10, units_judged=10, failure_rescues=3), POLICY, Verdict.RESCUE, Rule.JUDGED),
        (RoundEnd(units=1, units_failed=1, units_judged=1, pilot=True, failure_rescues=1), POLICY, Verdict.RESCUE,
         Rule.JUDGED),
        (RoundEnd(units=10, units_failed=6, units_judged=5), POLICY, Verdict.RESCUE, Rule.BELOW_THE_THRESHOLD),
        (RoundEnd(units=10, units_failed=6, units_judged=4), POLICY, Verdict.HOLD, Rule.AT_THE_THRESHOLD),
        (RoundEnd(units=20, units_failed=1), STRICT, Verdict.HOLD, Rule.AT_THE_THRESHOLD),
        (RoundEnd(units=100, units_failed=1, failure_rescues=1), STRICT, Verdict.HOLD, Rule.RESCUES_USED_UP),
        (RoundEnd(units=10, units_failed=4, failure_rescues=4), LENIENT, Verdict.RESCUE, Rule.BELOW_THE_THRESHOLD),
        (RoundEnd(units=1, units_failed=1, pilot=True), Policy(hold_threshold=0.2, max_rescues=0), Verdict.HOLD,
         Rule.RESCUES_USED_UP),
    ],
)  # fmt: skip
def test_the_end_of_a_round_is_judged_by_the_table(
    end: RoundEnd, policy: Policy, verdict: Verdict, rule: Rule
) -> None:
    decision = decide(end, policy)
    assert (decision.verdict, decision.rule) == (verdict, rule)


def test_a_request_that_does_not_decide_when_it_is_held_is_judged_as_configured() -> None:
    configured = Settings(error_hold_threshold=0.5, error_max_rescue_attempts=1).failure_policy
    own = with_policy(simulation(error_hold_threshold=0.1), configured)
    assert (own.error_hold_threshold, own.error_max_rescue_attempts) == (0.1, 1)
    assert with_policy(simulation(), Settings().failure_policy) == simulation()


def test_the_reason_names_the_main_causes() -> None:
    causes = "3 infrastructure at T2_US_Purdue (60311), 1 permanent (8001)"
    held = decide(RoundEnd(units=10, units_failed=4, causes=causes), POLICY)
    assert held.reason == f"4 of 10 work units failed, the limit is 20%: {causes}"


def test_only_rescues_after_failures_are_used_up() -> None:
    assert decide(RoundEnd(units=10, units_failed=1), POLICY).uses_a_rescue
    for end in (
        RoundEnd(units=10, units_failed=1, removed=True),
        RoundEnd(units=10, units_failed=1, units_judged=1),
        RoundEnd(units=10, units_failed=5),
    ):
        assert not decide(end, POLICY).uses_a_rescue


@given(
    units=st.integers(1, 10_000),
    failed=st.integers(1, 10_000),
    rescues=st.integers(0, 10),
    aborted=st.booleans(),
    pilot=st.booleans(),
    vanished=st.booleans(),
    threshold=st.floats(0.01, 1),
    most=st.integers(0, 5),
)
def test_a_round_with_failures_is_never_complete_and_its_rescues_come_to_an_end(
    units: int,
    failed: int,
    rescues: int,
    aborted: bool,
    pilot: bool,
    vanished: bool,
    threshold: float,
    most: int,
) -> None:
    end = RoundEnd(
        units=units, units_failed=min(failed, units), failure_rescues=rescues, aborted=aborted, pilot=pilot,
        vanished=vanished,
    )  # fmt: skip
    decision = decide(end, Policy(hold_threshold=threshold, max_rescues=most))
    assert decision.verdict is not Verdict.COMPLETE
    assert decision.reason
    if rescues >= most or aborted:
        assert decision.verdict is Verdict.HOLD


def test_the_record_of_a_decision_holds_its_rule_and_all_its_inputs() -> None:
    end = RoundEnd(units=10, units_failed=2, failure_rescues=1)
    record = decision_record("a_request:1:2", "a_request", end, POLICY, decide(end, POLICY))
    assert record.detail == {
        "dag_id": "a_request:1:2",
        "rule": "at or above the threshold",
        "verdict": "hold",
        "end": end.model_dump(mode="json"),
        "policy": {"hold_threshold": 0.2, "max_rescues": 3},
    }
    assert record == decision_record("a_request:1:2", "a_request", end, POLICY, decide(end, POLICY))


def test_another_decision_about_the_same_dag_is_another_record() -> None:
    end = RoundEnd(units=10, units_failed=2)
    ids = {
        decision_record("a_request:1:1", "a_request", end, policy, decide(end, policy)).action_id
        for policy in (POLICY, LENIENT)
    }
    assert len(ids) == 2
