"""FileBased: a fixed number of whole files a job."""

from collections.abc import Sequence

from wms2.core.splitting.intake import Intake, Sites
from wms2.models.lumis import LumiRange, joined, lumi_count
from wms2.models.plan import FileSlice, InputFile, Job, Snapshot

Chosen = tuple[InputFile, tuple[LumiRange, ...]]


def split_by_files(intake: Intake, snapshot: Snapshot) -> list[Job]:
    """Whole files, sorted by name, `files_per_job` of them a job; a job's files share their locations.

    Where runs or lumi sections are chosen, jobs are told which ones to read, and files without any are no
    part of a job.
    """
    return whole_files(intake, snapshot.request.files_per_job)


def whole_files(intake: Intake, per_job: int) -> list[Job]:
    return [
        _job(sites, chosen[start : start + per_job], by_lumi=intake.selection.by_lumi)
        for sites, files in intake.groups
        if (chosen := _chosen(files, intake))
        for start in range(0, len(chosen), per_job)
    ]


def _chosen(files: Sequence[InputFile], intake: Intake) -> list[Chosen]:
    part = intake.selection.part
    chosen = [(file, part(file.lumis)) for file in files]
    return [entry for entry in chosen if entry[1]] if intake.selection.by_lumi else chosen


def _job(sites: Sites, chosen: Sequence[Chosen], by_lumi: bool) -> Job:
    slices = [FileSlice(file.lfn, file.size_bytes, _expected(file, lumis)) for file, lumis in chosen]
    return Job(
        events=sum(part.events for part in slices),
        sites=sites,
        files=tuple(slices),
        lumis=joined(span for _, lumis in chosen for span in lumis) if by_lumi else None,
    )


def _expected(file: InputFile, lumis: tuple[LumiRange, ...]) -> int:
    """How many events the chosen lumi sections hold, if all of the file's hold as many."""
    if lumis == file.lumis:
        return file.events
    return file.events * lumi_count(lumis) // lumi_count(file.lumis)
