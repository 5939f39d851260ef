"""`wms2 request show`: how jobs are sized, and how good the predictions were."""

from datetime import UTC, datetime

import pytest

from tests.unit.test_cli_requests import overview
from wms2.cli.request_show import print_overview
from wms2.models.overview import SizedByHand
from wms2.models.request import RequestStatus
from wms2.models.sizing import Comparison, SizingOverride
from wms2.models.workflow import PilotMetrics, StepProfile

PILOT = PilotMetrics(
    time_per_event_sec=3.0, memory_peak_mb=1900, output_size_per_event_kb=12.5, cpu_efficiency=0.58,
    events_processed=700, recommended_events_per_job=9600, recommended_memory_mb=2280,
    recommended_time_per_job_sec=28800,
    steps_profiled=(
        StepProfile(
            step_name="GEN", time_per_event_sec=2.0, memory_peak_mb=1900, output_size_per_event_kb=10.0,
            cpu_efficiency=0.5, threads_used=4,
        ),
    ),
)  # fmt: skip


def test_predictions_stand_beside_measurements_and_bad_ones_are_marked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    accuracy = (
        Comparison(round=1, figure="seconds per event", predicted=10.0, measured=12.0),
        Comparison(round=1, figure="peak memory MB", predicted=2000, measured=2500),
    )
    shown = overview(RequestStatus.ACTIVE, accuracy=accuracy)
    print_overview(shown)
    good, bad = [
        line for line in capsys.readouterr().out.splitlines() if " per event" in line or "peak" in line
    ]
    assert good.split()[-4:] == ["10", "12", "+20", "%"]
    assert "+25 %" in bad
    assert bad.rstrip().endswith("more than 20 %")
    document = shown.model_dump(mode="json")["accuracy"]
    assert [(item["percent"], item["good"]) for item in document] == [(20.0, True), (25.0, False)]


def test_the_pilots_report_is_shown_step_by_step_with_what_follows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_overview(overview(RequestStatus.ACTIVE, pilot=PILOT))
    shown = capsys.readouterr().out
    assert "The pilot, over 700 events" in shown
    assert "9600 events, 2280 MB, 8 h 0 min" in shown
    assert "58 %" in shown


def test_what_an_operator_decided_is_shown_with_who_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    sized = SizedByHand(
        override=SizingOverride(memory_mb=4000, time_per_event_sec=2.5),
        actor="alice",
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        reason="[too small]",
    )
    print_overview(overview(RequestStatus.ACTIVE, sized_by_hand=sized))
    shown = " ".join(capsys.readouterr().out.split())
    assert "memory_mb 4000, time_per_event_sec 2.5; by alice, 2026-01-02 03:04:05: [too small]" in shown
