"""The stand-in for DBS: datasets, blocks, files, lumi sections and parentage, in the words of dbs2go."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from wms2.local.bulk import ACCESS_TYPES, Bulk, Known, read_bulk, refuse
from wms2.local.dbs_lists import FILE_COLUMNS, DbsLists
from wms2.local.dbs_query import BAD_PARAMETERS, Query, wanted
from wms2.local.dbs_records import DbsRecords
from wms2.local.journal import Journal, Record, Refused

NO_ID = 109


class Dbs:
    """What changes DBS; what it lists is in `DbsLists`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known = DbsRecords()
        self._lists = DbsLists(self._known, journal.lock)
        journal.learn(access=self._take_access, valid=self._take_valid, dbs_block=self._take_change_of_block)
        self.reads: dict[str, Callable[[Query], Any]] = {
            f"/dbs/{call}": partial(self._lists.get, call) for call in self._lists.calls
        }

    def write(self, method: str, call: str, query: Query, body: Any) -> Any:
        match method, call:
            case "POST", "bulkblocks":
                return self.insert_block(body)
            case "POST", _:
                return self._lists.post(call, body)
            case "PUT", "datasets":
                return self.set_dataset(query)
            case "PUT", "files":
                return self.set_files(query)
            case "PUT", "blocks":
                return self.set_block(query)
        raise Refused(404, f"not implemented api error: {method} {call}", 119)

    def insert_block(self, body: Any) -> list[Record]:
        """DBS's bulkblocks: a block with its dataset and files, all or nothing, once."""
        bulk = read_bulk(body)
        with self._journal.lock:
            refuse(bulk, Known(self._known.blocks, self._known.files, self._known.datasets))
            kept = {key: value for key, value in body.items() if key != "file_conf_list"}
            self._journal.change("block", kept)
        return []

    def take_block(self, bulk: Bulk) -> None:
        dataset = self._taken_dataset(bulk)
        block = {
            "open_for_writing": 0,
            "create_by": None,
            "creation_date": None,
            "last_modification_date": bulk.block.get("creation_date"),
            "last_modified_by": bulk.block.get("create_by"),
            **bulk.block,
            "block_id": len(self._known.blocks) + 1,
            "dataset": dataset["dataset"],
            "dataset_id": dataset["dataset_id"],
            # Counted anew, as DBS does: what the caller says of them is not to be trusted.
            "file_count": len(bulk.files),
            "block_size": sum(file.get("file_size", 0) for file in bulk.files),
        }
        self._known.blocks[bulk.name] = block
        self._known.blocks_of.setdefault(dataset["dataset"], []).append(bulk.name)
        self._known.files_of[bulk.name] = sorted(file["logical_file_name"] for file in bulk.files)
        for file in bulk.files:
            self._take_file(file, block)
        self._take_parents(bulk)

    def _taken_dataset(self, bulk: Bulk) -> Record:
        name = bulk.dataset["dataset"]
        _, primary, processed, tier = name.split("/")
        self._take_what_datasets_share(bulk, primary)
        known = self._known.configurations.setdefault(name, [])
        known += [one for one in bulk.configurations if one not in known]
        first = {
            "prep_id": "",
            "xtcrosssection": None,
            "primary_ds_name": primary,
            "primary_ds_type": bulk.primary.get("primary_ds_type"),
            "processed_ds_name": processed,
            "data_tier_name": tier,
            "dataset_access_type": ACCESS_TYPES[0],
            "acquisition_era_name": bulk.acquisition_era.get("acquisition_era_name"),
            "processing_version": bulk.processing_era.get("processing_version"),
            "last_modification_date": bulk.dataset.get("creation_date"),
            "last_modified_by": bulk.dataset.get("create_by"),
            **bulk.dataset,
            "dataset_id": len(self._known.datasets) + 1,
        }
        return self._known.datasets.setdefault(name, first)

    def _take_what_datasets_share(self, bulk: Bulk, primary: str) -> None:
        self._known.primaries.setdefault(primary, {"primary_ds_name": primary, **bulk.primary})
        if era := bulk.acquisition_era:
            self._known.acquisition_eras.setdefault(era["acquisition_era_name"], era)
        if "processing_version" in bulk.processing_era:
            version = str(bulk.processing_era["processing_version"])
            self._known.processing_eras.setdefault(version, bulk.processing_era)

    def _take_file(self, file: Record, block: Record) -> None:
        lfn = file["logical_file_name"]
        lumis = file.get("file_lumi_list", [])
        known = {key: value for key, value in file.items() if key in FILE_COLUMNS}
        author = file.get("last_modified_by")
        self._known.files[lfn] = {
            "file_type": "EDM",
            "file_size": 0,
            "create_by": author,
            **known,
            "file_id": len(self._known.files) + 1,
            "block_name": block["block_name"],
            "block_id": block["block_id"],
            "dataset": block["dataset"],
            "dataset_id": block["dataset_id"],
        }
        self._known.lumis[lfn] = json.dumps(lumis)

    def _take_parents(self, bulk: Bulk) -> None:
        for child, parent in bulk.parents_of_files:
            self._known.parents_of_file.setdefault(child, []).append(parent)
        blocks = {self._known.files[parent]["block_name"] for _, parent in bulk.parents_of_files}
        self._known.parents_of_block[bulk.name] = sorted(blocks.union(bulk.parent_blocks))
        known = self._known.parents_of_dataset.setdefault(bulk.dataset["dataset"], [])
        known += [parent for parent in bulk.parent_datasets if parent not in known]

    def _take_access(self, dataset: str, access: str) -> None:
        self._known.datasets[dataset]["dataset_access_type"] = access

    def _take_valid(self, lfns: list[str], valid: int) -> None:
        for lfn in lfns:
            self._known.files[lfn]["is_file_valid"] = valid

    def _take_change_of_block(self, name: str, changes: Record) -> None:
        self._known.blocks[name].update(changes)

    def set_dataset(self, query: Query) -> list[Record]:
        """DBS's PUT of a dataset: only its access type can be changed here.

        As with DBS, a change of what is not there is granted and changes nothing; so it is with files and blocks.
        """
        name, access = wanted(query, "dataset"), wanted(query, "dataset_access_type")
        if access not in ACCESS_TYPES:
            raise Refused(400, f"{access} is no access type of a dataset", NO_ID)
        with self._journal.lock:
            if name in self._known.datasets:
                self._journal.change("access", name, access)
        return []

    def set_files(self, query: Query) -> list[Record]:
        """Files by name, or all of a dataset; without is_file_valid they become invalid, as with DBS itself."""
        wanted(query, "logical_file_name", "dataset")
        valid = query.get("is_file_valid", "0")
        if valid not in ("0", "1"):
            raise Refused(400, "invalid parameter(s): invalid is_file_valid parameter", BAD_PARAMETERS)
        with self._journal.lock:
            lfns = self._lists.found_files(query)
            if lfns:
                self._journal.change("valid", lfns, int(valid))
        return []

    def set_block(self, query: Query) -> list[Record]:
        """Open or closed, closed if nothing is said; or the site where it was made."""
        name = wanted(query, "block_name")
        open_for_writing = query.get("open_for_writing", "0")
        if open_for_writing not in ("0", "1"):
            raise Refused(400, "invalid parameter(s): invalid open_for_writing parameter", BAD_PARAMETERS)
        site = query.get("origin_site_name")
        changes = {"origin_site_name": site} if site else {"open_for_writing": int(open_for_writing)}
        with self._journal.lock:
            if name in self._known.blocks:
                self._journal.change("dbs_block", name, changes)
        return []


def failure(refusal: Refused, method: str, path: str) -> list[Record]:
    """A refusal in DBS's own form."""
    error = {
        "reason": refusal.message,
        "message": "",
        "function": path,
        "code": refusal.code,
        "stacktrace": "",
    }
    return [
        {
            "error": error,
            "http": {"method": method, "code": refusal.status, "path": path},
            "exception": refusal.status,
            "type": "HTTPError",
            "message": f"DBSError Code:{refusal.code} Function:{path} Message: Error: {refusal.message}",
        }
    ]
