"""EventBased: a fixed number of events a job, generated or read."""

from collections.abc import Iterator, Sequence

from wms2.core.splitting.intake import Intake
from wms2.errors import UserError
from wms2.models.plan import FileSlice, InputFile, Job, Snapshot


def split_by_events(snapshot: Snapshot) -> list[Job]:
    """Jobs of a simulation, no more than fit into a round: event numbers and lumi numbers that never repeat.

    250 events, 100 a job, 40 a lumi: events 1-100, 101-200, 201-250 and lumis 1-3, 4-6, 7-8.
    """
    per_job, per_lumi = snapshot.events_per_job, snapshot.request.events_per_lumi
    jobs: list[Job] = []
    event, lumi = snapshot.first_event, snapshot.first_lumi
    end = snapshot.first_event + snapshot.events
    while event < end and len(jobs) < snapshot.limits.nodes_per_round:
        events = min(per_job, end - event)
        lumis = -(-events // per_lumi)
        jobs.append(
            Job(
                events=events,
                first_event=event,
                last_event=event + events - 1,
                first_lumi=lumi,
                last_lumi=lumi + lumis - 1,
            )
        )
        event += events
        lumi += lumis
    return jobs


def split_files_by_events(intake: Intake, snapshot: Snapshot) -> list[Job]:
    """Ranges of positions inside each file; a job never crosses files.

    Raises UserError for a file of which only some lumi sections are chosen: nobody knows their positions.
    """
    per_job = snapshot.events_per_job
    return [
        job
        for sites, files in intake.groups
        for file in _chosen(files, intake, snapshot)
        for job in _slices(file, sites, per_job)
    ]


def _chosen(files: Sequence[InputFile], intake: Intake, snapshot: Snapshot) -> list[InputFile]:
    if not intake.selection.by_lumi:
        return list(files)
    parts = [(file, intake.selection.part(file.lumis)) for file in files]
    if cut := [file for file, part in parts if part and part != file.lumis]:
        raise UserError(
            f"{snapshot.request.request_name} cannot be split by events: of {len(cut)} files the run lists or the "
            f"lumi mask choose only some lumi sections (for example {cut[0].lfn}); "
            "use LumiBased, EventAwareLumiBased or FileBased"
        )
    return [file for file, part in parts if part]


def _slices(file: InputFile, sites: tuple[str, ...], per_job: int) -> Iterator[Job]:
    # A file without events is still a file of the request: one job reads it, so that it is accounted for.
    if file.events <= per_job:
        yield Job(file.events, sites, (FileSlice(file.lfn, file.size_bytes, file.events),))
        return
    for first in range(1, file.events + 1, per_job):
        last = min(first + per_job - 1, file.events)
        part = FileSlice(file.lfn, file.size_bytes, last - first + 1, first, last)
        yield Job(last - first + 1, sites, (part,))
