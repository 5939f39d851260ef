"""What jobs need: first the requestor's estimates, then what was measured, and over both an operator's word.

The rules are all here. Memory: a fifth above the measured peak, within what sites offer per core. Length: towards the
target, in steps. Disk: what a job writes and copies to itself, with a margin, within what sites offer per core.
"""

from __future__ import annotations

from typing import Any

from wms2.models.base import LARGEST_EVENT
from wms2.models.messages import SizeAction
from wms2.models.payload import StepType
from wms2.models.plan import Job, RoundPlan, Sizing, WorkUnit
from wms2.models.request import Request
from wms2.models.sizing import KnownSizing, MeasuredRound, MeasuredSizing, PredictedRound, SizingOverride
from wms2.models.splitting import SplittingAlgo

MEMORY_MARGIN = 1.2
LEAST_MB_PER_CORE = 2000
MOST_MB_PER_CORE = 3000

MOST_CHANGE = 2
"""Events per job change by at most this factor from one round to the next."""
ROUNDING = 100
DEFAULT_EVENTS_PER_JOB = 10_000
BY_EVENTS = (SplittingAlgo.EVENT_BASED, SplittingAlgo.EVENT_AWARE_LUMI)

SLOW_BYTES_PER_SEC = 5_000_000
DISK_MARGIN = 2
LEAST_DISK_MB = 500
MOST_DISK_MB_PER_CORE = 20_000
OPENS_ADDRESSES = frozenset({StepType.CMSRUN})
"""Steps that read their input from afar; others get a copy on their machine."""

MOST_MEMORY_MB = 1_000_000
MOST = dict.fromkeys(SizingOverride.model_fields, 10**12) | {"memory_mb": MOST_MEMORY_MB, "cores": 256}
"""What can be asked for at all."""


def sizing_of(request: Request, known: KnownSizing | None) -> Sizing:
    """What a job of the next round is expected to need."""
    measured = known.measured if known else None
    decided = known.override if known else SizingOverride()
    cores = decided.cores or asked_cores(request)
    sizing = _by_the_request(request, cores) if measured is None else _by_measurement(measured, cores)
    return sizing.model_copy(update=_by_the_operator(decided))


def events_per_job(request: Request, known: KnownSizing | None) -> int:
    if known and known.override.events_per_job:
        return known.override.events_per_job
    if known and known.measured:
        return known.measured.events_per_job
    return request.events_per_job if request.splitting_algo in BY_EVENTS else DEFAULT_EVENTS_PER_JOB


def asked_cores(request: Request) -> int:
    """Those of the step that needs most of them: a job runs its steps one after another."""
    return max([request.cores, *_of_steps(request, "cores")])


def _by_the_request(request: Request, cores: int) -> Sizing:
    return Sizing(
        memory_mb=max([request.memory_mb, *_of_steps(request, "memory_mb")]),
        cores=cores,
        time_per_event_sec=request.time_per_event_sec,
        size_per_event_kb=request.size_per_event_kb,
    )


def _by_measurement(measured: MeasuredSizing, cores: int) -> Sizing:
    return Sizing(
        memory_mb=memory_mb(measured.peak_rss_mb, cores),
        cores=cores,
        **measured.model_dump(),
    )


def _by_the_operator(decided: SizingOverride) -> dict[str, float | None]:
    """What the operator's word changes. Figures that were measured beside a figure it replaces go with it."""
    changes: dict[str, float | None] = dict(decided.given)
    if decided.memory_mb:
        changes["peak_rss_mb"] = None
    if decided.time_per_event_sec:
        changes["startup_sec"] = 0.0
    if decided.size_per_event_kb:
        changes |= {"merged_kb_per_event": None, "written_kb_per_event": None}
    return changes


def _of_steps(request: Request, name: str) -> list[int]:
    """A number that steps of the payload may have for themselves."""
    parameters = [step.get("parameters") or {} for step in _steps(request)]
    return [number for number in (step.get(name) for step in parameters) if type(number) is int]


def _steps(request: Request) -> list[dict[str, Any]]:
    steps: Any = request.payload_config["steps"]
    return list(steps)


def memory_mb(peak_rss_mb: int, cores: int) -> int:
    """A fifth above the measured peak, within what sites offer per core."""
    wanted = int(peak_rss_mb * MEMORY_MARGIN)
    return min(max(wanted, LEAST_MB_PER_CORE * cores), MOST_MB_PER_CORE * cores, MOST_MEMORY_MB)


def merge_memory_mb(sizing: Sizing) -> int:
    """Merge and cleanup have one core, whatever the processing has."""
    return min(sizing.memory_mb, MOST_MB_PER_CORE)


