"""What goes into the planning of a round, and what comes out of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass

from wms2.models.base import Count, EventNumber, Model, PositiveCount
from wms2.models.lumis import LumiRange, LumiRanges
from wms2.models.request import Request
from wms2.patterns import BlockName, Lfn, SiteName


# No Model: a snapshot holds 100,000 of them, and this takes a tenth of the memory.
@checked_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class InputFile:
    """A file of the input dataset, where it lies and what is in it."""

    lfn: Lfn
    size_bytes: Count
    events: Count
    locations: tuple[SiteName, ...]
    lumis: LumiRanges = ()
    block: BlockName | None = None


class Sizing(Model):
    """What one job of the round is expected to need."""

    memory_mb: Annotated[int, Field(gt=0, le=1_000_000)]
    cores: Annotated[int, Field(gt=0, le=256)] = 1
    time_per_event_sec: Annotated[float, Field(gt=0)]
    size_per_event_kb: Annotated[float, Field(gt=0)]
    events_per_job: PositiveCount | None = None
    """Measured; None as long as the request's own number holds."""


class Limits(Model):
    """How much of a DAG may be under way at once, and how long a job may take over what."""

    concurrent_work_units: PositiveCount = 10
    jobs_per_work_unit: Annotated[int, Field(gt=0, le=10_000)] = 100
    jobs_idle: PositiveCount = 1000
    jobs_submitted: Count = 5000
    scripts_per_group: PositiveCount = 2
    idle_sec: PositiveCount = 7 * 86400
    held_sec: PositiveCount = 420
    log_scan_sec: PositiveCount = 5
    status_sec: PositiveCount = 30


class PilotPlan(Model):
    """How round 0 measures: N, 2N, 4N events until two iterations agree or the time is used up."""

    first_events: PositiveCount
    time_budget_sec: PositiveCount = 28800
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.1
    target_job_sec: PositiveCount = 28800


class Snapshot(Model):
    """All that a round is planned from. Planning is a pure function of it."""

    request: Request
    round: Count = 0
    first_work_unit: Count = 0
    first_event: EventNumber = 1
    first_lumi: PositiveCount = 1
    events: Count = 0
    """Simulation: how many events this round generates (before any filter)."""
    inputs: tuple[InputFile, ...] = ()
    sites: tuple[SiteName, ...]
    """Where the round may run: enabled, allowed by the request and not banned."""
    sizing: Sizing
    limits: Limits = Limits()
    pilot: PilotPlan | None = None

    @model_validator(mode="after")
    def _each_file_once(self) -> Snapshot:
        times = Counter(file.lfn for file in self.inputs)
        if twice := sorted(lfn for lfn, count in times.items() if count > 1):
            raise ValueError(f"{len(twice)} input files are listed more than once, for example {twice[0]}")
        return self

    @property
    def events_per_job(self) -> int:
        return self.sizing.events_per_job or self.request.events_per_job

    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


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


def unit_name(number: int) -> str:
    """The name of a work unit's node in the DAG, and of its folder."""
    return f"mg_{number:06d}"


@dataclass(frozen=True, slots=True)
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

    @property
    def events(self) -> int:
        return sum(job.events for job in self.jobs)

    @property
    def event_range(self) -> tuple[int, int] | None:
        """First and last event number, for simulation only."""
        first, last = self.jobs[0].first_event, self.jobs[-1].last_event
        if self.jobs[0].files or first is None or last is None:
            return None
        return first, last

    def nodes(self) -> list[tuple[str, Job]]:
        return [(f"proc_{self.first_job + k:06d}", job) for k, job in enumerate(self.jobs)]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """A round, ready to be written."""

    snapshot: Snapshot
    work_units: tuple[WorkUnit, ...]
    problems: tuple[str, ...] = field(default=())
    """What the planner left out and why: shown to people, never silent."""

    @property
    def jobs(self) -> int:
        return sum(len(unit.jobs) for unit in self.work_units)

    @property
    def events(self) -> int:
        return sum(unit.events for unit in self.work_units)
