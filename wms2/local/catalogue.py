"""What the stand-in services remember: requests, datasets, blocks and files, in one JSON file."""

import json
import threading
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Query = dict[str, str]


# Numbers by which DBS tells its errors apart.
GENERIC, DATABASE, INSERT_FAILED, BAD_PARAMETERS, BLOCK_EXISTS = 100, 101, 110, 118, 200


class Refused(Exception):
    """A call that the service turns down, with the HTTP status it answers and DBS's own number."""

    def __init__(self, status: int, message: str, code: int = GENERIC) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class Catalogue:
    """The memory of DBS and ReqMgr2. Safe for several threads; every change is on disk before it is answered."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._requests: dict[str, Record] = {}
        self._datasets: dict[str, Record] = {}
        self._blocks: dict[str, Record] = {}
        self._files: dict[str, Record] = {}
        if file.exists():
            self._load(json.loads(file.read_text(encoding="utf-8")))

    def _load(self, content: dict[str, dict[str, Record]]) -> None:
        self._requests = content["requests"]
        self._datasets = content["datasets"]
        self._blocks = content["blocks"]
        self._files = content["files"]

    def _save(self) -> None:
        content = {
            "requests": self._requests,
            "datasets": self._datasets,
            "blocks": self._blocks,
            "files": self._files,
        }
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(content), encoding="utf-8")
        new.replace(self._file)

    def request(self, name: str) -> Record:
        with self._lock:
            if name not in self._requests:
                raise Refused(404, f"no request {name}")
            return {"result": [{name: self._requests[name]}]}

    def put_request(self, name: str, changes: Record) -> Record:
        """Make the request, or change fields of it."""
        with self._lock:
            self._requests.setdefault(name, {"RequestName": name}).update(changes)
            self._save()
            return {"result": [{name: "OK"}]}

    def datasets(self, query: Query) -> list[Record]:
        pattern = _wanted(query, "dataset")
        access = query.get("dataset_access_type", "*")
        with self._lock:
            found = [
                record
                for name, record in sorted(self._datasets.items())
                if fnmatchcase(name, pattern) and fnmatchcase(record["dataset_access_type"], access)
            ]
        return [_shown(record, query, "dataset") for record in found]

    def blocks(self, query: Query) -> list[Record]:
        with self._lock:
            found = list(_matching(self._blocks, query, "dataset", "block_name"))
        return [_shown(record, query, "block_name") for record in found]

    def files(self, query: Query) -> list[Record]:
        with self._lock:
            found = list(_matching(self._files, query, "dataset", "block_name", "logical_file_name"))
        if query.get("validFileOnly") == "1":
            found = [record for record in found if record["is_file_valid"]]
        hidden = {"file_lumi_list", "file_parent_list"}
        plain = [{key: value for key, value in record.items() if key not in hidden} for record in found]
        return [_shown(record, query, "logical_file_name") for record in plain]

    def file_lumis(self, query: Query) -> list[Record]:
        with self._lock:
            found = list(_matching(self._files, query, "block_name", "logical_file_name"))
        return [
            {"logical_file_name": record["logical_file_name"], **lumi}
            for record in found
            for lumi in record["file_lumi_list"]
        ]

    def set_dataset(self, query: Query) -> list[Record]:
        """DBS's PUT of a dataset: only its access type can be changed here."""
        name, access = _wanted(query, "dataset"), _wanted(query, "dataset_access_type")
        if access not in ("PRODUCTION", "VALID", "INVALID", "DEPRECATED", "DELETED"):
            raise Refused(400, f"{access} is no access type of a dataset", BAD_PARAMETERS)
        with self._lock:
            if name not in self._datasets:
                raise Refused(400, f"there is no dataset {name}", DATABASE)
            self._datasets[name]["dataset_access_type"] = access
            self._save()
        return []

    def insert_block(self, bulk: Record) -> list[Record]:
        """DBS's bulkblocks: a block with its dataset and files, all or nothing, once."""
        try:
            block, dataset, files = bulk["block"], bulk["dataset"], bulk["files"]
            name, dataset_name = block["block_name"], dataset["dataset"]
            rows = {file["logical_file_name"]: _file_row(file, name, dataset_name) for file in files}
            parents = [parent["parent_logical_file_name"] for parent in bulk.get("file_parent_list", ())]
        except (KeyError, TypeError) as error:
            raise Refused(400, f"bulkblocks needs block, dataset and files; {error} is missing") from None
        with self._lock:
            self._refuse_strangers(parents, bulk.get("dataset_parent_list", ()))
            if name in self._blocks:
                raise Refused(400, f"Block {name} already exists", BLOCK_EXISTS)
            known = next((lfn for lfn in rows if lfn in self._files), None)
            if known:
                raise Refused(400, f"file {known} already exists", INSERT_FAILED)
            self._datasets.setdefault(dataset_name, {"dataset_access_type": "PRODUCTION", **dataset})
            size = sum(row["file_size"] for row in rows.values())
            self._blocks[name] = {
                "open_for_writing": 0,
                **block,
                "dataset": dataset_name,
                "file_count": len(rows),
                "block_size": size,
            }
            self._files.update(rows)
            self._save()
        return []

    def _refuse_strangers(self, files: list[str], datasets: list[str]) -> None:
        """Parents must be in DBS before their children."""
        for kind, names, known in (("file", files, self._files), ("dataset", datasets, self._datasets)):
            if stranger := next((name for name in names if name not in known), None):
                raise Refused(400, f"unable to find the parent {kind} {stranger}", DATABASE)


def _wanted(query: Query, *names: str) -> str:
    value = next((query[name] for name in names if name in query), None)
    if value is None:
        raise Refused(400, f"name one of: {', '.join(names)}", BAD_PARAMETERS)
    return value


def _matching(records: dict[str, Record], query: Query, *names: str) -> Iterator[Record]:
    _wanted(query, *names)
    given = {name: query[name] for name in names if name in query}
    for _, record in sorted(records.items()):
        if all(record[name] == value for name, value in given.items()):
            yield record


def _shown(record: Record, query: Query, key: str) -> Record:
    return record if query.get("detail") in ("1", "true", "True") else {key: record[key]}


def _file_row(file: Record, block: str, dataset: str) -> Record:
    defaults = {"is_file_valid": 1, "file_lumi_list": [], "file_parent_list": [], "file_size": 0}
    return {**defaults, **file, "block_name": block, "dataset": dataset}
