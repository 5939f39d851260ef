"""LumiBased and EventAwareLumiBased: whole lumi sections, some for each job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import chain

from wms2.core.splitting.intake import Intake, Sites
from wms2.core.splitting.pace import EventPace, LumiPace, Pace, average
from wms2.core.work_units import UnitBudget
from wms2.errors import UserError
from wms2.models.lumis import LumiRange, joined, lumi_count
from wms2.models.plan import FileSlice, InputFile, Job, Snapshot
from wms2.models.splitting import EventAwareLumiBased, LumiBased

_BEHIND_ALL = 2**33
"""Minus a lumi section, it is still above all lumi sections."""


Rules = LumiBased | EventAwareLumiBased


def split_by_lumis(intake: Intake, snapshot: Snapshot, budget: UnitBudget | None) -> list[Job]:
    """Exactly `lumis_per_job` lumi sections a job, but for the last of a run, a file to halt at, a chain or a group."""
    params = snapshot.request.splitting_params
    assert isinstance(params, LumiBased)
    return _split(intake, LumiPace(params.lumis_per_job), params, budget)


def split_by_events_in_lumis(intake: Intake, snapshot: Snapshot, budget: UnitBudget | None) -> list[Job]:
    """Whole lumi sections for about `events_per_job` events a job.

    Raises UserError for a lumi section that is expected to take longer than a job may.
    """
    params = snapshot.request.splitting_params
    assert isinstance(params, EventAwareLumiBased)
    _check_time(intake, snapshot, params.job_time_limit_sec)
    return _split(intake, EventPace(snapshot.events_per_job), params, budget)


def _check_time(intake: Intake, snapshot: Snapshot, limit: int) -> None:
    seconds = snapshot.sizing.time_per_event_sec
    for _, files in intake.groups:
        for file in files:
            # The quick test first: it spares nearly all files the others.
            if file.events * seconds > limit and (chosen := intake.selection.part(file.lumis)):
                expected = average(file.events, lumi_count(file.lumis)) * seconds
                if expected > limit:
                    raise _too_long(snapshot.request.request_name, file, chosen[0], expected, limit)


def _too_long(request: str, file: InputFile, lumis: LumiRange, expected: float, limit: int) -> UserError:
    run, lumi, _ = lumis
    return UserError(
        f"{request} cannot be planned: lumi section {lumi} of run {run} in {file.lfn} is expected to take "
        f"{expected:.0f} s, and a job may take {limit} s (error 99305); raise job_time_limit_sec, correct "
        "time_per_event_sec, or leave the lumi section out with lumi_mask"
    )


def _split(intake: Intake, pace: Pace, rules: Rules, budget: UnitBudget | None) -> list[Job]:
    jobs: list[Job] = []
    for sites, files in intake.groups:
        packer = partial(_Packer, sites, intake, pace, rules)
        jobs.extend(_packed(packer, sorted(files, key=_order), intake.family_of, budget))
    return jobs


def _packed(
    packer: Callable[[], _Packer],
    files: list[InputFile],
    family_of: Mapping[str, int],
    budget: UnitBudget | None,
) -> list[Job]:
    """Files that share lumi sections and lie apart change places only where one unit cannot hold all jobs."""
    one_by_one = [(file,) for file in files]
    if budget is None:
        return packer().pack(one_by_one)
    blocks = _blocks(files, family_of)
    if len(blocks) < len(files) and list(chain.from_iterable(blocks)) != files:
        jobs = packer().pack(one_by_one)
        if budget.holds(len(jobs), sum(job.events for job in jobs)):
            return jobs
    return packer().pack(blocks, budget)


def _blocks(files: Sequence[InputFile], family_of: Mapping[str, int]) -> list[Sequence[InputFile]]:
    """Each file by itself, or with all files that it shares lumi sections with, in the place of the first."""
    families: dict[int, list[InputFile]] = {}
    blocks: list[Sequence[InputFile]] = []
    for file in files:
        if (number := family_of.get(file.lfn)) is None:
            blocks.append((file,))
        elif number in families:
            families[number].append(file)
        else:
            families[number] = [file]
            blocks.append(families[number])
    return blocks


def _order(file: InputFile) -> tuple[int, ...]:
    """By the lowest run, then by the list of its lumi sections, whatever is chosen of them.

    The lists are compared lumi section by lumi section. Of two ranges that begin together, one with a gap
    behind it goes last, and the earlier the gap, the later it goes.
    """
    if len(file.lumis) == 1:
        return file.lumis[0]
    run = file.lumis[0][0]
    *before, (_, first, last) = [lumis for lumis in file.lumis if lumis[0] == run]
    return run, *(number for _, start, end in before for number in (start, _BEHIND_ALL - end)), first, last


class _Packer:
    """Fills one job after the other with the lumi sections of files at the same sites.

    A lumi section that spans files goes to the job that comes to it first and counts once. Its other files
    are given to that job too, however late they come.

    Jobs that share files are a chain, which no work unit can break. With a budget, a chain ends at the last
    file at which it is still within it: there a job takes less than it could.
    """

    def __init__(self, sites: Sites, intake: Intake, pace: Pace, rules: Rules) -> None:
        self._sites = sites
        self._selection = intake.selection
        self._spanning = intake.spanning
        self._pace = pace
        self._halts = rules.halt_at_file_boundaries
        self._splits_on_run = rules.split_on_run
        self._jobs: list[Job] = []
        # The chain at hand: its jobs but for the one at hand, and the events of all.
        self._chain_jobs = self._chain_events = 0
        # The job at hand: its last run, and whether it takes no more.
        self._lumis: list[LumiRange] = []
        self._slices: list[FileSlice] = []
        self._events = 0
        self._run = 0
        self._ended = True
        # The file at hand: whether it is the first of its block, what of it was given to jobs, and what the job
        # at hand took since.
        self._block_begins = True
        self._file_lumis = self._lumis_given = self._events_given = self._taken = 0
        # Lumi sections that span files, with the jobs that have them; slices that came late to their jobs.
        self._owners: dict[tuple[int, int], int] = {}
        self._late: dict[int, dict[str, FileSlice]] = defaultdict(dict)

    def pack(self, blocks: Iterable[Sequence[InputFile]], budget: UnitBudget | None = None) -> list[Job]:
        """Read files block by block; a chain ends between blocks only."""
        for block in blocks:
            if budget and not self._fits(block, budget):
                self._ended = True
            self._read_block(block)
        self._close()
        for number, slices in self._late.items():
            self._jobs[number] = _with_files(self._jobs[number], slices)
        return self._jobs

    def _fits(self, block: Sequence[InputFile], budget: UnitBudget) -> bool:
        """Whether the chain stays within the budget with these files too, or stays a single job."""
        lumis = events = 0
        for file in block:
            lumis += lumi_count(file.lumis)
            events += file.events
        # The quick test first, as if each lumi section were a job: it spares nearly all files the other.
        if budget.holds(self._chain_jobs + 1 + lumis, self._chain_events + events):
            return True
        trial = self._trial()
        trial._read_block(block)
        jobs = trial._chain_jobs + bool(trial._slices)
        return jobs == 1 or budget.holds(jobs, trial._chain_events)

    def _trial(self) -> _Packer:
        """Another packer that would go on as this one does, whatever the job at hand holds already."""
        trial = copy(self)
        trial._pace = copy(self._pace)
        trial._jobs, trial._lumis, trial._slices = [], [], self._slices[-1:]
        trial._owners, trial._late = {}, defaultdict(dict)
        return trial

    def _read_block(self, block: Sequence[InputFile]) -> None:
        self._block_begins = True
        for file in block:
            self._read(file)
            self._block_begins = False

    def _read(self, file: InputFile) -> None:
        self._file, self._file_lumis = file, lumi_count(file.lumis)
        self._lumis_given = self._events_given = 0
        self._pace.enter(file, self._file_lumis)
        if self._halts:
            self._ended = True
        for run, first, last in self._selection.walk(file.lumis):
            # Also where nothing of the run is chosen, as in WMCore: plans can be compared job by job.
            if run != self._run and self._splits_on_run:
                self._ended = True
            if run in self._spanning.spans:
                self._take_spanning(run, first, last)
            else:
                self._take(run, first, last)
        self._slice()

    def _take(self, run: int, first: int, last: int) -> None:
        pace = self._pace
        while first <= last:
            if self._ended or pace.room <= 0:
                self._begin()
            lumis, room = self._lumis, pace.room
            until = last if last - first < room else first + room - 1
            pace.room = room - (until - first + 1)
            self._taken += until - first + 1
            if lumis and lumis[-1][2] == first - 1 and lumis[-1][0] == run:
                lumis[-1] = (run, lumis[-1][1], until)
            else:
                lumis.append((run, first, until))
            self._run = run
            first = until + 1

    def _begin(self) -> None:
        """A new job. Where a block begins as well, it shares no file with the jobs before it."""
        self._close()
        self._pace.begin()
        if self._block_begins and not self._lumis_given:
            self._chain_jobs = self._chain_events = 0

    def _take_spanning(self, run: int, first: int, last: int) -> None:
        for start, end, is_shared in self._spanning.cut(run, first, last):
            if not is_shared:
                self._take(run, start, end)
                continue
            for lumi in range(start, end + 1):
                if (owner := self._owners.get((run, lumi))) is None:
                    self._take(run, lumi, lumi)
                    self._owners[run, lumi] = len(self._jobs)
                else:
                    self._give_late(owner)

    def _give_late(self, owner: int) -> None:
        """The file at hand holds a part of a lumi section that a job has already."""
        late, lfn = self._late[owner], self._file.lfn
        events = self._events_of(1)
        if lfn in late:
            events += late[lfn].events
        late[lfn] = FileSlice(lfn, self._file.size_bytes, events)

    def _slice(self) -> None:
        """What the job at hand took of the file at hand is all that it takes."""
        if self._taken:
            events = self._events_of(self._taken)
            self._slices.append(FileSlice(self._file.lfn, self._file.size_bytes, events))
            self._events += events
            self._pace.spend(self._taken, events)
            self._taken = 0

    def _events_of(self, lumis: int) -> int:
        """A share of the file's events for some more of its lumi sections: all have all events."""
        self._lumis_given += lumis
        before = self._events_given
        self._events_given = self._file.events * self._lumis_given // self._file_lumis
        self._chain_events += self._events_given - before
        return self._events_given - before

    def _close(self) -> None:
        """End the job at hand, if there is one."""
        self._slice()
        self._ended = False
        if self._slices:
            lumis = tuple(self._lumis) if len(self._lumis) == 1 else joined(self._lumis)
            self._jobs.append(Job(self._events, self._sites, tuple(self._slices), lumis=lumis))
            self._lumis, self._slices, self._events = [], [], 0
            self._chain_jobs += 1


def _with_files(job: Job, late: Mapping[str, FileSlice]) -> Job:
    """The job reads more of its files, or more files, for lumi sections that it has already."""
    slices = {part.lfn: part for part in job.files}
    for lfn, part in late.items():
        known = slices.get(lfn)
        slices[lfn] = part._replace(events=part.events + known.events) if known else part
    more = sum(part.events for part in late.values())
    return job._replace(events=job.events + more, files=tuple(slices.values()))
