"""A block of an output dataset, as it goes into the catalogue."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID, uuid5

from wms2.models.base import Model
from wms2.models.output import ProducedFile
from wms2.models.request import Request
from wms2.patterns import BlockName, Dataset, OutputDatasetName, SiteName

_BLOCKS = UUID("6d0f5a0e-4a63-5c0e-9d0b-6c2b6f3a7c11")


class Provenance(Model):
    """How the files of a dataset were made."""

    primary_type: Literal["mc", "data"]
    release: str
    global_tag: str
    module: str
    configuration: str
    """What tells one configuration from another: a hash where the real one is not known."""
    parent: Dataset | None


class NewBlock(Model):
    """Files of one dataset at one site. It is complete when it is registered: nothing is added later."""

    name: BlockName
    dataset: OutputDatasetName
    site: SiteName
    files: tuple[ProducedFile, ...]
    provenance: Provenance


def block_name(request_name: str, dataset: str, number: int) -> str:
    """The same for the same block of a request's dataset, so that registering it again is recognised."""
    return f"{dataset}#{uuid5(_BLOCKS, f'{request_name} {dataset} {number}')}"


def provenance(request: Request, dataset: str) -> Provenance:
    output = next(output for output in request.outputs if output.dataset == dataset)
    own = _parameters(request, output.step)
    return Provenance(
        primary_type="data" if request.merged_lfn_base.startswith("/store/data") else "mc",
        release=own.get("cmssw_version", request.cmssw_version) or "CMSSW_0_0_0",
        global_tag=own.get("global_tag", request.global_tag) or "UNKNOWN",
        module=output.module,
        configuration=request.digest8,
        parent=request.input_dataset,
    )


def _parameters(request: Request, name: str) -> dict[str, str]:
    """What a step says of itself in words: each may have a release and conditions of its own."""
    steps: Any = request.payload_config["steps"]
    given = next((step.get("parameters") for step in steps if step["name"] == name), None)
    words = given.items() if isinstance(given, dict) else ()
    return {key: value for key, value in words if isinstance(value, str)}
