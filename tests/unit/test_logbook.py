"""What the Web UI says of a request."""

from datetime import UTC, datetime
from pathlib import Path

from wms2.core.logbook import LINE_LENGTH, TO_DO, details, entry
from wms2.models.progress import DagOutcome, RoundProgress
from wms2.models.request import RequestStatus
from wms2.models.request_state import OpenRound, RequestState

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def state(status: RequestStatus, *logbook: str) -> RequestState:
    return RequestState(
        request_name="life", requestor="tester", campaign="Tests", priority=1, datasets=("/A/B-C-v1/RAW",),
        status=status, summary="100 events, for tester in Tests", logbook=logbook,
    )  # fmt: skip


def test_the_first_line_is_where_it_stands_and_the_last_lines_how_it_came_there() -> None:
    log = [
        entry(NOON, status, "why")
        for status in (RequestStatus.QUEUED, RequestStatus.ACTIVE, RequestStatus.HELD)
    ]
    text = details(state(RequestStatus.HELD, *log), None)
    assert text.splitlines()[0] == "2026-01-02 12:00:00 **held** why"
    assert text.splitlines()[-2:] == [f"- {log[1]}", f"- {log[0]}"]
    assert "100 events, for tester in Tests" in text


def test_who_waits_for_a_person_says_what_the_person_can_do() -> None:
    assert "`wms2 request release|drop|restart|fail|abort life`" in details(state(RequestStatus.HELD), None)
    assert "wms2 request" not in details(state(RequestStatus.ACTIVE), None)
    assert set(TO_DO) == {RequestStatus.NEW, RequestStatus.HELD}


def test_an_open_round_is_told_with_its_progress() -> None:
    running = state(RequestStatus.ACTIVE)
    running.open_round = OpenRound(number=2, folder=Path("/f"), host="here", pilot=False, units=10, attempt=3)
    progress = RoundProgress(
        outcome=DagOutcome.RUNNING, units_total=10, units_done=4, units_failed=0, units_running=6, nodes_total=50,
        nodes_done=20, nodes_failed=0, jobs_idle=0, jobs_running=6, jobs_held=0, events_total=1000, events_done=400,
    )  # fmt: skip
    text = details(running, progress)
    assert "- round 2 on here: 10 work units, attempt 3" in text
    assert "- work units 4 of 10 done" in text
    assert "- events 400 of 1000" in text


def test_a_line_is_one_line_however_long_its_reason() -> None:
    line = entry(NOON, RequestStatus.HELD, "word\n" * 500)
    assert len(line) == LINE_LENGTH
    assert "\n" not in line


def test_a_held_request_shows_what_failed_and_one_that_runs_again_does_not() -> None:
    held = state(RequestStatus.HELD)
    held.failures = "| category |\n|---|\n| data |"
    assert "| data |" in details(held, None)
    assert "`wms2 request errors life`" in details(held, None)
    held.status = RequestStatus.ACTIVE
    assert "| data |" not in details(held, None)
