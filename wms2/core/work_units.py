"""Grouping jobs into work units whose merged output has the size people want."""

from collections.abc import Sequence
from itertools import groupby

from wms2.models.plan import Job, Snapshot, WorkUnit


def group_jobs(jobs: Sequence[Job], snapshot: Snapshot) -> tuple[WorkUnit, ...]:
    """Work units of consecutive jobs, closed when the expected output reaches the merge target.

    Jobs of one unit share their possible sites, because one site runs them all. A file that was cut into
    several jobs stays in one unit: it is processed as a whole or not at all.
    """
    units: list[WorkUnit] = []
    number, first_job = snapshot.first_work_unit, 0
    for sites, sharing in groupby(jobs, key=lambda job: job.sites):
        for members in _closed_at_target(list(sharing), snapshot):
            units.append(WorkUnit(number, sites or snapshot.sites, tuple(members), first_job))
            number += 1
            first_job += len(members)
    return tuple(units)


def _closed_at_target(jobs: Sequence[Job], snapshot: Snapshot) -> list[list[Job]]:
    target = snapshot.request.merge_target_bytes
    most = snapshot.limits.jobs_per_work_unit
    groups: list[list[Job]] = []
    current: list[Job] = []
    size = 0.0
    for family in _families(jobs):
        expected = sum(job.events for job in family) * snapshot.sizing.size_per_event_kb * 1000
        if current and (size + expected > target or len(current) + len(family) > most):
            groups.append(current)
            current, size = [], 0.0
        current.extend(family)
        size += expected
    if current:
        groups.append(current)
    return groups


def _families(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that read parts of the same file belong together; every other job stands alone."""
    families: list[list[Job]] = []
    for job in jobs:
        if families and _share_a_file(families[-1][-1], job):
            families[-1].append(job)
        else:
            families.append([job])
    return families


def _share_a_file(one: Job, other: Job) -> bool:
    return bool(one.files and other.files) and one.files[-1].lfn == other.files[0].lfn
