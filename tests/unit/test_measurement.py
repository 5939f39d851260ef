"""What a round's jobs are found to need, and how far its prediction was off."""

from datetime import UTC, datetime
from typing import Any

import pytest

from wms2.core.ledger import produced_unit
from wms2.core.measurement import comparisons, measured_round, pilot_metrics, pilot_report
from wms2.core.sizing import next_sizing
from wms2.models.merge_output import MergeOutput
from wms2.models.plan import Sizing
from wms2.models.sizing import MeasuredRound, PredictedRound
from wms2.models.workflow import Round, RoundKind, RoundStatus

LARGE, SMALL = "/MinBias/Run2024A-Test-v1/GEN-SIM", "/MinBias/Run2024A-Test-v1/DQMIO"


def spread(mean: float, most: float | None = None) -> dict[str, float]:
    return {"min": 0.0, "mean": mean, "max": mean if most is None else most}


def step(jobs: int, wall_sec: float, peak: int = 1000, written: int = 0) -> dict[str, Any]:
    return {
        "jobs": jobs,
        "wall_sec": spread(wall_sec),
        "peak_rss_mb": spread(peak / 2, peak),
        "output_bytes": spread(written),
    }


def file(dataset: str, size: int, number: int = 0) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "lfn": f"/store/mc/{dataset.rpartition('/')[2]}_{number}.root",
        "size_bytes": size,
        "events": 1,
        "adler32": "0" * 8,
        "lumis": [],
        "parents": [],
    }


def node(events: int, **changes: Any) -> dict[str, Any]:
    plain = {"cluster": 1, "events": events, "first_event": 1, "last_event": events, "files": []}
    return plain | changes


def output(nodes: list[dict[str, Any]], metrics: dict[str, Any], files: list[dict[str, Any]]) -> MergeOutput:
    return MergeOutput.model_validate(
        {
            "version": 1, "request": "simulation", "round": 1, "work_unit": 0, "site": "T2_US_Purdue", "cluster": 1,
            "files": files, "nodes": {f"proc_{n:06d}": item for n, item in enumerate(nodes)}, "metrics": metrics,
        }
    )  # fmt: skip


def test_a_round_is_measured_over_all_its_jobs_and_steps() -> None:
    """Two units: two jobs of 100 events and one of 50, two steps one after another."""
    outputs = [
        output(
            [node(100), node(100)],
            {"GEN": step(2, 300.0, 1800, 4_000_000), "RECO": step(2, 100.0, 2500, 1_000_000)},
            [file(LARGE, 1_500_000), file(LARGE, 500_000, 1), file(SMALL, 200_000)],
        ),
        output(
            [node(50)],
            {"GEN": step(1, 150.0, 1700, 2_000_000), "RECO": step(1, 50.0, 2400, 500_000)},
            [file(LARGE, 500_000), file(SMALL, 50_000)],
        ),
    ]
    found = measured_round(outputs, startup_sec=0.0)
    assert found is not None
    assert (found.jobs, found.job_sec) == (3, pytest.approx(1000 / 3))
    assert found.time_per_event_sec == pytest.approx(1000 / 250)
    assert found.peak_rss_mb == 2500
    assert found.size_per_event_kb == pytest.approx(2750 / 250)
    assert found.merged_kb_per_event == pytest.approx(2500 / 250)
    assert found.written_kb_per_event == pytest.approx(12_500 / 250)


def test_start_up_that_is_known_is_not_taken_for_time_of_events() -> None:
    outputs = [output([node(100)], {"GEN": step(1, 600.0)}, [])]
    found = measured_round(outputs, startup_sec=100.0)
    assert found is not None
    assert (found.startup_sec, found.time_per_event_sec) == (100.0, 5.0)


def test_start_up_that_would_leave_nothing_for_events_is_forgotten() -> None:
    outputs = [output([node(100)], {"GEN": step(1, 100.0)}, [])]
    found = measured_round(outputs, startup_sec=99.0)
    assert found is not None
    assert (found.startup_sec, found.time_per_event_sec) == (0.0, 1.0)


def test_events_that_a_mask_left_out_were_not_processed() -> None:
    read = node(100, events_read=20, files=["/store/data/a.root"], first_event=None, last_event=None)
    found = measured_round([output([read], {"RECO": step(1, 100.0)}, [])], startup_sec=0.0)
    assert found is not None
    assert found.time_per_event_sec == 5.0


@pytest.mark.parametrize("nodes", [[], [node(0, last_event=None, first_event=None)]])
def test_a_round_that_processed_nothing_measures_nothing(nodes: list[dict[str, Any]]) -> None:
    assert measured_round([], 0.0) is None
    assert measured_round([output(nodes, {"GEN": step(1, 100.0)}, [])], 0.0) is None


