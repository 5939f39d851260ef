"""Mode `merge`: the unmerged files of a work unit become a few files of the size that storage likes.

It reads exactly the files that merge_input.json names. A file that is nearly large enough is copied as it is; the
others are merged in the order of their nodes. No event may get lost on the way.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Iterable, Sequence

from sandbox import steps, task
from sandbox.failure import (
    BAD_MANIFEST,
    EVENTS_LOST,
    INPUT_NOT_OPENED,
    INPUT_NOT_READ,
    OUTPUT_MISSING,
    Failure,
)
from sandbox.job import Job
from sandbox.manifest import MergeFile, Output, load_merge_input
from sandbox.products import Product
from sandbox.report import OutputFile
from sandbox.task import StepInput
from sandbox.transfer import TransferError, adler32

MODULE = "Merged"


def run(job: Job) -> None:
    files = load_merge_input(job.folder).files
    if not files:
        raise Failure(OUTPUT_MISSING, "merge_input.json names no file to merge")
    unknown = {file.dataset for file in files} - {output.dataset for output in job.manifest.outputs}
    if unknown:
        raise Failure(
            BAD_MANIFEST, f"merge_input.json has files of {min(unknown)}, which is no output of this request"
        )
    number = 0
    for output in job.manifest.outputs:
        for group in groups(
            [file for file in files if file.dataset == output.dataset],
            job.manifest.merge_target_bytes,
            job.manifest.merge_copy_fraction,
        ):
            _make(job, output, group, number)
            number += 1


def groups(files: Iterable[MergeFile], target_bytes: int, copy_fraction: float) -> list[list[MergeFile]]:
    """Which files become one: the large ones alone, the others filled up to the target in the order of their nodes."""
    large: list[list[MergeFile]] = []
    merged: list[list[MergeFile]] = []
    size = 0
    for file in sorted(files, key=lambda item: (item.node, item.lfn)):
        if file.size_bytes >= copy_fraction * target_bytes:
            large.append([file])
        elif merged and size + file.size_bytes <= target_bytes:
            merged[-1].append(file)
            size += file.size_bytes
        else:
            merged.append([file])
            size = file.size_bytes
    return large + merged


def _make(job: Job, output: Output, group: Sequence[MergeFile], number: int) -> None:
    folder = job.folder / f"merge_{number}"
    folder.mkdir()
    inputs = [_open(job, file, folder / f"input_{i}.root") for i, file in enumerate(group)]
    source = Path(inputs[0].pfn) if len(group) == 1 else _merge(job, group, inputs, folder)
    lfn = f"{output.merged_base}/{output.file_prefix}_{job.manifest.name}_{job.cluster}_{number}.root"
    job.report.outputs.append(
        OutputFile(
            module=output.module,
            dataset=output.dataset,
            lfn=lfn,
            site=job.site,
            size_bytes=source.stat().st_size,
            events=sum(file.events for file in group),
            adler32=job.stage_out.put(source, lfn),
            lumis=added_lumis(group),
            parents=sorted({parent for file in group for parent in file.parents}),
            merged_from=[file.lfn for file in group],
        )
    )
    job.report.inputs += [{"lfn": file.lfn, "events_read": file.events} for file in group]
    shutil.rmtree(folder, ignore_errors=True)


def _open(job: Job, file: MergeFile, copy: Path) -> StepInput:
    """An unmerged file on this machine, and as it was when it was staged out."""
    place = job.storage.for_reading(file.lfn)
    path = place.transfer.local_path(place.pfn)
    try:
        if path is None:
            place.transfer.fetch(place.pfn, copy)
            path = copy
        intact = path.stat().st_size == file.size_bytes and adler32(path) == file.adler32
    except (OSError, TransferError) as error:
        raise Failure(
            INPUT_NOT_OPENED, f"{file.lfn}: {error}", step="merge", bad_input_files=[file.lfn]
        ) from None
    if not intact:
        message = f"{file.lfn} is not what its node staged out: its size or adler32 differs"
        raise Failure(INPUT_NOT_READ, message, step="merge", bad_input_files=[file.lfn])
    return StepInput(lfn=file.lfn, pfn=str(path), events=file.events)


def _merge(job: Job, group: Sequence[MergeFile], inputs: Sequence[StepInput], folder: Path) -> Path:
    record = task.describe_merge(job, inputs, f"{MODULE}.root")
    result = steps.run_step(job, job.manifest.merge, folder, "merge", record)
    product = result.products.get(MODULE)
    if product is None:
        raise Failure(OUTPUT_MISSING, "the merge left no merged file", step="merge")
    _check_complete(group, product)
    return product.path


def _check_complete(group: Sequence[MergeFile], product: Product) -> None:
    expected = sum(file.events for file in group)
    if product.events != expected:
        message = f"{expected} events went into the merge and {product.events} came out"
        raise Failure(EVENTS_LOST, message, step="merge")
    lumis = {(item["run"], item["lumi"]) for item in added_lumis(group)}
    found = {(lumi.run, lumi.lumi) for lumi in product.lumis}
    if found and lumis and found != lumis:
        raise Failure(EVENTS_LOST, "the merged file does not have the lumis that went into it", step="merge")


def added_lumis(group: Iterable[MergeFile]) -> list[dict[str, Any]]:
    """The lumis of all files, each once; its events are added, and unknown if they are unknown in one file."""
    total: dict[tuple[int, int], int | None] = {}
    for file in group:
        for item in file.lumis:
            key = (item["run"], item["lumi"])
            events, known = item.get("events"), total.get(key, 0)
            total[key] = None if events is None or known is None else known + events
    return [{"run": run, "lumi": lumi, "events": events} for (run, lumi), events in sorted(total.items())]
