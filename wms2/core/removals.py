"""What a round left on the storage of sites: which files go, and which never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from wms2.models.removal import LeftFile

FILES_PER_JOB = 500
"""What one job removes in its half hour, also where each file takes the start of a program."""
SITES_TOLD = 3


class UnitLeavings(NamedTuple):
    """What the records of a work unit say of its files on storage."""

    named: Sequence[LeftFile]
    """What its attempts staged out, or could not remove."""
    removed: Collection[tuple[str, str]] = ()
    """Site and name of what its cleanup removed."""
    own: tuple[str, ...] = ()
    """How the names of its own files begin: folder and prefix, as it was planned."""

    def owns(self, lfn: str) -> bool:
        return any(lfn.startswith(start) and "/" not in lfn[len(start) :] for start in self.own)


def files_to_remove(units: Iterable[UnitLeavings], credited: Collection[str]) -> tuple[LeftFile, ...]:
    """What was left, each file once for each site. Never one that is credited, and never a stranger's.

    Names come from reports of jobs, that is from outside: only files in a unit's own folders can be its leftovers.
    """
    found: dict[tuple[str, str], LeftFile] = {}
    for unit in units:
        for file in unit.named:
            key = (file.site, file.lfn)
            if unit.owns(file.lfn) and file.lfn not in credited and key not in unit.removed:
                found.setdefault(key, file)
    return tuple(found[key] for key in sorted(found))


def strange_files(units: Iterable[UnitLeavings]) -> tuple[LeftFile, ...]:
    """What was named as left and is no file of its unit: nobody removes it."""
    return tuple(file for unit in units for file in unit.named if not unit.owns(file.lfn))


def shared_out(files: Iterable[LeftFile], most: int = FILES_PER_JOB) -> list[list[LeftFile]]:
    """The files of each job that removes some: all at one site, and so many at most. Always the same."""
    jobs: list[list[LeftFile]] = []
    ordered = sorted(files, key=lambda file: (file.site, file.lfn))
    for _, group in groupby(ordered, key=lambda file: file.site):
        at_site = list(group)
        jobs += [at_site[first : first + most] for first in range(0, len(at_site), most)]
    return jobs


def left_in_words(round_number: int, left: Collection[LeftFile]) -> str:
    """A sentence for people: how many files are left of a round, and where most of them are."""
    at = Counter(file.site for file in left).most_common()
    told = ", ".join(f"{count} at {site}" for site, count in at[:SITES_TOLD])
    more = f" and {len(at) - SITES_TOLD} more sites" if len(at) > SITES_TOLD else ""
    why = Counter(file.reason for file in left).most_common(1)[0][0]
    return f"files of round {round_number} are left on storage and could not be removed: {told}{more}; {why}"
