"""Grouping jobs into work units whose merged output has the size people want."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from wms2.models.plan import Job, Snapshot, WorkUnit


def group_jobs(jobs: Sequence[Job], snapshot: Snapshot) -> tuple[WorkUnit, ...]:
    """Work units of jobs in their order, closed when the expected output reaches the merge target.

    Jobs of one unit share their possible sites, because one site runs them all. Jobs that read parts of one
    file are in one unit, however many they are: a file is processed as a whole or not at all.
    """
    units: list[WorkUnit] = []
    number, first_job = snapshot.first_work_unit, 0
    for sites, sharing in groupby(jobs, key=attrgetter("sites")):
        for members in _closed_at_target(list(sharing), snapshot):
            units.append(WorkUnit(number, sites or snapshot.sites, tuple(members), first_job))
            number += 1
            first_job += len(members)
    return tuple(units)


def oversized(units: Sequence[WorkUnit], snapshot: Snapshot) -> list[WorkUnit]:
    """Units that had to be larger than wanted, because their jobs are tied by files."""
    return [
        unit for unit in units if len(unit.jobs) > 1 and _is_too_much(len(unit.jobs), unit.events, snapshot)
    ]


def _closed_at_target(jobs: Sequence[Job], snapshot: Snapshot) -> Iterator[list[Job]]:
    current: list[Job] = []
    events = 0
    for family in _families(jobs):
        more = sum(job.events for job in family)
        if current and _is_too_much(len(current) + len(family), events + more, snapshot):
            yield current
            current, events = [], 0
        current.extend(family)
        events += more
    if current:
        yield current


def _is_too_much(jobs: int, events: int, snapshot: Snapshot) -> bool:
    expected_bytes = events * snapshot.sizing.size_per_event_kb * 1000
    return jobs > snapshot.limits.jobs_per_work_unit or expected_bytes > snapshot.request.merge_target_bytes


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
