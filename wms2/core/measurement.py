"""What the jobs of a round were measured to need, from what its work units left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from wms2.core.ledger import processed_events
from wms2.core.sizing import job_sec, memory_mb
from wms2.models.merge_output import MergeOutput, PilotReport, PilotStep
from wms2.models.plan import Sizing
from wms2.models.sizing import Comparison, MeasuredRound, MeasuredSizing
from wms2.models.workflow import PilotMetrics, Round, RoundKind, StepProfile

LEAST_EVENT_SHARE = 0.1
"""Of the time of jobs, the part that their events must have for their start-up to be told apart."""
LEAST = 1e-6


def measured_round(outputs: Sequence[MergeOutput], startup_sec: float) -> MeasuredRound | None:
    """The figures of a round; None where nothing ran that could be measured, or jobs say what cannot be.

    A pilot tells its start-up from its events by running several lengths. Jobs of one length cannot: what is
    known of their start-up before is taken off.
    """
    jobs = sum(len(output.nodes) for output in outputs)
    events = sum(processed_events(node) for output in outputs for node in output.nodes.values())
    steps = [step for output in outputs for step in output.metrics.values()]
    seconds = sum(_total(step, "wall_sec") for step in steps)
    if not (jobs and events and seconds):
        return None
    startup_sec, per_event = _pilots_cost(outputs) or _cost(seconds, jobs, events, startup_sec)
    sizes = _bytes_by_dataset(outputs)
    written = sum(_total(step, "output_bytes") for step in steps)
    # The outputs count all the same, and the next round is sized as if this one had not been.
    with suppress(ValidationError):
        return MeasuredRound(
            time_per_event_sec=max(LEAST, per_event),
            startup_sec=startup_sec,
            peak_rss_mb=max(1, *(int(step["peak_rss_mb"]["max"]) for step in steps)),
            size_per_event_kb=max(LEAST, sizes.total() / events / 1000),
            merged_kb_per_event=max(LEAST, max(sizes.values(), default=0) / events / 1000),
            written_kb_per_event=max(LEAST, written / events / 1000),
            jobs=jobs,
            job_sec=seconds / jobs,
        )
    return None


def _total(step: dict[str, Any], figure: str) -> float:
    """Over all jobs of the work unit that ran the step."""
    return float(step[figure]["mean"]) * int(step["jobs"])


def _cost(seconds: float, jobs: int, events: int, startup_sec: float) -> tuple[float, float]:
    """Start-up of a job and time of an event."""
    of_events = seconds - jobs * startup_sec
    if of_events < LEAST_EVENT_SHARE * seconds:
        return 0.0, seconds / events
    return startup_sec, of_events / events


def _pilots_cost(outputs: Sequence[MergeOutput]) -> tuple[float, float] | None:
    report = pilot_report(outputs)
    return None if report is None else (report.startup_sec, report.time_per_event)


def pilot_report(outputs: Sequence[MergeOutput]) -> PilotReport | None:
    """The first one that makes sense; a pilot has one job that measures."""
    for output in outputs:
        for node in output.nodes.values():
            with suppress(ValidationError):
                return PilotReport.model_validate(node.pilot)
    return None


def _bytes_by_dataset(outputs: Sequence[MergeOutput]) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for output in outputs:
        for file in output.files:
            sizes[file.dataset] += file.size_bytes
    return sizes


def pilot_metrics(
    report: PilotReport, round_: MeasuredRound, sizing: MeasuredSizing, cores: int
) -> PilotMetrics:
    """The pilot's report for the record, with what follows from it."""
    wall_sec = sum(step.wall_time_sec * step.threads for step in report.per_step)
    cpu_sec = sum(step.cpu_time_sec for step in report.per_step)
    events = sum(iteration.events for iteration in report.iterations)
    job = Sizing(memory_mb=1, **sizing.model_dump(exclude={"peak_rss_mb"}))
    return PilotMetrics(
        time_per_event_sec=round_.time_per_event_sec,
        memory_peak_mb=round_.peak_rss_mb,
        output_size_per_event_kb=round_.size_per_event_kb,
        cpu_efficiency=round(cpu_sec / wall_sec, 3) if wall_sec else 0.0,
        events_processed=events,
        steps_profiled=tuple(_profile(step) for step in report.per_step),
        recommended_events_per_job=sizing.events_per_job,
        recommended_memory_mb=memory_mb(sizing.peak_rss_mb, cores),
        recommended_time_per_job_sec=max(1, round(job_sec(job, sizing.events_per_job))),
    )


def _profile(step: PilotStep) -> StepProfile:
    return StepProfile(
        step_name=step.step,
        time_per_event_sec=max(LEAST, step.time_per_event),
        memory_peak_mb=max(1, int(step.memory_mb)),
        output_size_per_event_kb=step.output_bytes / max(1, step.events) / 1000,
        cpu_efficiency=step.cpu_efficiency,
        threads_used=step.threads,
    )


def comparisons(round_: Round) -> list[Comparison]:
    """What was predicted of a round beside what was measured, as far as both are known."""
    if round_.predicted is None or round_.measured is None:
        return []
    planned, found = round_.predicted.sizing, round_.measured
    pairs: list[tuple[str, float | None, float]] = [
        ("seconds per event", planned.time_per_event_sec, found.time_per_event_sec),
        # A pilot stops when it knows enough, wherever that is.
        (
            "seconds per job",
            None if round_.kind is RoundKind.PILOT else round_.predicted.job_sec,
            found.job_sec,
        ),
        # Peak beside peak: the request for memory has a margin, and is no prediction.
        ("peak memory MB", planned.peak_rss_mb, found.peak_rss_mb),
        ("output kB per event", planned.size_per_event_kb, found.size_per_event_kb),
    ]
    return [
        Comparison(round=round_.number, figure=figure, predicted=predicted, measured=measured)
        for figure, predicted, measured in pairs
        if predicted is not None
    ]
