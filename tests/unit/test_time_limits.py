from datetime import UTC, datetime, timedelta

import pytest

from wms2.core.notices import WHAT_TO_DO, alert_happening, alert_record
from wms2.core.time_limits import (
    HANDLING,
    TIME_LIMITS,
    Overrun,
    Standing,
    is_unattended,
    step_for,
    unattended_step,
)
from wms2.models.messages import Alert
from wms2.models.notice import Audience
from wms2.models.progress import Sighting
from wms2.models.request import RequestStatus

SINCE = datetime(2026, 11, 16, 14, 2, tzinfo=UTC)
TABLE = """
status         seen       then      alert
new            -          remind    long_new
submitted      -          hold      long_submitted
queued         -          remind    long_queued
pilot_running  -          remind    long_pilot_running
pilot_running  queued     remind    slow_dag
pilot_running  gone       hold      lost_dag
pilot_running  no_schedd  remind    schedd_unreachable
pilot_running  no_worker  remind    lost_host
planning       -          hold      long_planning
active         -          remind    long_active
active         queued     remind    slow_dag
active         gone       hold      lost_dag
active         no_schedd  remind    schedd_unreachable
active         no_worker  remind    lost_host
partial        -          hold      long_partial
held           -          remind    long_held
stopping       -          remind    long_stopping
resubmitting   -          hold      long_resubmitting
"""
_HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
OPEN = {status for status in RequestStatus if not status.is_final}


def test_the_tables_speak_of_every_status_that_can_last() -> None:
    assert {row[0] for row in ROWS} == OPEN == set(TIME_LIMITS) == set(HANDLING)


@pytest.mark.parametrize(("status", "seen", "then", "alert"), ROWS)
def test_a_status_that_lasts_too_long_is_handled_as_the_table_says(
    status: str, seen: str, then: str, alert: str
) -> None:
    sighting = None if seen == "-" else Sighting(seen)
    step = step_for(Overrun(RequestStatus(status), SINCE, dag_id="r:1:1", host="here", sighting=sighting))
    assert (step.alert, step.hold) == (alert, then == "hold")
    assert f"has been {status} since 2026-11-16 14:02 UTC" in step.words


def test_nothing_fails_by_itself_and_a_schedd_that_is_away_is_left_to_people() -> None:
    for sighting in (Sighting.NO_SCHEDD, Sighting.NO_WORKER, Sighting.QUEUED):
        assert not step_for(Overrun(RequestStatus.ACTIVE, SINCE, "r:1:1", "here", sighting)).hold


def test_whoever_waits_for_outputs_names_them() -> None:
    step = step_for(Overrun(RequestStatus.ACTIVE, SINCE, waits_for="/A/B-v1/GEN to be announced"))
    assert step.alert == "slow_outputs"
    assert "/A/B-v1/GEN to be announced" in step.words


@pytest.mark.parametrize(
    "kind", sorted({row[3] for row in ROWS} | {"slow_outputs", "slow_stop", "stuck_workflow"})
)
def test_every_alert_reaches_the_operators_and_the_record(kind: str) -> None:
    alert = Alert(request="demo", kind=kind, message="has been so\nfor long")
    assert Audience.OPERATORS in WHAT_TO_DO[alert_happening(alert, "2026-11-16").reason]
    recorded = alert_record(alert, "2026-11-16")
    assert (recorded.action, recorded.detail, recorded.request_name) == ("alert", {"kind": kind}, "demo")
    assert recorded == alert_record(alert, "2026-11-16")
    assert recorded.action_id != alert_record(alert, "2026-11-17").action_id


HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("limit", "lasts", "told", "unattended"),
    [
        (HOUR, HOUR, None, False),
        (HOUR, 2 * HOUR, None, True),
        (HOUR, 2 * HOUR, HOUR, False),
        # Its clock is a little ahead of the record's.
        (HOUR, 2 * HOUR, HOUR - timedelta(minutes=1), False),
        # An alert about something else, before the limit.
        (30 * DAY, 31 * DAY, 10 * DAY, True),
        # Told each hour, and recorded with the same words once a day.
        (HOUR, 24 * HOUR, HOUR, False),
        (HOUR, 3 * DAY, HOUR, True),
        (7 * DAY, 15 * DAY, 7 * DAY, False),
        (7 * DAY, 15 * DAY, 14 * DAY, False),
        (7 * DAY, 30 * DAY, 7 * DAY, True),
    ],
)
def test_a_request_is_unattended_when_its_limit_has_passed_and_nobody_has_said_so(
    limit: timedelta, lasts: timedelta, told: timedelta | None, unattended: bool
) -> None:
    standing = Standing("demo", RequestStatus.PLANNING, SINCE, SINCE + told if told else None)
    assert is_unattended(standing, limit, SINCE + lasts) is unattended


def test_whoever_is_unattended_is_told_of_as_one_that_is_not() -> None:
    step = unattended_step(Standing("demo", RequestStatus.PLANNING, SINCE))
    assert (step.alert, step.hold) == ("long_planning", False)
    assert step.words.startswith(
        "has been planning since 2026-11-16 14:02 UTC, and its workflow has not said"
    )
