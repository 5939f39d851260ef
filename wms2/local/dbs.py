"""The stand-in for DBS: datasets, blocks, files, lumi sections and parentage, in the words of dbs2go."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from wms2.local.bulk import ACCESS_TYPES, Bulk, Known, read_bulk, refuse
from wms2.local.journal import Journal, Record, Refused

Query = dict[str, str]
BAD_PARAMETERS = 118
NO_ID = 109
SERVED_VALID = ("VALID", "PRODUCTION")
OF_DATASET = (
    "dataset_id", "dataset", "prep_id", "xtcrosssection", "creation_date", "create_by", "last_modification_date",
    "last_modified_by", "primary_ds_name", "primary_ds_type", "processed_ds_name", "data_tier_name",
    "dataset_access_type", "acquisition_era_name", "processing_version", "physics_group_name",
)  # fmt: skip
OF_BLOCK = (
    "block_id", "block_name", "open_for_writing", "block_size", "file_count", "dataset_id", "dataset",
    "origin_site_name", "creation_date", "create_by", "last_modification_date", "last_modified_by",
)  # fmt: skip
OF_FILE = (
    "file_id", "logical_file_name", "is_file_valid", "dataset_id", "dataset", "block_id", "block_name", "file_type",
    "check_sum", "event_count", "file_size", "branch_hash_id", "adler32", "md5", "auto_cross_section",
    "creation_date", "create_by", "last_modification_date", "last_modified_by",
)  # fmt: skip


class Dbs:
    """What DBS knows. Every list is taken under the lock and given out afterwards."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._datasets: dict[str, Record] = {}
        self._blocks_of: dict[str, list[str]] = {}
        self._blocks: dict[str, Record] = {}
        self._files_of: dict[str, list[str]] = {}
        self._files: dict[str, Record] = {}
        self._lumis: dict[str, str] = {}
        self._parents_of_file: dict[str, list[str]] = {}
        self._parents_of_block: dict[str, list[str]] = {}
        self._parents_of_dataset: dict[str, list[str]] = {}
        self._eras: dict[str, Record] = {}
        self._configurations: dict[str, list[Record]] = {}
        journal.learn(access=self._take_access, valid=self._take_valid, dbs_block=self._take_change_of_block)
        self.reads: dict[str, Callable[[Query], Any]] = {
            "/dbs/datasets": self.datasets,
            "/dbs/datasetparents": self.dataset_parents,
            "/dbs/datasetchildren": self.dataset_children,
            "/dbs/blocks": self.blocks,
            "/dbs/blockparents": self.block_parents,
            "/dbs/blocksummaries": self.block_summaries,
            "/dbs/blockorigin": self.blocks_with_origin,
            "/dbs/files": self.files,
            "/dbs/fileparents": self.file_parents,
            "/dbs/filelumis": self.file_lumis,
            "/dbs/filesummaries": self.file_summaries,
            "/dbs/acquisitioneras": self.acquisition_eras,
            "/dbs/outputconfigs": self.output_configurations,
            "/dbs/serverinfo": lambda _: [{"server": "dbs2go stand-in", "version": "v0"}],
        }

    def write(self, method: str, call: str, query: Query, body: Any) -> Any:
        """POST and PUT; a POST of a list asks what GET asks, with more names than fit a URL."""
        match method, call:
            case "POST", "bulkblocks":
                return self.insert_block(body)
            case "POST", "fileArray":
                return self.files(_as_query(body) | {"detail": str(_flag(body, "detail"))})
            case "POST", "filelumis":
                return self.file_lumis(_as_query(body))
            case "POST", "blockparents":
                return self.block_parents(_as_query(body))
            case "POST", "datasetlist":
                return self.datasets({"dataset_access_type": "*", **_as_query(body)})
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
            refuse(bulk, Known(self._blocks, self._files, self._datasets))
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
            "block_id": len(self._blocks) + 1,
            "dataset": dataset["dataset"],
            "dataset_id": dataset["dataset_id"],
            # Counted anew, as DBS does: what the caller says of them is not to be trusted.
            "file_count": len(bulk.files),
            "block_size": sum(file.get("file_size", 0) for file in bulk.files),
        }
        self._blocks[bulk.name] = block
        self._blocks_of.setdefault(dataset["dataset"], []).append(bulk.name)
        self._files_of[bulk.name] = sorted(file["logical_file_name"] for file in bulk.files)
        for file in bulk.files:
            self._take_file(file, block)
        self._take_parents(bulk)

    def _taken_dataset(self, bulk: Bulk) -> Record:
        name = bulk.dataset["dataset"]
        _, primary, processed, tier = name.split("/")
        if bulk.acquisition_era:
            self._eras.setdefault(bulk.acquisition_era["acquisition_era_name"], bulk.acquisition_era)
        known = self._configurations.setdefault(name, [])
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
            **bulk.dataset,
            "dataset_id": len(self._datasets) + 1,
        }
        return self._datasets.setdefault(name, first)

    def _take_file(self, file: Record, block: Record) -> None:
        lfn = file["logical_file_name"]
        lumis = file.get("file_lumi_list", [])
        known = {key: value for key, value in file.items() if key in OF_FILE}
        author = file.get("last_modified_by")
        self._files[lfn] = {
            "file_type": "EDM",
            "file_size": 0,
            "create_by": author,
            **known,
            "file_id": len(self._files) + 1,
            "block_name": block["block_name"],
            "block_id": block["block_id"],
            "dataset": block["dataset"],
            "dataset_id": block["dataset_id"],
        }
        # As text: as a million small mappings they would take half a gigabyte.
        self._lumis[lfn] = json.dumps(lumis)

    def _take_parents(self, bulk: Bulk) -> None:
        for child, parent in bulk.parents_of_files:
            self._parents_of_file.setdefault(child, []).append(parent)
        blocks = {self._files[parent]["block_name"] for _, parent in bulk.parents_of_files}
        self._parents_of_block[bulk.name] = sorted(blocks.union(bulk.parent_blocks))
        known = self._parents_of_dataset.setdefault(bulk.dataset["dataset"], [])
        known += [parent for parent in bulk.parent_datasets if parent not in known]

    def _take_access(self, dataset: str, access: str) -> None:
        self._datasets[dataset]["dataset_access_type"] = access

    def _take_valid(self, lfns: list[str], valid: int) -> None:
        for lfn in lfns:
            self._files[lfn]["is_file_valid"] = valid

    def _take_change_of_block(self, name: str, changes: Record) -> None:
        self._blocks[name].update(changes)

    def datasets(self, query: Query) -> Iterator[Record]:
        """Those that are VALID, unless another access type is asked for; `*` is any."""
        patterns = values(query, "dataset") or ["*"]
        access = query.get("dataset_access_type", "VALID")
        with self._journal.lock:
            found = [
                record
                for name, record in sorted(self._datasets.items())
                if any(fnmatchcase(name, pattern) for pattern in patterns)
                and fnmatchcase(record["dataset_access_type"], access)
            ]
        return (_shown(record, query, OF_DATASET, "dataset") for record in found)

    def dataset_parents(self, query: Query) -> Iterator[Record]:
        name = _wanted(query, "dataset")
        with self._journal.lock:
            rows = [
                {
                    "this_dataset": name,
                    "parent_dataset": parent,
                    "parent_dataset_id": self._datasets[parent]["dataset_id"],
                }
                for parent in self._parents_of_dataset.get(name, ())
            ]
        return iter(rows)

    def dataset_children(self, query: Query) -> Iterator[Record]:
        name = _wanted(query, "dataset")
        with self._journal.lock:
            children = [child for child, parents in self._parents_of_dataset.items() if name in parents]
            rows = [
                {"dataset": name, "child_dataset": one, "child_dataset_id": self._datasets[one]["dataset_id"]}
                for one in sorted(children)
            ]
        return iter(rows)

    def blocks(self, query: Query) -> Iterator[Record]:
        return (_shown(record, query, OF_BLOCK, "block_name") for record in self._found_blocks(query))

    def blocks_with_origin(self, query: Query) -> Iterator[Record]:
        return self.blocks({**query, "detail": "1"})

    def _found_blocks(self, query: Query) -> list[Record]:
        _wanted(query, "dataset", "block_name", "logical_file_name")
        with self._journal.lock:
            if "block_name" in query:
                names: Iterable[str] = values(query, "block_name")
            elif "logical_file_name" in query:
                files = (self._files.get(lfn) for lfn in values(query, "logical_file_name"))
                names = {file["block_name"] for file in files if file}
            else:
                names = self._blocks_of.get(query["dataset"], ())
            return _matching(self._blocks, sorted(names), query, "dataset", "origin_site_name")

    def block_parents(self, query: Query) -> Iterator[Record]:
        _wanted(query, "block_name")
        with self._journal.lock:
            rows = [
                {"this_block_name": name, "parent_block_name": parent}
                for name in values(query, "block_name")
                for parent in self._parents_of_block.get(name, ())
            ]
        return iter(rows)

    def block_summaries(self, query: Query) -> Iterator[Record]:
        blocks = self._found_blocks(query)
        with self._journal.lock:
            events = {
                block["block_name"]: sum(
                    self._files[lfn].get("event_count") or 0 for lfn in self._files_of[block["block_name"]]
                )
                for block in blocks
            }
        rows = [
            {
                "block_name": block["block_name"],
                "num_file": block["file_count"],
                "file_size": block["block_size"],
                "num_event": events[block["block_name"]],
                "open_for_writing": block["open_for_writing"],
            }
            for block in blocks
        ]
        if _is_true(query.get("detail")):
            return iter(rows)
        return iter([{key: sum(row[key] for row in rows) for key in ("file_size", "num_event", "num_file")}])

    def files(self, query: Query) -> Iterator[Record]:
        _wanted(query, "dataset", "block_name", "logical_file_name")
        return (_shown(file, query, OF_FILE, "logical_file_name") for file in self._found_files(query))

    def file_parents(self, query: Query) -> Iterator[Record]:
        _wanted(query, "block_name", "logical_file_name")
        found = self._found_files(query)
        with self._journal.lock:
            rows = [
                {
                    "logical_file_name": file["logical_file_name"],
                    "parent_logical_file_name": parent,
                    "parent_file_id": self._files[parent]["file_id"],
                }
                for file in found
                for parent in self._parents_of_file.get(file["logical_file_name"], ())
            ]
        return iter(rows)

    def file_lumis(self, query: Query) -> Iterator[Record]:
        _wanted(query, "block_name", "logical_file_name")
        names = [file["logical_file_name"] for file in self._found_files(query)]
        return (
            {"event_count": None, "logical_file_name": name, **lumi}
            for name in names
            for lumi in json.loads(self._lumis[name])
        )

    def file_summaries(self, query: Query) -> Iterator[Record]:
        _wanted(query, "dataset", "block_name")
        files = self._found_files(query)
        lumis = {
            (lumi["run_num"], lumi["lumi_section_num"])
            for file in files
            for lumi in json.loads(self._lumis[file["logical_file_name"]])
        }
        row = {
            "num_file": len(files),
            "num_event": sum(file.get("event_count") or 0 for file in files),
            "file_size": sum(file["file_size"] for file in files),
            "num_block": len(self._found_blocks(query)),
            "num_lumi": len(lumis),
        }
        return iter([row])

    def _found_files(self, query: Query) -> list[Record]:
        with self._journal.lock:
            if "logical_file_name" in query:
                names: Iterable[str] = values(query, "logical_file_name")
            elif "block_name" in query:
                names = [lfn for one in values(query, "block_name") for lfn in self._files_of.get(one, ())]
            else:
                blocks = self._blocks_of.get(query["dataset"], ())
                names = sorted(name for block in blocks for name in self._files_of[block])
            found = _matching(self._files, names, query, "dataset")
            if query.get("validFileOnly") != "1":
                return found
            return [
                file
                for file in found
                if file["is_file_valid"]
                and self._datasets[file["dataset"]]["dataset_access_type"] in SERVED_VALID
            ]

    def acquisition_eras(self, query: Query) -> Iterator[Record]:
        pattern = query.get("acquisition_era_name", "*")
        with self._journal.lock:
            return iter([era for name, era in sorted(self._eras.items()) if fnmatchcase(name, pattern)])

    def output_configurations(self, query: Query) -> Iterator[Record]:
        with self._journal.lock:
            if "logical_file_name" in query:
                file = self._files.get(query["logical_file_name"], {})
                names = [file.get("dataset", "")]
            else:
                names = [query["dataset"]] if "dataset" in query else sorted(self._configurations)
            rows = [one for name in names for one in self._configurations.get(name, ())]
        given = [(key, query[key]) for key in ("release_version", "pset_hash", "app_name") if key in query]
        return iter([row for row in rows if all(row.get(key) == value for key, value in given)])

    def set_dataset(self, query: Query) -> list[Record]:
        """DBS's PUT of a dataset: only its access type can be changed here.

        As with DBS, a change of what is not there is granted and changes nothing; so it is with files and blocks.
        """
        name, access = _wanted(query, "dataset"), _wanted(query, "dataset_access_type")
        if access not in ACCESS_TYPES:
            raise Refused(400, f"{access} is no access type of a dataset", NO_ID)
        with self._journal.lock:
            if name in self._datasets:
                self._journal.change("access", name, access)
        return []

    def set_files(self, query: Query) -> list[Record]:
        """Files by name, or all of a dataset; without is_file_valid they become invalid, as with DBS itself."""
        _wanted(query, "logical_file_name", "dataset")
        valid = query.get("is_file_valid", "0")
        if valid not in ("0", "1"):
            raise Refused(400, "invalid parameter(s): invalid is_file_valid parameter", BAD_PARAMETERS)
        with self._journal.lock:
            lfns = [file["logical_file_name"] for file in self._found_files(query)]
            if lfns:
                self._journal.change("valid", lfns, int(valid))
        return []

    def set_block(self, query: Query) -> list[Record]:
        """Open or closed, closed if nothing is said; or the site where it was made."""
        name = _wanted(query, "block_name")
        open_for_writing = query.get("open_for_writing", "0")
        if open_for_writing not in ("0", "1"):
            raise Refused(400, "invalid parameter(s): invalid open_for_writing parameter", BAD_PARAMETERS)
        site = query.get("origin_site_name")
        changes = {"origin_site_name": site} if site else {"open_for_writing": int(open_for_writing)}
        with self._journal.lock:
            if name in self._blocks:
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


