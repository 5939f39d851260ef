"""job.json: what a step is told. It is the one seam to every kind of payload."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

from sandbox.failure import INPUT_NOT_OPENED, Failure
from sandbox.job import Job
from sandbox.manifest import Node, Step
from sandbox.portion import Portion
from sandbox.storage import OPENED_BY_STEPS
from sandbox.transfer import TransferError

NAME = "job.json"


@dataclass(frozen=True)
class StepInput:
    """A file for a step: a path of this machine, or an address that the step itself can open."""

    lfn: str
    pfn: str
    events: int | None = None
    first_event: int | None = None
    last_event: int | None = None


def site_inputs(job: Job, portion: Portion, folder: Path, opens_addresses: bool) -> list[StepInput]:
    """The portion's files at this site; those that neither this machine nor the step can open are fetched."""
    inputs, bad, reasons = [], [], []
    for number, file in enumerate(portion.files):
        try:
            pfn = _reachable(job, file.lfn, folder / f"input_{number}.root", opens_addresses)
        except (OSError, TransferError) as error:
            bad.append(file.lfn)
            reasons.append(f"{file.lfn}: {error}")
        else:
            inputs.append(StepInput(file.lfn, pfn, file.events, file.first_event, file.last_event))
    if bad:
        raise Failure(INPUT_NOT_OPENED, "input cannot be opened: " + "; ".join(reasons), bad_input_files=bad)
    return inputs


def _reachable(job: Job, lfn: str, copy: Path, opens_addresses: bool) -> str:
    place = job.storage.for_reading(lfn)
    path = place.transfer.local_path(place.pfn)
    if path is not None:
        with path.open("rb") as stream:
            stream.read(1)
        return str(path)
    if opens_addresses and place.pfn.startswith(OPENED_BY_STEPS):
        return place.pfn
    copy.parent.mkdir(parents=True, exist_ok=True)
    place.transfer.fetch(place.pfn, copy)
    return str(copy)


def describe(
    job: Job, node: Node, portion: Portion, step: Step, inputs: Sequence[StepInput], modules: Sequence[str]
) -> dict[str, Any]:
    """What a step of the chain has to do."""
    return {
        **_common(job, step),
        "seed": _seed(job, node, portion),
        "input_files": [vars(item) for item in inputs],
        "lumis": node.lumis if any(item.lfn for item in inputs) else None,
        "simulation": None if inputs else _simulation(node, portion),
        "outputs": [{"module": module, "file": f"{module}.root"} for module in modules],
    }


def describe_merge(job: Job, inputs: Sequence[StepInput], output: str) -> dict[str, Any]:
    """What a merge has to do: all events of the inputs into one file."""
    return {
        **_common(job, job.manifest.merge),
        "input_files": [vars(item) for item in inputs],
        "outputs": [{"module": "Merged", "file": output}],
    }


def write(folder: Path, record: dict[str, Any]) -> None:
    (folder / NAME).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _common(job: Job, step: Step) -> dict[str, Any]:
    return {
        "node": job.node,
        "site": job.site,
        "cluster": job.cluster,
        "job_folder": str(job.folder.absolute()),
        "step": step.name,
        "threads": job.manifest.threads(step),
        "streams": step.streams,
        "seed_offset": job.manifest.seed_offset,
        "parameters": step.parameters,
    }


def _seed(job: Job, node: Node, portion: Portion) -> int:
    """The portion's own number: its random numbers, and its pile-up, are not those of any other."""
    if not portion.files:
        return job.manifest.seed_offset + portion.first_event
    read = [(file.lfn, file.first_event, file.last_event) for file in portion.files]
    return job.manifest.seed_offset + zlib.crc32(json.dumps([read, node.lumis], sort_keys=True).encode())


def _simulation(node: Node, portion: Portion) -> dict[str, int]:
    return {
        "run": node.run,
        "first_event": portion.first_event,
        "last_event": portion.last_event,
        "first_lumi": portion.first_lumi,
        "lumi_offset": portion.lumi_offset,
        "events_per_lumi": node.events_per_lumi,
    }
