"""What rounds on the real pool are found to need, what is recorded of it, and what their submit files say."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.rounds import Round, small_simulation
from wms2.activities.closing import ClosingActivities
from wms2.config import Settings
from wms2.core.sizing import memory_mb, sizing_of
from wms2.db.overview import request_overview
from wms2.db.session import transaction
from wms2.models.messages import ClosedRound, RoundOrder
from wms2.models.overview import RequestOverview
from wms2.models.plan import PilotPlan
from wms2.models.progress import DagOutcome
from wms2.models.sizing import KnownSizing

pytestmark = pytest.mark.pool

TARGET_SEC = 3600


async def closed(round_: Round) -> tuple[ClosedRound, RequestOverview]:
    """The round after its end, closed twice: an activity may be asked for again."""
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    order = RoundOrder(request=round_.request.request_name, round=0, folder=round_.folder)
    closing = ClosingActivities(round_.by_hand.engine, TARGET_SEC)
    first, second = await closing.close_round(order), await closing.close_round(order)
    assert first == second
    with transaction(round_.by_hand.engine) as session:
        return first, request_overview(session, round_.request.request_name)


async def test_a_round_is_measured_beside_its_prediction(stack: Settings) -> None:
    round_ = Round(stack, small_simulation(stack, "measured"))
    ended, overview = await closed(round_)
    (recorded,) = overview.rounds
    assert recorded.predicted is not None
    assert recorded.predicted.sizing == sizing_of(round_.request, None)
    assert recorded.predicted.job_sec == pytest.approx(20 * 0.01)
    found = recorded.measured
    assert found is not None
    assert found.jobs == 6
    written = sum(output.size_bytes for output in overview.outputs)
    assert found.size_per_event_kb == pytest.approx(written / 120 / 1000)
    assert found.merged_kb_per_event == found.size_per_event_kb
    # One length of jobs cannot tell start-up from events.
    assert found.time_per_event_sec == pytest.approx(found.job_sec * 6 / 120)
    assert {item.figure for item in overview.accuracy} == {
        "seconds per event",
        "seconds per job",
        "output kB per event",
    }
    assert ended.sizing is not None
    # Twenty events a job at first; the target is far away, and a factor of two is all that is changed at once.
    assert ended.sizing.events_per_job == 40
    next_ = sizing_of(round_.request, KnownSizing(measured=ended.sizing))
    assert (next_.memory_mb, next_.peak_rss_mb) == (memory_mb(found.peak_rss_mb, 1), found.peak_rss_mb)


async def test_what_a_pilot_measured_is_kept_with_what_follows_from_it(stack: Settings) -> None:
    request = small_simulation(
        stack, "pilot_kept", total_events=400, merge_target_bytes=10**6,
        splitting_params={"events_per_job": 400, "events_per_lumi": 10},
    )  # fmt: skip
    pilot = PilotPlan(first_events=10, time_budget_sec=600, tolerance=0.5)
    ended, overview = await closed(Round(stack, request, pilot=pilot))
    assert overview.pilot is not None
    assert ended.sizing is not None
    assert overview.pilot.events_processed == overview.ledger.events_processed
    assert overview.pilot.recommended_events_per_job == ended.sizing.events_per_job
    assert overview.pilot.memory_peak_mb == ended.sizing.peak_rss_mb
    (step,) = overview.pilot.steps_profiled
    assert (step.step_name, step.threads_used) == ("GEN", 1)
    # Peak memory has no prediction yet, and how far a pilot gets is none.
    assert {item.figure for item in overview.accuracy} == {"seconds per event", "output kB per event"}


def ad_of(settings: Settings, folder: Path, submit_file: str) -> dict[str, str]:
    """The job ad that HTCondor itself makes of a submit file, as DAGMan would submit it."""
    told = subprocess.run(
        ["condor_submit", "-dry-run", "-", "-append", "node = proc_000000", f"../{submit_file}"],
        cwd=folder, env=settings.condor_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return dict(re.findall(r"^(\w+)=(.*)$", told.stdout, re.MULTILINE))


def test_htcondor_understands_what_a_job_asks_for(stack: Settings) -> None:
    fields: dict[str, Any] = {"requires_gpu": True, "cores": 4, "memory_mb": 9000, "time_per_event_sec": 90.0}
    gpu = {"gpu_memory_mb": 8000, "cuda_runtime": "11.2.152", "cuda_capabilities": ["7.5", "8"]}
    round_ = Round(stack, small_simulation(stack, "gpus", gpu_params=gpu, **fields))
    folder = round_.folder / "mg_000000"
    (folder / "site.inc").write_text("landing_sites = T2_US_Purdue\nelected_site = T2_US_Purdue\n")
    (folder / "memory.inc").write_text("")
    job = ad_of(stack, folder, "proc.sub")
    assert (job["RequestCpus"], job["RequestMemory"], job["RequestDisk"]) == ("4", "9000", "500000")
    assert job["MaxWallTimeMins"] == "90"
    assert (job["RequestGPUs"], job["GPUsMinMemory"], job["GPUsMinRuntime"]) == ("1", "8000", "11020")
    assert job["RequireGPUs"] == (
        "member(Capability,{ 7.5,8.0 }) && GlobalMemoryMb >= GPUsMinMemory && MaxSupportedVersion >= GPUsMinRuntime"
    )
    assert "countMatches(MY.RequireGPUs,TARGET.AvailableGPUs) >= RequestGPUs" in job["Requirements"]
    for other in ("merge.sub", "cleanup.sub"):
        small = ad_of(stack, folder, other)
        assert (small["RequestCpus"], small["RequestMemory"]) == ("1", "3000")
        assert "RequestGPUs" not in small
