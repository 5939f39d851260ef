"""What goes into the planning of a round, and what comes out of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass

from wms2.models.base import Count, EventNumber, Model, PositiveCount
from wms2.models.lumis import LumiRange, LumiRanges
from wms2.models.request import Request
from wms2.patterns import BlockName, Dataset, Lfn, SiteName


@lru_cache(maxsize=10_000)
def _shared(sites: tuple[str, ...]) -> tuple[str, ...]:
    """The same sites as the same object: thousands of files lie at the same places."""
    return sites


# No Model: a snapshot holds 100,000 of them, and this takes a tenth of the memory.
@checked_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class InputFile:
    """A file of the input dataset, where it lies and what is in it."""

    lfn: Lfn
    size_bytes: Count
    events: Count
    locations: Annotated[tuple[SiteName, ...], AfterValidator(_shared)]
    lumis: LumiRanges = ()
    block: BlockName | None = None


def _by_name(files: tuple[InputFile, ...]) -> tuple[InputFile, ...]:
    return tuple(sorted(files, key=attrgetter("lfn")))


InputFiles = Annotated[tuple[InputFile, ...], AfterValidator(_by_name)]
"""In the order of their names: a plan and a digest never depend on how the files were listed."""


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(names))


class PileUp(Model):
    """A dataset that steps mix into their events: where all of it is, and its files that have events."""

    dataset: Dataset
    sites: Annotated[tuple[SiteName, ...], AfterValidator(_sorted)]
    events: PositiveCount
    files: Annotated[tuple[Lfn, ...], Field(min_length=1), AfterValidator(_sorted)]


class Sizing(Model):
    """What one job of the round is expected to need."""

    memory_mb: Annotated[int, Field(gt=0, le=1_000_000)]
    peak_rss_mb: PositiveCount | None = None
    """The measured peak that the memory follows from; None when the memory is somebody's word."""
    cores: Annotated[int, Field(gt=0, le=256)] = 1
    time_per_event_sec: Annotated[float, Field(gt=0)]
    """Wall seconds of the whole job with all its cores."""
    startup_sec: Annotated[float, Field(ge=0)] = 0.0
    size_per_event_kb: Annotated[float, Field(gt=0)]
    """All outputs together."""
    merged_kb_per_event: Annotated[float, Field(gt=0)] | None = None
    """Of the largest output alone, measured; None as long as nothing is known but the whole."""
    written_kb_per_event: Annotated[float, Field(gt=0)] | None = None
    """What the steps write on the machine, also when it is no output; measured."""
    disk_mb: PositiveCount | None = None
    """An operator's word; None when it follows from the sizes."""
    events_per_job: PositiveCount | None = None
    """Measured; None as long as the request's own number holds."""


CONCURRENT_WORK_UNITS = 10
"""What a DAG runs at a time: a DAGMan process each, beside its own."""


class Limits(Model):
    """How much of a DAG may be under way at once, how long a job may take over what, and what follows a failure."""

    concurrent_work_units: PositiveCount = CONCURRENT_WORK_UNITS
    jobs_per_work_unit: Annotated[int, Field(gt=0, le=10_000)] = 100
    nodes_per_round: PositiveCount = 10_000
    """Landing, merge and cleanup nodes included. What does not fit waits for a later round."""
    jobs_idle: PositiveCount = 1000
    """Of each DAGMan. Where admission lent the slot, that says how many."""
    jobs_submitted: Count = 5000
    scripts_per_group: PositiveCount = 2
    idle_sec: PositiveCount = 7 * 86400
    held_sec: PositiveCount = 420
    log_scan_sec: PositiveCount = 5
    status_sec: PositiveCount = 30
    cool_off_sec: Count = 60
    """How long a node waits after its first failure that may pass; twice as long after each further one."""
    recovery_dir: str = ""
    """Where an operator installed the scripts that failure handlers may name."""


class PilotPlan(Model):
    """How round 0 measures: N, 2N, 4N events until two iterations agree or the time is used up."""

    first_events: PositiveCount
    time_budget_sec: PositiveCount = 28800
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.1