def _as_query(body: Any) -> Query:
    """The names that a POST carries, as a query would."""
    if not isinstance(body, dict):
        raise Refused(400, "the body is no JSON object", BAD_PARAMETERS)
    return {
        key: json.dumps(value) if isinstance(value, list) else str(value)
        for key, value in body.items()
        if key != "detail"
    }


def _flag(body: Record, key: str) -> int:
    return int(_is_true(str(body.get(key, ""))))


def _is_true(value: str | None) -> bool:
    return value in ("1", "true", "True")


def values(query: Query, key: str) -> list[str]:
    """One value or many: a list comes as JSON, or as Python writes it, which is how dbs3-client sends it."""
    value = query.get(key, "")
    if not value.startswith("["):
        return [value] if value else []
    try:
        return [str(one) for one in literal_eval(value)]
    except (ValueError, SyntaxError):
        raise Refused(400, f"{key} is no list", BAD_PARAMETERS) from None


def _wanted(query: Query, *names: str) -> str:
    value = next((query[name] for name in names if name in query), None)
    if value is None:
        raise Refused(400, f"name one of: {', '.join(names)}", BAD_PARAMETERS)
    return value


def _matching(records: dict[str, Record], names: Iterable[str], query: Query, *keys: str) -> list[Record]:
    given = [(key, query[key]) for key in keys if key in query]
    found = [records[name] for name in names if name in records]
    return [record for record in found if all(record.get(key) == value for key, value in given)]


def _shown(record: Record, query: Query, columns: Iterable[str], key: str) -> Record:
    if not _is_true(query.get("detail")):
        return {key: record[key]}
    return {column: record.get(column) for column in columns}