def retuned(before: int, wanted: int) -> int:
    """Towards the wanted length, by at most a factor, in hundreds where it is that large."""
    least, most = max(1, -(-before // MOST_CHANGE)), before * MOST_CHANGE
    bounded = max(least, min(wanted, most))
    if bounded < ROUNDING:
        return bounded
    down = bounded - bounded % ROUNDING
    return down if down >= least else min(down + ROUNDING, most)


def next_sizing(
    round_: MeasuredRound, length: int, before: MeasuredSizing | None, target_job_sec: float
) -> MeasuredSizing:
    """After a round whose jobs had `length` events: its figures, the highest peak so far, and a step in length."""
    peak = max(round_.peak_rss_mb, before.peak_rss_mb if before else 0)
    wanted = max(1, int((target_job_sec - round_.startup_sec) / round_.time_per_event_sec))
    figures = round_.model_dump(exclude={"jobs", "job_sec"}) | {"peak_rss_mb": peak}
    return MeasuredSizing(**figures, events_per_job=retuned(length, wanted))


def job_sec(sizing: Sizing, events: float) -> float:
    """How long a job is expected to take. Its cores work together: the time per event is that of all of them."""
    return sizing.startup_sec + events * sizing.time_per_event_sec


def predicted(plan: RoundPlan) -> PredictedRound:
    sizing = plan.snapshot.sizing
    return PredictedRound(sizing=sizing, job_sec=max(1e-6, job_sec(sizing, plan.events / plan.jobs)))


def merge_sec(plan: RoundPlan) -> float:
    """How long the largest merge may take: all its files in and out, over a slow line."""
    largest = max(unit.events for unit in plan.work_units)
    return 2 * largest * plan.snapshot.sizing.size_per_event_kb * 1000 / SLOW_BYTES_PER_SEC


def merged_bytes(sizing: Sizing, events: int) -> float:
    """What is expected of the largest output: it is the one that is to have the size people want."""
    return events * (sizing.merged_kb_per_event or sizing.size_per_event_kb) * 1000


def merged_events(sizing: Sizing, size_bytes: int) -> int:
    """How many events the largest output may have to be within a size."""
    return int(min(size_bytes / merged_bytes(sizing, 1), LARGEST_EVENT))


def processing_disk_mb(plan: RoundPlan) -> int:
    """For the largest job of the round."""
    request, sizing = plan.snapshot.request, plan.snapshot.sizing
    if sizing.disk_mb:
        return sizing.disk_mb
    steps = _steps(request)
    # As long as nothing is measured, each step is taken to write as much as the requestor expects in the end.
    written_kb = sizing.written_kb_per_event or sizing.size_per_event_kb * len(steps)
    copies = steps[0]["type"] not in OPENS_ADDRESSES
    largest = max(
        job.events * written_kb / 1000 + (_input_mb(job) if copies else 0)
        for unit in plan.work_units
        for job in unit.jobs
    )
    return _disk_mb(largest, sizing.cores)


def merge_disk_mb(plan: RoundPlan) -> int:
    """For one merged file at a time: copies of what is merged, and the file itself."""
    sizing, target = plan.snapshot.sizing, plan.snapshot.request.merge_target_bytes
    largest = max(_largest_merge(unit, sizing, target) for unit in plan.work_units)
    return _disk_mb(2 * largest / 10**6, cores=1)


def _largest_merge(unit: WorkUnit, sizing: Sizing, target: int) -> float:
    """Files are merged up to the target; a single one may be larger."""
    single = merged_bytes(sizing, max(job.events for job in unit.jobs))
    return min(merged_bytes(sizing, unit.events), max(single, target))


def _input_mb(job: Job) -> float:
    return sum(part.size_bytes for part in job.files) / 10**6


def _disk_mb(needed: float, cores: int) -> int:
    return int(min(max(DISK_MARGIN * needed, LEAST_DISK_MB), MOST_DISK_MB_PER_CORE * cores))


def size_mistakes(asked: SizeAction, request: Request | None = None) -> list[str]:
    """What is wrong with an operator's word, a sentence for each mistake; more can be said with the request."""
    given = asked.change.given
    mistakes = [f"{name} is {value:g} and must be above 0" for name, value in given.items() if not value > 0]
    mistakes += [
        f"{name} is {value:g} and can be {MOST[name]:g} at most"
        for name, value in given.items()
        if value > MOST[name]
    ]
    if request and "events_per_job" in given and request.splitting_algo not in BY_EVENTS:
        mistakes.append(f"events_per_job does not fit a request that is split {request.splitting_algo}")
    if asked.clear and given:
        mistakes.append("clear forgets all that was decided, so nothing else can be given with it")
    if not asked.clear and not given:
        mistakes.append("nothing was given that could be changed")
    return mistakes
