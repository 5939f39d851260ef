"""Mode `pilot`: the chain over N, 2N, 4N ... events until the measurements agree; all output is real output.

In simulation the pilot stops when it knows enough and the rest of its range is abandoned. With input it only stops
measuring: whatever is left of its files is processed in one last run.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import Any, Iterator

from sandbox import cost, portion, processing, steps
from sandbox.failure import BAD_MANIFEST, Failure
from sandbox.job import Job
from sandbox.manifest import Node, PilotPlan
from sandbox.portion import Portion
from sandbox.steps import ChainResult


@dataclass(frozen=True)
class Iteration:
    number: int
    portion: Portion
    result: ChainResult
    output_bytes: int

    @property
    def events(self) -> int:
        """What was really read, where there is something to read: a mask leaves events out."""
        read = self.result.first.metrics.events_read
        return read if self.portion.files and read else self.portion.events

    @property
    def wall_sec(self) -> float:
        return sum(step.metrics.wall_sec for step in self.result.steps.values())

    @property
    def measurement(self) -> tuple[int, float]:
        return self.events, self.wall_sec


class _Plan:
    """Hands out the node's events in portions that double."""

    def __init__(self, node: Node, first_events: int) -> None:
        self._node = node
        self._wanted = first_events
        self._next_event = node.first_event
        self._files = node.files

    @property
    def exhausted(self) -> bool:
        return not self._files if self._node.files else self._next_event > self._node.last_event

    def peek(self) -> int:
        """How many events the next portion would be asked to have."""
        return self._wanted

    def take(self) -> Portion:
        wanted, self._wanted = self._wanted, self._wanted * 2
        if self._node.files:
            # Positions count all events of a file, a mask does not: with one, files stay whole.
            taken, self._files = portion.take_files(self._files, wanted, split=self._node.lumis is None)
            return taken
        taken = portion.next_events(self._node, self._next_event, wanted)
        self._next_event = taken.last_event + 1
        return taken

    def rest(self) -> Portion:
        """All files that are left, in one piece."""
        files, self._files = self._files, ()
        return portion.all_of(files)


def run(job: Job) -> None:
    node = job.manifest.node(job.node)
    settings = job.manifest.pilot
    if settings is None:
        raise Failure(BAD_MANIFEST, "manifest.json says nothing about a pilot")
    plan = _Plan(node, settings.first_events)
    iterations: list[Iteration] = []
    for taken in _measuring(plan, settings, iterations):
        iterations.append(_iterate(job, node, taken, len(iterations) + 1))
    reason = _reason(plan, settings, iterations)
    measured = list(iterations)
    if node.files and not plan.exhausted:
        iterations.append(_iterate(job, node, plan.rest(), len(iterations) + 1))
    job.report.pilot = _report(node, iterations, measured, reason)


def _measuring(plan: _Plan, settings: PilotPlan, iterations: list[Iteration]) -> Iterator[Portion]:
    started = time.monotonic()
    while not plan.exhausted:
        measurements = [iteration.measurement for iteration in iterations]
        if cost.converged(measurements, settings.tolerance):
            return
        elapsed = time.monotonic() - started
        if measurements and elapsed + cost.fit(measurements).of(plan.peek()) > settings.time_budget_sec:
            return
        yield plan.take()


def _reason(plan: _Plan, settings: PilotPlan, iterations: list[Iteration]) -> str:
    if cost.converged([iteration.measurement for iteration in iterations], settings.tolerance):
        return "converged"
    return "all planned events processed" if plan.exhausted else "time budget"


def _iterate(job: Job, node: Node, taken: Portion, number: int) -> Iteration:
    folder = job.folder / f"iteration_{number}"
    result = steps.run_chain(job, node, taken, folder)
    before = len(job.report.outputs)
    processing.stage_out(job, node, result, iteration=number)
    output_bytes = sum(output.size_bytes for output in job.report.outputs[before:])
    shutil.rmtree(folder, ignore_errors=True)
    return Iteration(number, taken, result, output_bytes)


def _report(
    node: Node, iterations: list[Iteration], measured: list[Iteration], reason: str
) -> dict[str, Any]:
    """What was measured, and no more: what follows for the jobs to come is decided where they are planned."""
    fitted = cost.fit([iteration.measurement for iteration in measured])
    return {
        "iterations": [_iteration_record(iteration, iteration in measured) for iteration in iterations],
        "per_step": [_step_record(name, measured) for name in iterations[0].result.steps],
        "time_per_event": fitted.sec_per_event,
        "startup_sec": round(fitted.startup_sec, 3),
        "converged": reason == "converged",
        "stopped": reason,
        "first_event": None if node.files else iterations[0].portion.first_event,
        "last_event": None if node.files else iterations[-1].portion.last_event,
    }


def _iteration_record(iteration: Iteration, measured: bool) -> dict[str, Any]:
    metrics = [step.metrics for step in iteration.result.steps.values()]
    return {
        "iteration": iteration.number,
        "measured": measured,
        "events": iteration.events,
        "events_written": metrics[-1].events_written,
        "wall_time_sec": round(iteration.wall_sec, 3),
        "cpu_time_sec": round(sum(step.cpu_sec for step in metrics), 3),
        "memory_mb": max(step.peak_rss_mb for step in metrics),
        "time_per_event": iteration.wall_sec / max(1, iteration.events),
        "output_bytes": iteration.output_bytes,
    }


def _step_record(name: str, measured: list[Iteration]) -> dict[str, Any]:
    """Per event of the job, not of the step: with a filter before it a step sees fewer."""
    pairs = [(iteration.events, iteration.result.steps[name].metrics) for iteration in measured]
    metrics = [item for _, item in pairs]
    fitted = cost.fit([(events, item.wall_sec) for events, item in pairs])
    wall_sec, cpu_sec = sum(m.wall_sec for m in metrics), sum(m.cpu_sec for m in metrics)
    return {
        "step": name,
        "threads": metrics[0].threads,
        "events": sum(events for events, _ in pairs),
        "wall_time_sec": round(wall_sec, 3),
        "cpu_time_sec": round(cpu_sec, 3),
        "time_per_event": fitted.sec_per_event,
        "startup_sec": round(fitted.startup_sec, 3),
        "memory_mb": max(m.peak_rss_mb for m in metrics),
        "cpu_efficiency": round(cpu_sec / (wall_sec * metrics[0].threads), 3) if wall_sec else 0.0,
        "events_read": sum(m.events_read for m in metrics),
        "events_written": sum(m.events_written for m in metrics),
        "output_bytes": sum(m.output_bytes for m in metrics),
    }
