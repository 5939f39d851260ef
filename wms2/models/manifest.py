"""The manifest of a work unit: what each of its nodes does, for the sandbox and the scripts to read.

Plain structures, because a round has a hundred thousand nodes. All names in them come from a request and from
input files that were checked; `sandbox/manifest.py` checks them once more.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from wms2.models.lumis import ranges_by_run
from wms2.models.plan import FileSlice, Job, Snapshot, WorkUnit
from wms2.models.request import Output, Request

MANIFEST_VERSION = 1

Record = dict[str, Any]


class Manifests:
    """The manifests of a round's work units; what they have in common is made into text once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._outputs = [_output(output, snapshot.request) for output in snapshot.request.outputs]
        self._numbering = _numbering(snapshot.request)
        self._shared = to_json(_shared(snapshot))

    def text(self, unit: WorkUnit) -> bytes:
        """`manifest.json` of a work unit."""
        own = to_json(
            {
                "work_unit": unit.number,
                "name": unit.name,
                "sites": unit.sites,
                "outputs": [_in_folder(output, unit.number) for output in self._outputs],
                "nodes": {name: self._node(job) for name, job in unit.nodes()},
            }
        )
        return b"%s,%s\n" % (self._shared.removesuffix(b"}"), own.removeprefix(b"{"))

    def _node(self, job: Job) -> Record:
        node: Record = {
            "events": job.events,
            "first_event": job.first_event,
            "last_event": job.last_event,
            "files": [_file(part) for part in job.files],
        }
        if not job.files:
            node |= self._numbering
            node["first_lumi"], node["last_lumi"] = job.first_lumi, job.last_lumi
        if job.lumis is not None:
            node["lumis"] = ranges_by_run(job.lumis)
        return node


def _shared(snapshot: Snapshot) -> Record:
    request = snapshot.request
    mixed = request.secondary_input_dataset
    return {
        "version": MANIFEST_VERSION,
        "request": request.request_name,
        "round": snapshot.round,
        "cores": snapshot.sizing.cores,
        "payload": request.payload_config,
        "merge_target_bytes": request.merge_target_bytes,
        "merge_copy_fraction": request.merge_copy_fraction,
        "pilot": snapshot.pilot,
        **({"secondary_input_dataset": mixed} if mixed else {}),
    }


def _numbering(request: Request) -> Record:
    """Where generated events are counted; events that are read bring runs and lumi sections of their own."""
    return {"run": 1, "events_per_lumi": request.events_per_lumi} if request.is_simulation else {}


def _file(part: FileSlice) -> Record:
    """First and last event are positions in the file, and left out when all of it is read."""
    file: Record = {"lfn": part.lfn, "size_bytes": part.size_bytes, "events": part.events}
    if part.first_event is not None:
        file["first_event"] = part.first_event
    if part.last_event is not None:
        file["last_event"] = part.last_event
    return file


def _output(output: Output, request: Request) -> Record:
    """An output with the folders of its request, in which each work unit has one of its own."""
    _, primary, processed, tier = output.dataset.split("/")
    era, _, rest = processed.partition("-")
    folder = f"{era}/{primary}/{tier}/{rest}"
    return {
        "module": output.module,
        "dataset": output.dataset,
        "step": output.step,
        "unmerged_base": f"{request.unmerged_lfn_base}/{folder}",
        "merged_base": f"{request.merged_lfn_base}/{folder}",
        "file_prefix": request.digest8,
    }


def _in_folder(output: Record, work_unit: int) -> Record:
    bases = {key: f"{output[key]}/{work_unit:06d}" for key in ("unmerged_base", "merged_base")}
    return output | bases