class Snapshot(Model):
    """All that a round is planned from. Planning is a pure function of it."""

    request: Request
    round: Count = 0
    first_work_unit: Count = 0
    first_event: EventNumber = 1
    first_lumi: PositiveCount = 1
    events: Count = 0
    """Simulation: how many events are to be generated (before any filter), as many of them as fit into a round."""
    files: Count | None = None
    """Input: about how many files the round takes; None for as many as fit."""
    priority: Count = 0
    """Of the round's jobs."""
    inputs: InputFiles = ()
    """Files that no round has tried yet."""
    attempted: InputFiles = ()
    """Files that were tried in vain: taken only when no job can be made of the others."""
    pileups: tuple[PileUp, ...] = ()
    """What the steps mix in; none of it where nobody could be asked."""
    sites: tuple[SiteName, ...]
    """Where the round may run: enabled, allowed by the request, not banned, and with all of its pile-up."""
    sizing: Sizing
    limits: Limits = Limits()
    pilot: PilotPlan | None = None

    @model_validator(mode="after")
    def _each_file_once(self) -> Snapshot:
        times = Counter(file.lfn for file in (*self.inputs, *self.attempted))
        if twice := sorted(lfn for lfn, count in times.items() if count > 1):
            raise ValueError(f"{len(twice)} input files are listed more than once, for example {twice[0]}")
        return self

    @property
    def events_per_job(self) -> int:
        return self.sizing.events_per_job or self.request.events_per_job


# Tuples, because a round has a hundred thousand of them, and they are made three times as fast.
class FileSlice(NamedTuple):
    """A file, or a range of positions in it (inclusive, from 1), that one job reads.

    Events is how many the job reads: with lumi sections chosen, the share that they are expected to hold.
    """

    lfn: str
    size_bytes: int
    events: int
    first_event: int | None = None
    last_event: int | None = None


class Job(NamedTuple):
    """What one processing node does. Sites is where its input lies; empty means that any site will do."""

    events: int
    sites: tuple[str, ...] = ()
    files: tuple[FileSlice, ...] = ()
    first_event: int | None = None
    last_event: int | None = None
    first_lumi: int | None = None
    last_lumi: int | None = None
    lumis: tuple[LumiRange, ...] | None = None
    """What of its files the job reads; None for all of them."""


NODES_BESIDE_PROCESSING = 3
"""Landing, merge and cleanup, once in each work unit."""


def unit_name(number: int) -> str:
    """The name of a work unit's node in the DAG, and of its folder."""
    return f"mg_{number:06d}"


@dataclass(frozen=True)
class WorkUnit:
    """A merge group: jobs that run at one site and whose outputs become one merged file per dataset."""

    number: int
    sites: tuple[str, ...]
    jobs: tuple[Job, ...]
    first_job: int
    """Number of its first job in the round: node names run through the round."""

    @property
    def name(self) -> str:
        return unit_name(self.number)

    @cached_property
    def events(self) -> int:
        return sum(job.events for job in self.jobs)

    @property
    def event_range(self) -> tuple[int, int] | None:
        """First and last event number, for simulation only."""
        first, last = self.jobs[0].first_event, self.jobs[-1].last_event
        if self.jobs[0].files or first is None or last is None:
            return None
        return first, last

    @property
    def node_count(self) -> int:
        return len(self.jobs) + NODES_BESIDE_PROCESSING

    def nodes(self) -> list[tuple[str, Job]]:
        return [(f"proc_{self.first_job + k:06d}", job) for k, job in enumerate(self.jobs)]


@dataclass(frozen=True)
class RoundPlan:
    """A round, ready to be written."""

    snapshot: Snapshot
    work_units: tuple[WorkUnit, ...]
    problems: tuple[str, ...] = field(default=())
    """What the planner left out and why: shown to people, never silent."""
    left: int = 0
    """What waits for later rounds, because this one is full: events of a simulation, else input files."""

    @property
    def jobs(self) -> int:
        return sum(len(unit.jobs) for unit in self.work_units)

    @property
    def events(self) -> int:
        return sum(unit.events for unit in self.work_units)
