"""Grouping jobs into work units whose merged output has the size people want."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

from wms2.core.sizing import merged_events
from wms2.models.plan import Job, Snapshot, WorkUnit


class UnitBudget(NamedTuple):
    """The most that a work unit should have."""

    jobs: int
    events: int

    def holds(self, jobs: int, events: int) -> bool:
        return jobs <= self.jobs and events <= self.events


def unit_budget(snapshot: Snapshot) -> UnitBudget:
    """As many events as the merge target is expected to hold, and no more jobs than one site should get at once."""
    events = merged_events(snapshot.sizing, snapshot.request.merge_target_bytes)
    return UnitBudget(snapshot.limits.jobs_per_work_unit, events)


def group_jobs(jobs: Sequence[Job], snapshot: Snapshot) -> tuple[WorkUnit, ...]:
    """Work units of jobs in the order of their runs, closed when the expected output reaches the merge target.

    Jobs of one unit share their possible sites, because one site runs them all. Jobs that read parts of one
    file are in one unit, however many they are: a file is processed as a whole or not at all. Beyond that a unit
    has one run where that leaves no small ones, because merged files of one run are cheap to read.
    """
    units: list[WorkUnit] = []
    runs = {file.lfn: file.lumis[0][0] for file in snapshot.inputs if file.lumis}
    number, first_job, budget = snapshot.first_work_unit, 0, unit_budget(snapshot)
    for sites, sharing in groupby(jobs, key=attrgetter("sites")):
        for members in _closed_at_target(_by_run(_families(list(sharing)), runs), budget):
            units.append(WorkUnit(number, sites or snapshot.sites, tuple(members), first_job))
            number += 1
            first_job += len(members)
    return tuple(units)


def oversized(units: Sequence[WorkUnit], snapshot: Snapshot) -> list[WorkUnit]:
    """Units that had to be larger than wanted, because their jobs are tied by files."""
    budget = unit_budget(snapshot)
    return [unit for unit in units if len(unit.jobs) > 1 and not budget.holds(len(unit.jobs), unit.events)]


def _by_run(families: Sequence[list[Job]], runs: Mapping[str, int]) -> list[tuple[int, list[Job]]]:
    """Each family with its lowest run, in the order of the runs; 0 where none is known."""
    with_run = [(min(_run(job, runs) for job in family), family) for family in families]
    return sorted(with_run, key=itemgetter(0))


def _run(job: Job, runs: Mapping[str, int]) -> int:
    if job.lumis:
        return job.lumis[0][0]
    return min((runs.get(part.lfn, 0) for part in job.files), default=0)


def _closed_at_target(families: Iterable[tuple[int, list[Job]]], budget: UnitBudget) -> Iterator[list[Job]]:
    current: list[Job] = []
    events, last_run = 0, 0
    for run, family in families:
        more = sum(job.events for job in family)
        full = not budget.holds(len(current) + len(family), events + more)
        # A new run begins a new unit once the old one is at least half full: a smaller one is not worth it.
        half_full = run != last_run and not budget.holds(2 * len(current), 2 * events)
        if current and (full or half_full):
            yield current
            current, events = [], 0
        current.extend(family)
        events += more
        last_run = run
    if current:
        yield current


def _families(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that are tied by files they share, in the order of their first jobs; most stand alone."""
    leaders = list(range(len(jobs)))
    first_reader: dict[str, int] = {}
    for number, job in enumerate(jobs):
        for part in job.files:
            reader = first_reader.setdefault(part.lfn, number)
            if reader != number:
                _tie(leaders, reader, number)
    families: dict[int, list[Job]] = {}
    for number, job in enumerate(jobs):
        families.setdefault(_leader(leaders, number), []).append(job)
    return list(families.values())


def _tie(leaders: list[int], one: int, other: int) -> None:
    first, second = _leader(leaders, one), _leader(leaders, other)
    # The earlier job leads, so that families come in the order of their first jobs.
    leaders[max(first, second)] = min(first, second)


def _leader(leaders: list[int], number: int) -> int:
    while leaders[number] != number:
        leaders[number] = leaders[leaders[number]]
        number = leaders[number]
    return number