REPORT = {
    "iterations": [{"events": 10}, {"events": 20}],
    "per_step": [
        {
            "step": "GEN", "threads": 4, "events": 30, "wall_time_sec": 100.0, "cpu_time_sec": 200.0,
            "time_per_event": 2.0, "memory_mb": 3000, "output_bytes": 60_000, "cpu_efficiency": 0.5,
        },
        {
            "step": "RECO", "threads": 1, "events": 30, "wall_time_sec": 100.0, "cpu_time_sec": 90.0,
            "time_per_event": 1.0, "memory_mb": 1000, "output_bytes": 30_000, "cpu_efficiency": 0.9,
        },
    ],
    "time_per_event": 3.0,
    "startup_sec": 40.0,
    "last_event": 30,
}  # fmt: skip


def pilot_output() -> MergeOutput:
    metrics = {"GEN": step(1, 100.0, 3000, 60_000), "RECO": step(1, 100.0, 1000, 30_000)}
    return output([node(100, last_event=30, pilot=REPORT)], metrics, [file(LARGE, 30_000)])


def test_a_pilot_tells_start_up_from_events_itself() -> None:
    found = measured_round([pilot_output()], startup_sec=0.0)
    assert found is not None
    assert (found.startup_sec, found.time_per_event_sec) == (40.0, 3.0)
    assert found.size_per_event_kb == 1.0


def test_the_pilots_report_is_kept_with_what_follows_from_it() -> None:
    found = measured_round([pilot_output()], 0.0)
    report = pilot_report([pilot_output()])
    assert found is not None
    assert report is not None
    metrics = pilot_metrics(report, found, next_sizing(found, 5000, None, 28800), cores=4)
    assert metrics.events_processed == 30
    assert (metrics.memory_peak_mb, metrics.recommended_memory_mb) == (3000, 8000)
    assert metrics.recommended_events_per_job == 9500
    assert metrics.recommended_time_per_job_sec == 40 + 3 * 9500
    # 290 s of CPU; 100 s with four threads and 100 s with one.
    assert metrics.cpu_efficiency == pytest.approx(290 / 500)
    assert [(s.step_name, s.threads_used, s.output_size_per_event_kb) for s in metrics.steps_profiled] == [
        ("GEN", 4, 2.0),
        ("RECO", 1, 1.0),
    ]


def closed_round(kind: RoundKind = RoundKind.PRODUCTION, **sizing: Any) -> Round:
    planned = {"memory_mb": 2400, "peak_rss_mb": 2000, "time_per_event_sec": 10.0, "size_per_event_kb": 100.0}
    return Round(
        request_name="simulation", number=0, kind=kind, status=RoundStatus.COMPLETED, snapshot_digest="0" * 64,
        work_units=1, nodes=4, planned_events=100, first_event=1, last_event=100, submit_host="here",
        created_at=datetime.now(UTC), closed_at=None,
        predicted=PredictedRound(sizing=Sizing(**(planned | sizing)), job_sec=1000.0),
        measured=MeasuredRound(
            time_per_event_sec=12.0, startup_sec=0.0, peak_rss_mb=1500, size_per_event_kb=121.0,
            merged_kb_per_event=1.0, written_kb_per_event=1.0, jobs=1, job_sec=900.0,
        ),
    )  # fmt: skip


def test_a_prediction_is_compared_with_what_was_measured_and_called_good_within_a_fifth() -> None:
    found = {item.figure: (item.percent, item.good) for item in comparisons(closed_round())}
    assert found == {
        "seconds per event": (20.0, True),
        "seconds per job": (-10.0, True),
        "peak memory MB": (-25.0, False),
        "output kB per event": (21.0, False),
    }


def test_memory_that_nobody_measured_before_predicts_no_peak() -> None:
    assert "peak memory MB" not in {item.figure for item in comparisons(closed_round(peak_rss_mb=None))}


def test_the_length_of_a_pilot_is_no_prediction() -> None:
    assert "seconds per job" not in {item.figure for item in comparisons(closed_round(RoundKind.PILOT))}


def test_an_open_round_has_nothing_to_compare() -> None:
    assert comparisons(closed_round().model_copy(update={"measured": None})) == []


def reader(**changes: Any) -> dict[str, Any]:
    """A node that read two files."""
    plain = {
        "events_read": 30,
        "files": ["/store/a.root", "/store/b.root"],
        "first_event": None,
        "last_event": None,
    }
    return node(30, **(plain | changes))


def test_an_output_has_the_digest_that_it_had_before_scripts_told_of_single_files() -> None:
    known = "84d900320cb8c996b4450cf91072dd943951743d0b53c240aa804475da07b356"
    told = reader(files_read={"/store/a.root": 10, "/store/b.root": 20})
    assert [output([one], {}, []).digest() for one in (reader(), told)] == [known, known]


def test_what_jobs_read_of_a_file_is_added_up_over_the_work_unit() -> None:
    one = reader(files_read={"/store/a.root": 10, "/store/b.root": 0})
    two = reader(files_read={"/store/b.root": 7})
    assert produced_unit(output([one, two], {}, [])).files_read == {"/store/a.root": 10, "/store/b.root": 7}


def test_where_one_job_cannot_tell_nobody_knows_what_was_read_of_the_files_of_the_unit() -> None:
    one = reader(files_read={"/store/a.root": 10, "/store/b.root": 0})
    assert produced_unit(output([one, reader()], {}, [])).files_read == {}
