"""What jobs need: first the requestor's estimates, then what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wms2.models.merge_output import MergeOutput
from wms2.models.plan import Sizing
from wms2.models.request import Request
from wms2.models.sizing import MeasuredSizing
from wms2.models.splitting import SplittingAlgo

MOST_CHANGE = 2
"""Events per job change by at most this factor from one round to the next."""
ROUNDING = 100
MEMORY_MARGIN = 1.2
DEFAULT_EVENTS_PER_JOB = 10_000


def events_per_job(request: Request, measured: MeasuredSizing | None) -> int:
    if measured is not None:
        return measured.events_per_job
    if request.splitting_algo in (SplittingAlgo.EVENT_BASED, SplittingAlgo.EVENT_AWARE_LUMI):
        return request.events_per_job
    return DEFAULT_EVENTS_PER_JOB


def sizing_of(request: Request, measured: MeasuredSizing | None) -> Sizing:
    """What a job of the next round is expected to need."""
    if measured is None:
        return Sizing(
            memory_mb=request.memory_mb,
            cores=request.cores,
            time_per_event_sec=request.time_per_event_sec,
            size_per_event_kb=request.size_per_event_kb,
        )
    return Sizing(
        memory_mb=measured.memory_mb,
        cores=request.cores,
        time_per_event_sec=measured.time_per_event_sec,
        size_per_event_kb=measured.size_per_event_kb,
        events_per_job=measured.events_per_job,
    )


def measured_by_pilot(output: MergeOutput, request: Request) -> MeasuredSizing | None:
    """What the pilot's report says; None when the unit holds no such report."""
    for node in output.nodes.values():
        if node.pilot is not None:
            return _from_report(node.pilot, request)
    return None


def _from_report(report: dict[str, Any], request: Request) -> MeasuredSizing:
    recommended = report["recommended"]
    before = events_per_job(request, None)
    return MeasuredSizing(
        memory_mb=max(1, int(recommended["memory_mb"])),
        time_per_event_sec=max(1e-6, float(report["time_per_event"])),
        size_per_event_kb=max(1e-6, float(recommended["output_size_per_event_kb"])),
        events_per_job=retuned(before, int(recommended["events_per_job"])),
    )


def measured_by_round(
    outputs: Iterable[MergeOutput], before: MeasuredSizing, target_job_sec: int
) -> MeasuredSizing:
    """The sizing after a round: means over its jobs, the memory's peak, and a cautious step in job length."""
    jobs = events = 0
    seconds = bytes_written = peak = 0.0
    for output in outputs:
        events += sum(node.events for node in output.nodes.values())
        for step in output.metrics.values():
            jobs = max(jobs, step["jobs"])
            seconds += step["wall_sec"]["mean"] * step["jobs"]
            peak = max(peak, step["peak_rss_mb"]["max"])
        bytes_written += sum(file.size_bytes for file in output.files)
    if not (jobs and events and seconds and bytes_written):
        return before
    per_event = seconds / events
    return MeasuredSizing(
        memory_mb=max(before.memory_mb, int(peak * MEMORY_MARGIN)),
        time_per_event_sec=per_event,
        size_per_event_kb=bytes_written / events / 1000,
        events_per_job=retuned(before.events_per_job, int(target_job_sec / per_event)),
    )


def retuned(before: int, wanted: int) -> int:
    """Towards the wanted length, by at most a factor, in round numbers."""
    bounded = max(before // MOST_CHANGE, min(wanted, before * MOST_CHANGE), 1)
    return bounded - bounded % ROUNDING if bounded > ROUNDING else bounded
