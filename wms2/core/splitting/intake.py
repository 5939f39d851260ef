"""The input of a round: what can be read, where, and what is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from wms2.core.splitting.selection import Selection
from wms2.core.splitting.spanning import Spanning, find_spanning
from wms2.models.plan import InputFile, Snapshot

Sites = tuple[str, ...]

NO_SITE = "are at no allowed site"
NO_COMMON_SITE = "share lumi sections with each other, and no allowed site has all of them"
NO_BLOCK = "have no known block, so the block lists cannot choose them"
NO_LUMIS = "have no known lumi sections, so they can neither be chosen nor split by them"
OTHER_BLOCK = "are in no block that the block lists choose"
OTHER_LUMIS = "hold no lumi section that the run lists and the lumi mask choose"
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Files that no job reads, and why."""

    why: str
    files: list[InputFile]

    def __str__(self) -> str:
        examples = ", ".join(file.lfn for file in self.files[:EXAMPLES])
        return f"{len(self.files)} files {self.why} (for example {examples})"


@dataclass(frozen=True, slots=True)
class Intake:
    """Files grouped by the sites that have them and may run the round, in each group by name.

    Groups and files come in a fixed order whatever the order of the inputs, so the same snapshot gives the
    same plan. A group may hold files of which nothing is chosen: splitting passes over them.
    """

    selection: Selection
    groups: list[tuple[Sites, list[InputFile]]]
    spanning: Spanning
    family_of: Mapping[str, int]
    """Which files share lumi sections, directly or through others: those with the same number, by name."""
    left_out: tuple[LeftOut, ...]


def take_in(snapshot: Snapshot, whole_lumis: bool) -> Intake:
    """Sort the files of a snapshot. With `whole_lumis`, files that share lumi sections get into one group."""
    selection = Selection(snapshot.request)
    left_out: dict[str, list[InputFile]] = defaultdict(list)
    files: list[InputFile] = []
    for file in sorted(snapshot.inputs, key=attrgetter("lfn")):
        why = _why_left_out(file, selection, whole_lumis)
        if why:
            left_out[why].append(file)
        if why in (None, OTHER_LUMIS):
            files.append(file)
    spanning = find_spanning([selection.part(file.lumis) for file in files] if whole_lumis else [])
    groups: dict[Sites, list[InputFile]] = defaultdict(list)
    for file, sites in zip(files, _sites(files, spanning, snapshot), strict=True):
        groups[sites].append(file)
    for file in groups.pop((), []):
        if not selection.excludes(file):
            somewhere = set(snapshot.sites).intersection(file.locations)
            left_out[NO_COMMON_SITE if somewhere else NO_SITE].append(file)
    told = tuple(LeftOut(why, unread) for why, unread in sorted(left_out.items()))
    family_of = {files[k].lfn: number for number, family in enumerate(spanning.families) for k in family}
    return Intake(selection, sorted(groups.items()), spanning, family_of, told)


def _why_left_out(file: InputFile, selection: Selection, whole_lumis: bool) -> str | None:
    if selection.by_block:
        if file.block is None:
            return NO_BLOCK
        if not selection.takes_block(file.block):
            return OTHER_BLOCK
    if not file.lumis and (whole_lumis or selection.by_lumi):
        return NO_LUMIS
    return OTHER_LUMIS if selection.by_lumi and not selection.part(file.lumis) else None


def _sites(files: Sequence[InputFile], spanning: Spanning, snapshot: Snapshot) -> list[Sites]:
    """The sites that may read each file. Files that share lumi sections are read together, so where all of them are."""
    if snapshot.request.trust_sitelists:
        return [snapshot.sites] * len(files)
    allowed = set(snapshot.sites)
    known = {file.locations: tuple(sorted(allowed.intersection(file.locations))) for file in files}
    sites = [known[file.locations] for file in files]
    for family in spanning.families:
        common = set(sites[family[0]]).intersection(*(sites[number] for number in family))
        for number in family:
            sites[number] = tuple(sorted(common))
    return sites
