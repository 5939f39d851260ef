"""FileBased: a fixed number of whole files a job."""

from collections.abc import Iterator, Sequence

from wms2.core.splitting.location import files_by_location
from wms2.models.plan import FileSlice, InputFile, Job, Snapshot


def split_by_files(snapshot: Snapshot) -> list[Job]:
    """Whole files, sorted by name, `files_per_job` of them a job; a job's files share their locations."""
    per_job = snapshot.request.files_per_job
    return [
        _job(sites, batch)
        for sites, files in files_by_location(snapshot)
        for batch in _batches(files, per_job)
    ]


def _batches(files: Sequence[InputFile], size: int) -> Iterator[Sequence[InputFile]]:
    for start in range(0, len(files), size):
        yield files[start : start + size]


def _job(sites: tuple[str, ...], files: Sequence[InputFile]) -> Job:
    return Job(
        events=sum(file.events for file in files),
        sites=sites,
        files=tuple(FileSlice(file.lfn, file.size_bytes, file.events) for file in files),
    )
