"""What the stand-in Rucio holds: containers, datasets and files, and which RSE has which file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wms2.local.bulk import Bulk
from wms2.local.journal import Journal, Record, Refused
from wms2.local.refusals import RucioFault, RucioRefusal, invalid, unknown_did, unknown_rse
from wms2.local.storage import Storage, disk_of

SCOPE = "cms"
CONTAINER, DATASET, FILE = "CONTAINER", "DATASET", "FILE"
AVAILABLE, COPYING, UNAVAILABLE, BAD = "AVAILABLE", "COPYING", "UNAVAILABLE", "BAD"
STATES = {
    "A": AVAILABLE, "U": UNAVAILABLE, "C": COPYING, "B": "BEING_DELETED", "D": BAD, "S": "SOURCE",
    "T": "TEMPORARY_UNAVAILABLE",
}  # fmt: skip
STATES |= {name: name for name in STATES.values()}
ADLER32 = re.compile(r"[a-fA-F\d]{8}")
UNKNOWN_SITE = "UNKNOWN"
OF_DBS = "dbs"
"""The account of what DBS was told of and Rucio was not."""
CHUNK = 1000


@dataclass
class Did:
    name: str
    kind: str
    account: str
    made_at: float
    size: int | None = None
    adler32: str | None = None
    is_open: bool | None = None
    length: int | None = None
    children: dict[str, None] = field(default_factory=dict)
    parents: dict[str, None] = field(default_factory=dict)


class Holdings:
    """Who changes them holds the journal's lock."""

    def __init__(self, journal: Journal, storage: Storage, clock: Callable[[], float] = time.time) -> None:
        self.journal = journal
        self.storage = storage
        self.clock = clock
        self.dids: dict[str, Did] = {}
        self.replicas: dict[str, dict[str, str]] = {}
        self.shelves: dict[str, dict[str, None]] = {}
        """For each dataset the RSEs that Rucio lists for it: where a rule wanted it, or a test put it."""
        self.fresh: dict[str, None] = {}
        """Datasets that no subscription was asked about yet."""
        self.changed: dict[str, None] = {}
        """Datasets and containers with content that rules do not cover yet."""
        journal.learn(
            did=self._take_did,
            attached=self._take_attached,
            detached=self._take_detached,
            open=self._take_open,
            replicas=self._take_replicas,
            bad=self._take_bad,
            placed=self._take_place,
        )

    # What is there

    def did(self, scope: str, name: str) -> Did:
        if scope != SCOPE or name not in self.dids:
            raise unknown_did(scope, name)
        return self.dids[name]

    def files_of(self, did: Did) -> Iterator[str]:
        """The files below, each once."""
        if did.kind == FILE:
            yield did.name
        elif did.kind == DATASET:
            yield from list(did.children)
        else:
            names = (name for child in list(did.children) for name in self.files_of(self.dids[child]))
            yield from dict.fromkeys(names)

    def datasets_of(self, did: Did) -> Iterator[Did]:
        if did.kind == CONTAINER:
            for child in list(did.children):
                yield from self.datasets_of(self.dids[child])
        elif did.kind == DATASET:
            yield did

    def size_of(self, did: Did) -> tuple[int, int]:
        """How many files, and how many bytes."""
        files = list(self.files_of(did))
        return len(files), sum(self.dids[name].size or 0 for name in files)

    def available(self, dataset: Did, rse: str) -> tuple[int, int]:
        there = [name for name in dataset.children if self.replicas.get(name, {}).get(rse) == AVAILABLE]
        return len(there), sum(self.dids[name].size or 0 for name in there)

    def homes_of(self, dataset: Did) -> set[str]:
        """The RSEs that have some file of it."""
        replicas = (self.replicas.get(name, {}) for name in dataset.children)
        return {rse for states in replicas for rse, state in states.items() if state == AVAILABLE}

    def stored_at(self, rse: str) -> tuple[int, int]:
        """How many files an RSE has, and how many bytes."""
        files = [name for name, states in self.replicas.items() if states.get(rse) == AVAILABLE]
        return len(files), sum(self.dids[name].size or 0 for name in files)

    # What callers ask for

    def add_did(self, scope: str, name: str, kind: str, account: str) -> None:
        self.check_scope(scope)
        if kind not in (CONTAINER, DATASET, FILE, "F"):
            kinds = [DATASET, CONTAINER, FILE, "F"]
            raise invalid("did", f"'{kind}' is not one of {kinds}", 400)
        if kind not in (CONTAINER, DATASET):
            message = "Only collection (dataset/container) can be registered."
            raise RucioRefusal(409, "UnsupportedOperation", message)
        if name in self.dids:
            raise RucioRefusal(409, "DataIdentifierAlreadyExists", "Data Identifier already exists!")
        self.journal.change("did", name, kind, account, self.clock())

    def check_scope(self, scope: str) -> None:
        if scope != SCOPE:
            raise RucioRefusal(404, "ScopeNotFound", "Scope not found!")

    def attach(
        self, scope: str, parent: str, children: list[Record], skip_known: bool = False, mismatch: int = 500
    ) -> None:
        """All of them or none; `mismatch` is the status for a file that is another than it is said to be."""
        above = self.did(scope, parent)
        if not children:
            raise invalid("attachment", "[] should be non-empty", 500)
        if above.is_open is False:
            message = f"Data identifier '{scope}:{parent}' is closed"
            raise RucioRefusal(409, "UnsupportedOperation", message)
        for child in children:
            self._check_child(above, child, mismatch)
        new = [child["name"] for child in children if child["name"] not in above.children]
        if len(new) < len(children) and not skip_known:
            kind = "FileAlreadyExists" if above.kind == DATASET else "DuplicateContent"
            message = "('UNIQUE constraint failed: contents.scope, contents.name, contents.child_name',)"
            raise RucioRefusal(409, kind, message)
        for start in range(0, len(new), CHUNK):
            self.journal.change("attached", parent, new[start : start + CHUNK])

    def _check_child(self, above: Did, said: Record, mismatch: int) -> None:
        child = self.did(said["scope"], said["name"])
        fits = child.kind == FILE if above.kind == DATASET else child.kind in (DATASET, CONTAINER)
        if not fits:
            where = "dataset" if above.kind == DATASET else "container"
            message = f"Data identifier {SCOPE}:{child.name} of type DIDType.{child.kind} cannot be added to a {where} "
            raise RucioRefusal(409, "UnsupportedOperation", message)
        for key, own in (("bytes", child.size), ("adler32", child.adler32)):
            if above.kind == DATASET and said.get(key) is not None and said[key] != own:
                message = f"{key} mismatch for '{SCOPE}:{child.name}': {said[key]}!={own}"
                raise RucioRefusal(mismatch, "FileConsistencyMismatch", message)

    def detach(self, scope: str, parent: str, children: list[Record]) -> None:
        above = self.did(scope, parent)
        names = [child["name"] for child in children]
        if stray := next((name for name in names if name not in above.children), None):
            message = f"Data identifier '{SCOPE}:{stray}' not found under '{scope}:{parent}'"
            raise RucioRefusal(404, "DataIdentifierNotFound", message)
        self.journal.change("detached", parent, names)

    def set_status(self, scope: str, name: str, status: Record) -> None:
        did = self.did(scope, name)
        if stranger := next((key for key in status if key != "open"), None):
            message = f"The status {stranger} is not a valid data identifier status."
            raise RucioRefusal(409, "UnsupportedStatus", message)
        if did.kind == FILE or did.is_open == status["open"]:
            message = f"The status of the data identifier '{scope}:{name}' cannot be changed"
            raise RucioRefusal(409, "UnsupportedOperation", message)
        self.journal.change("open", name, bool(status["open"]))

    def add_replicas(self, rse: str, files: list[Record], account: str) -> None:
        """Known files stay as they are, whatever is said of them now: so does Rucio."""
        if rse not in self.storage.names():
            raise unknown_rse(rse)
        if not files:
            message = "An unknown Database Exception has occurred."
            raise RucioRefusal(500, "DatabaseException", message)
        for file in files:
            self.check_scope(file["scope"])
            if "bytes" not in file:
                raise RucioFault("'bytes'")
            if not ADLER32.fullmatch(file.get("adler32") or "0" * 8):
                raise invalid("dids", f"'{file['adler32']}' does not match '^[a-fA-F\\\\d]{{8}}$'", 500)
        rows = [
            [file["name"], file["bytes"], file.get("adler32"), STATES[file.get("state", "A")]]
            for file in files
            if rse not in self.replicas.get(file["name"], {})
        ]
        for start in range(0, len(rows), CHUNK):
            self.journal.change("replicas", rse, rows[start : start + CHUNK], account, self.clock())

    def declare_bad(self, replicas: list[Record]) -> dict[str, list[str]]:
        """Those that cannot be declared, with the reason."""
        left: dict[str, list[str]] = {}
        for replica in replicas:
            name, rse = replica["name"], replica["rse"]
            state = self.replicas.get(name, {}).get(rse)
            if rse not in self.storage.names():
                raise unknown_rse(rse)
            if state in (None, BAD):
                why = "Already declared" if state else "Unknown replica"
                left.setdefault(rse, []).append(f"{SCOPE}:{name} {why}")
            else:
                self.journal.change("bad", rse, [name])
        return left

    def place(self, block: str, available: Any) -> Record:
        """From now on the block lies there and nowhere else: how many of its files are available at each RSE."""
        counts = available.values() if isinstance(available, dict) else [None]
        if not all(isinstance(count, int) for count in counts):
            raise Refused(400, "a place is an RSE and how many of the block's files it has")
        with self.journal.lock:
            if block not in self.dids:
                raise Refused(404, f"there is no block {block}")
            self.journal.change("placed", block, available)
        return {}

    # How changes are taken in

    def _take_did(self, name: str, kind: str, account: str, now: float) -> None:
        self.dids[name] = Did(name, kind, account, now, is_open=True)
        if kind == DATASET:
            self.shelves.setdefault(name, {})
            self.fresh[name] = None

    def _take_attached(self, parent: str, names: list[str]) -> None:
        above = self.dids[parent]
        for name in names:
            above.children[name] = None
            self.dids[name].parents[parent] = None
        self.changed[parent] = None

    def _take_detached(self, parent: str, names: list[str]) -> None:
        for name in names:
            self.dids[parent].children.pop(name, None)
            self.dids[name].parents.pop(parent, None)
        self.changed[parent] = None

    def _take_open(self, name: str, is_open: bool) -> None:
        did = self.dids[name]
        did.is_open = is_open
        if not is_open:
            did.length, did.size = self.size_of(did)

    def _take_replicas(self, rse: str, rows: Iterable[list[Any]], account: str, now: float) -> None:
        for name, size, adler32, state in rows:
            if name not in self.dids:
                self.dids[name] = Did(name, FILE, account, now, size, adler32)
            self.replicas.setdefault(name, {})[rse] = state

    def _take_bad(self, rse: str, names: list[str]) -> None:
        for name in names:
            self.replicas[name][rse] = BAD

    def _take_place(self, block: str, available: dict[str, int]) -> None:
        files = sorted(self.dids[block].children)
        for rse in available:
            self.storage.take(rse)
        for number, name in enumerate(files):
            self.replicas[name] = {rse: AVAILABLE for rse, count in available.items() if number < count}
        self.shelves[block] = dict.fromkeys(available)

    def inherit(self, bulk: Bulk, now: float) -> None:
        """A block that DBS was told of and Rucio was not lies where it was made: so input datasets come to be."""
        if bulk.name in self.dids:
            return
        dataset = bulk.dataset["dataset"]
        if dataset not in self.dids:
            self._take_did(dataset, CONTAINER, OF_DBS, now)
        self._take_did(bulk.name, DATASET, OF_DBS, now)
        del self.fresh[bulk.name]
        files = sorted(bulk.files, key=lambda file: str(file["logical_file_name"]))
        names = [file["logical_file_name"] for file in files]
        for file, name in zip(files, names, strict=True):
            size, adler32 = file.get("file_size", 0), file.get("adler32")
            self.dids.setdefault(name, Did(name, FILE, OF_DBS, now, size, adler32))
        self._take_attached(bulk.name, names)
        self._take_attached(dataset, [bulk.name])
        self._take_open(bulk.name, False)
        site = bulk.block.get("origin_site_name")
        made_at = {} if site in (None, UNKNOWN_SITE) else {disk_of(site): len(names)}
        self._take_place(bulk.name, made_at)
