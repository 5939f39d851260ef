"""A block as DBS's bulkblocks takes it: with its dataset, its files and whose children they are, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wms2.local.journal import GENERIC, Record, Refused
from wms2.local.lexicon import check_name, check_names

DATABASE, INSERT_FAILED, NOT_JSON = 101, 110, 122
BLOCK_EXISTS = 200
PARENT_DATASET_UNKNOWN = 131
ACCESS_TYPES = ("PRODUCTION", "VALID", "INVALID", "DEPRECATED", "DELETED")
MOST_LUMIS = 100_000
SECTIONS = {
    "primds": dict,
    "processing_era": dict,
    "acquisition_era": dict,
    "dataset_conf_list": list,
    "file_conf_list": list,
    "file_parent_list": list,
    "block_parent_list": list,
    "dataset_parent_list": list,
    "ds_parent_list": list,
}


@dataclass(frozen=True)
class Known:
    """What DBS has already, by name."""

    blocks: Mapping[str, Any]
    files: Mapping[str, Any]
    datasets: Mapping[str, Any]


@dataclass(frozen=True)
class Bulk:
    """A bulk block that has the form it must have."""

    block: Record
    dataset: Record
    files: list[Record]
    primary: Record = field(default_factory=dict)
    processing_era: Record = field(default_factory=dict)
    acquisition_era: Record = field(default_factory=dict)
    configurations: list[Record] = field(default_factory=list)
    parents_of_files: list[tuple[str, str]] = field(default_factory=list)
    parent_blocks: list[str] = field(default_factory=list)
    parent_datasets: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.block["block_name"])


def read_bulk(body: Any) -> Bulk:
    """What was sent, or a refusal that says what is wrong with it."""
    if not isinstance(body, dict):
        raise Refused(400, "bulkblocks takes a JSON object", NOT_JSON)
    try:
        bulk = _bulk(body)
    except (KeyError, TypeError, AttributeError) as error:
        raise Refused(
            400, f"bulkblocks needs block, dataset and files; {error} is missing", GENERIC
        ) from None
    _check(bulk)
    return bulk


def _bulk(body: Record) -> Bulk:
    for section, kind in SECTIONS.items():
        if not isinstance(body.get(section, kind()), kind):
            raise Refused(400, f"{section} is no JSON {kind.__name__}", NOT_JSON)
    parents = [parent["parent_dataset"] for parent in body.get("ds_parent_list", ())]
    bulk = Bulk(
        block=body["block"],
        dataset=body["dataset"],
        files=_with_validity(body["files"]),
        primary=body.get("primds", {}),
        processing_era=body.get("processing_era", {}),
        acquisition_era=body.get("acquisition_era", {}),
        configurations=body.get("dataset_conf_list", []),
        parents_of_files=[_parent_of_file(parent) for parent in body.get("file_parent_list", ())],
        parent_blocks=[parent["parent_block"] for parent in body.get("block_parent_list", ())],
        parent_datasets=sorted({*body.get("dataset_parent_list", ()), *parents}),
    )
    _ = bulk.block["block_name"], bulk.dataset["dataset"], [file["logical_file_name"] for file in bulk.files]
    return bulk


def _with_validity(files: list[Record]) -> list[Record]:
    """As DBS reads it: a file that is silent is invalid as soon as the validity of any is said."""
    silent = 0 if any("is_file_valid" in file for file in files) else 1
    return [{**file, "is_file_valid": file.get("is_file_valid", silent)} for file in files]


def _parent_of_file(parent: Record) -> tuple[str, str]:
    child = parent.get("logical_file_name") or parent["this_logical_file_name"]
    return child, parent["parent_logical_file_name"]


def _check(bulk: Bulk) -> None:
    for record in (bulk.block, bulk.dataset, bulk.primary, bulk.acquisition_era, *bulk.configurations):
        check_names(record)
    if bulk.name.partition("#")[0] != bulk.dataset["dataset"]:
        raise Refused(400, f"block {bulk.name} is none of dataset {bulk.dataset['dataset']}", INSERT_FAILED)
    access = bulk.dataset.get("dataset_access_type", ACCESS_TYPES[0])
    if access not in ACCESS_TYPES:
        raise Refused(400, f"unable to find dataset_access_type_id for data access type='{access}'", 139)
    for file in bulk.files:
        check_name("logical_file_name", file["logical_file_name"])
    lumis = sum(len(file.get("file_lumi_list", ())) for file in bulk.files)
    if lumis > MOST_LUMIS:
        raise Refused(400, f"the block has {lumis} lumi sections, more than DBS can insert", INSERT_FAILED)


def refuse(bulk: Bulk, known: Known) -> None:
    """Say no to what does not fit what is known; parents must be in DBS before their children."""
    _refuse_stranger("file", (parent for _, parent in bulk.parents_of_files), known.files, DATABASE)
    if bulk.name in known.blocks:
        raise Refused(400, f"Block {bulk.name} already exists", BLOCK_EXISTS)
    own = {file["logical_file_name"] for file in bulk.files}
    twice = next((lfn for lfn in own if lfn in known.files), None)
    if twice or len(own) < len(bulk.files):
        # DBS finds it while it inserts files side by side, and calls it so.
        raise Refused(400, f"concurrency error: file {twice or 'of the block'} already exists", INSERT_FAILED)
    if stray := next((child for child, _ in bulk.parents_of_files if child not in own), None):
        raise Refused(400, f"unable to locate LFN file id: no file id found for '{stray}'", 105)
    _refuse_stranger("block", bulk.parent_blocks, known.blocks, DATABASE)
    _refuse_stranger("dataset", bulk.parent_datasets, known.datasets, PARENT_DATASET_UNKNOWN)


def _refuse_stranger(kind: str, names: Iterable[str], known: Mapping[str, Any], code: int) -> None:
    if stranger := next((name for name in names if name not in known), None):
        raise Refused(400, f"unable to find the parent {kind} {stranger}", code)
