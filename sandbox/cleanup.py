"""Mode `cleanup`: what has been merged, and what failed attempts left, goes off the storage.

Nothing that goes wrong here fails the job; what could not be removed is named in the report for later.
"""

from __future__ import annotations

from sandbox.job import Job
from sandbox.manifest import load_merge_input
from sandbox.transfer import TransferError


def run(job: Job) -> None:
    merged = load_merge_input(job.folder)
    names = list(dict.fromkeys([file.lfn for file in merged.files] + list(merged.leftovers)))
    for lfn in names:
        job.report.leave(lfn, "the job ended before it came to this file")
    for lfn in names:
        place = job.storage.for_writing(lfn)
        try:
            place.transfer.remove(place.pfn)
        except TransferError as error:
            job.report.no_longer_left(lfn)
            job.report.leave(lfn, str(error))
            continue
        job.report.no_longer_left(lfn)
        job.report.removed.append(lfn)
        place.transfer.remove_empty_folder(place.pfn)
