"""The manifest of a work unit: what each of its nodes does, for the sandbox and the scripts to read."""

from __future__ import annotations

from typing import Any

from wms2.models.base import Model
from wms2.models.lumis import ranges_by_run
from wms2.models.plan import PilotPlan, Snapshot, WorkUnit
from wms2.models.request import Output, Request

MANIFEST_VERSION = 1


class ManifestFile(Model):
    """A file a node reads; first and last event are positions in it, None for the whole file."""

    lfn: str
    size_bytes: int
    events: int
    first_event: int | None = None
    last_event: int | None = None


class ManifestNode(Model):
    events: int
    run: int | None = None
    first_event: int | None = None
    last_event: int | None = None
    first_lumi: int | None = None
    last_lumi: int | None = None
    events_per_lumi: int | None = None
    files: tuple[ManifestFile, ...] = ()
    lumis: dict[str, list[tuple[int, int]]] | None = None


class ManifestOutput(Model):
    module: str
    dataset: str
    step: str
    unmerged_base: str
    merged_base: str
    file_prefix: str


class Manifest(Model):
    version: int = MANIFEST_VERSION
    request: str
    round: int
    work_unit: int
    name: str
    sites: tuple[str, ...]
    cores: int
    payload: dict[str, Any]
    outputs: tuple[ManifestOutput, ...]
    merge_target_bytes: int
    merge_copy_fraction: float
    nodes: dict[str, ManifestNode]
    pilot: PilotPlan | None = None


def manifest_of(unit: WorkUnit, snapshot: Snapshot) -> Manifest:
    request = snapshot.request
    return Manifest(
        request=request.request_name,
        round=snapshot.round,
        work_unit=unit.number,
        name=unit.name,
        sites=unit.sites,
        cores=snapshot.sizing.cores,
        payload=request.payload_config,
        outputs=tuple(_output(output, unit.number, request) for output in request.outputs),
        merge_target_bytes=request.merge_target_bytes,
        merge_copy_fraction=request.merge_copy_fraction,
        nodes={
            name: ManifestNode(
                events=job.events,
                run=1 if request.is_simulation else None,
                first_event=job.first_event,
                last_event=job.last_event,
                first_lumi=job.first_lumi,
                last_lumi=job.last_lumi,
                events_per_lumi=request.events_per_lumi if request.is_simulation else None,
                files=tuple(
                    ManifestFile(
                        lfn=part.lfn,
                        size_bytes=part.size_bytes,
                        events=part.events,
                        first_event=part.first_event,
                        last_event=part.last_event,
                    )
                    for part in job.files
                ),
                lumis=None if job.lumis is None else ranges_by_run(job.lumis),
            )
            for name, job in unit.nodes()
        },
        pilot=snapshot.pilot,
    )


def _output(output: Output, work_unit: int, request: Request) -> ManifestOutput:
    _, primary, processed, tier = output.dataset.split("/")
    era, _, rest = processed.partition("-")
    folder = f"{era}/{primary}/{tier}/{rest}/{work_unit:06d}"
    return ManifestOutput(
        module=output.module,
        dataset=output.dataset,
        step=output.step,
        unmerged_base=f"{request.unmerged_lfn_base}/{folder}",
        merged_base=f"{request.merged_lfn_base}/{folder}",
        file_prefix=request.digest8,
    )
