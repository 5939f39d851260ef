"""What `wms2 request watch` and the demo tell of a request: its pace, its end, a line for each change."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_cli_requests import overview
from wms2.cli.observer import NO_WORKER, Sight
from wms2.cli.pace import CHANGES_KEPT, Sample, remembered, rest_seconds
from wms2.cli.request_watch import Lines, line, waits_for
from wms2.models.input_rule import InputProgress
from wms2.models.request import RequestStatus

START = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_the_rest_takes_as_long_as_the_pace_of_the_past_says() -> None:
    assert rest_seconds([Sample(START, 0)], after(100), 250, 1000) == pytest.approx(300)
    assert rest_seconds([Sample(START, 200), Sample(after(50), 250)], after(100), 300, 400) == pytest.approx(
        100
    )


def test_nobody_knows_the_end_without_a_past_or_before_anything_was_done() -> None:
    assert rest_seconds([], after(100), 250, 1000) is None
    assert rest_seconds([Sample(START, 250)], after(100), 250, 1000) is None
    assert rest_seconds([Sample(START, 0)], START, 250, 1000) is None


counts = st.integers(-(10**12), 10**12)


@given(counts, counts, counts, st.floats(-(10**6), 10**6))
def test_the_rest_is_never_negative(before: int, done: int, total: int, seconds: float) -> None:
    left = rest_seconds([Sample(START, before)], after(seconds), done, total)
    assert left is None or left > 0


def test_the_past_begins_with_the_open_round_and_what_was_done_before_it() -> None:
    past = remembered((), after(30), 70, began=START, done_before=20)
    assert past == (Sample(START, 20), Sample(after(30), 70))
    assert remembered(past, after(31), 70, began=START, done_before=None) == past


def test_a_new_round_begins_a_new_past_and_no_round_has_none() -> None:
    past = (Sample(START, 0), Sample(after(10), 50))
    assert remembered(past, after(20), 50, began=after(15), done_before=None) == ()
    assert remembered(past, after(20), 50, began=after(15), done_before=50) == (Sample(after(15), 50),)
    assert remembered(past, after(20), 50, began=None, done_before=None) == ()


def test_the_past_is_recent_in_a_long_round() -> None:
    past: tuple[Sample, ...] = ()
    for done in range(100):
        past = remembered(past, after(done), done, began=START, done_before=0)
    assert len(past) == CHANGES_KEPT
    assert past[-1] == Sample(after(99), 99)
    # It went slowly at first, which does not matter any more.
    assert rest_seconds(past, after(99), 99, 109) == pytest.approx(10)


def test_a_line_says_where_a_request_stands_what_it_waits_for_and_what_is_silent() -> None:
    sight = Sight(START, overview(RequestStatus.ACTIVE, produced=250), troubles=(NO_WORKER,))
    told = line(sight)
    assert "simulation is active: because; 1 of 4 work units, 250 of 1000 events" in told
    assert "waits for the jobs of round 0" in told
    assert told.endswith("`wms2 worker run` starts one; waiting for it")


def test_without_a_terminal_a_line_is_told_once_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    for seconds, produced in enumerate([0, 0, 250, 250]):
        lines.show([Sight(after(seconds), overview(RequestStatus.ACTIVE, produced=produced))])
    told = capsys.readouterr().err.splitlines()
    assert [text[:8] for text in told] == ["00:00:00", "00:00:02"]


def test_a_request_whose_input_is_fetched_waits_for_that_and_not_for_a_slot() -> None:
    fetched = InputProgress(rse_expression="T2_CH_CERN", rules=1, files=10, files_there=4)
    queued = overview(RequestStatus.QUEUED)
    assert waits_for(queued.model_copy(update={"input": fetched})) == (
        "waits for its input: 4 of 10 files at T2_CH_CERN"
    )
    there = fetched.model_copy(update={"rules_ok": 1, "files_there": 10})
    assert waits_for(queued.model_copy(update={"input": there})).startswith("waits for a slot")
