"""What jobs ask HTCondor for."""

import time
from pathlib import Path
from typing import Any

import classad2
import pytest

from sandbox.limits import load as load_limits
from tests.factories import input_file, reprocessing, simulation, snapshot
from wms2.core.planning import plan_round
from wms2.core.sizing import MOST_MB_PER_CORE, sizing_of
from wms2.dagman.submit_files import submit_files
from wms2.models.plan import PilotPlan
from wms2.models.request import Request

GPU = {"gpu_memory_mb": 8000, "cuda_runtime": "11.2.152", "cuda_capabilities": ["7.5", "8", "8.6", "8.6.1"]}


def asked(request: Request, file: str = "proc.sub", **changes: Any) -> dict[str, str]:
    """The commands of a submit file."""
    text = submit_files(plan_round(snapshot(request, **changes)))[file]
    return dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)


def minutes(request: Request, **changes: Any) -> int:
    return int(asked(request, **changes)["+MaxWallTimeMins"])


def test_time_per_event_is_that_of_all_cores_together_and_not_divided_by_them() -> None:
    """100 events of 90 s take 150 minutes, with one core or with eight."""
    assert minutes(simulation(time_per_event_sec=90.0)) == 2 * 150 + 30
    assert minutes(simulation(time_per_event_sec=90.0, cores=8)) == 2 * 150 + 30


def test_what_a_job_needs_to_start_counts_once() -> None:
    request = simulation(time_per_event_sec=90.0)
    sizing = sizing_of(request, None).model_copy(update={"startup_sec": 600.0})
    assert minutes(request, sizing=sizing) == 2 * 160 + 30


def test_a_pilot_may_run_for_as_long_as_it_may_measure_however_wrong_the_estimate_is() -> None:
    pilot = PilotPlan(first_events=1, time_budget_sec=7200)
    assert minutes(simulation(time_per_event_sec=0.001)) == 30
    assert minutes(simulation(time_per_event_sec=0.001), pilot=pilot) == 2 * 120 + 30


def test_processing_alone_has_the_cores_and_the_memory_that_go_with_them() -> None:
    request = simulation(cores=8, memory_mb=16000)
    of = {name: asked(request, f"{name}.sub") for name in ("proc", "merge", "cleanup")}
    assert [of[name]["request_cpus"] for name in of] == ["8", "1", "1"]
    assert [of[name]["request_memory"] for name in of] == [
        "$($(node)_memory:16000)",
        f"$($(node)_memory:{MOST_MB_PER_CORE})",
        f"$($(node)_memory:{MOST_MB_PER_CORE})",
    ]


def test_each_kind_of_job_has_disk_of_its_own() -> None:
    request = simulation(
        total_events=10_000,
        splitting_params={"events_per_job": 1000, "events_per_lumi": 100},
        size_per_event_kb=1000.0,
    )
    of = {name: asked(request, f"{name}.sub")["request_disk"] for name in ("proc", "merge", "cleanup")}
    assert of == {"proc": "2000000", "merge": "16000000", "cleanup": "500000"}


def test_a_merge_has_time_for_its_own_bytes_however_short_the_jobs_are() -> None:
    """Ten jobs of a second make 1.2 GB, in and out at 5 MB/s."""
    request = simulation(size_per_event_kb=1200.0, time_per_event_sec=0.01)
    assert minutes(request) == 30
    assert int(asked(request, "merge.sub")["+MaxWallTimeMins"]) == 2 * 8 + 30
    assert int(asked(request, "cleanup.sub")["+MaxWallTimeMins"]) == 90


def test_a_gpu_is_asked_for_with_all_that_it_must_be_able_to_do() -> None:
    request = simulation(requires_gpu=True, gpu_params=GPU)
    found = asked(request)
    assert found["request_gpus"] == "1"
    assert found["gpus_minimum_memory"] == "8000"
    assert found["gpus_minimum_runtime"] == "11.2"
    assert found["require_gpus"] == "member(Capability, {7.5, 8.0, 8.6})"


@pytest.mark.parametrize("file", ["landing.sub", "merge.sub", "cleanup.sub"])
def test_only_processing_needs_a_gpu(file: str) -> None:
    assert not any("gpus" in name for name in asked(simulation(requires_gpu=True, gpu_params=GPU), file))


def test_a_request_without_gpus_asks_for_none() -> None:
    assert not any("gpus" in name for name in asked(simulation()))


def test_lengths_of_jobs_with_input_follow_from_their_files() -> None:
    assert (
        minutes(reprocessing(time_per_event_sec=36.0), inputs=(input_file(1), input_file(2))) == 2 * 120 + 30
    )


@pytest.mark.parametrize("file", ["proc.sub", "merge.sub", "cleanup.sub"])
def test_htcondor_removes_a_job_only_well_after_the_watchdog_in_it_has_ended_it(file: str) -> None:
    """Evaluated by HTCondor itself: the watchdog's own limits are no reason yet, what is a quarter above is one."""
    found = asked(simulation(), file)
    limits = {"RequestMemory": 2000, "RequestDisk": 1_000_000, "MaxWallTimeMins": 60}
    now = int(time.time())
    at_limit = {"MemoryUsage": 2000, "DiskUsage": 1_000_000, "JobCurrentStartDate": now - 3600}
    beyond = {"MemoryUsage": 2500, "DiskUsage": 1_250_000, "JobCurrentStartDate": now - 4500}
    for name, value in at_limit.items():
        ad = classad2.ClassAd({"JobStatus": 2, "EnteredCurrentStatus": now, **limits, **at_limit})
        ad["DESIRED_Sites"] = "T2_DE_DESY"
        ad["remove"] = classad2.ExprTree(found["periodic_remove"])
        ad["why"] = classad2.ExprTree(found["+PeriodicRemoveReason"])
        assert ad.eval("remove") is False, value
        ad[name] = beyond[name]
        assert ad.eval("remove") is True
        words = {"MemoryUsage": "memory", "DiskUsage": "disk", "JobCurrentStartDate": "wall time"}
        assert ad.eval("why").startswith(f"WMS2 {words[name]} far above ")


def test_the_watchdog_ends_a_job_before_its_wall_time_and_at_its_memory_and_disk(tmp_path: Path) -> None:
    ad = tmp_path / ".job.ad"
    ad.write_text("RequestMemory = 2000\nRequestDisk = 1000000\nMaxWallTimeMins = 6.0E1\n")
    limits = load_limits({"_CONDOR_JOB_AD": str(ad)})
    assert (limits.memory_bytes, limits.disk_bytes) == (2000 * 1024**2, 1_000_000 * 1024)
    assert limits.wall_sec == 54 * 60
    assert limits.seconds_to_alarm() < 60 * 60
