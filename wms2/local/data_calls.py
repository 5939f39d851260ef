"""The calls of the stand-in Rucio for data: identifiers and replicas."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from wms2.local.catalogue import Catalogue
from wms2.local.holdings import AVAILABLE, CONTAINER, DATASET, FILE, SCOPE, Did
from wms2.local.journal import Record
from wms2.local.refusals import RucioFault, RucioRefusal, invalid
from wms2.local.reply import CREATED, JSON, STREAM, Call, Reply, Route, as_date, as_json
from wms2.local.storage import SCHEME, BadExpression, attributes, pfn_of, rse_id

MOST_DIDS = 1000
KINDS = {
    "all": (CONTAINER, DATASET, FILE),
    "collection": (CONTAINER, DATASET),
    "container": (CONTAINER,),
    "dataset": (DATASET,),
    "file": (FILE,),
}
HOW_TO_SEARCH = ("type", "long", "recursive", "filters", "limit", "offset")
NEVER_SET = (
    "access_cnt", "accessed_at", "campaign", "closed_at", "complete", "constituent", "datatype", "deleted_at",
    "eol_at", "expired_at", "guid", "is_archive", "lumiblocknr", "panda_id", "phys_group", "prod_step", "project",
    "provenance", "run_number", "stream_name", "task_id", "version",
)  # fmt: skip
"""Metadata that the stand-in knows by name only."""


class DataCalls:
    def __init__(self, catalogue: Catalogue, clock: Callable[[], float]) -> None:
        self._holdings = catalogue.holdings
        self._rules = catalogue.rules
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            ("POST", "dids", JSON, self._add_dids),
            ("POST", "dids/attachments", None, self._attach_many),
            ("POST", "dids/bulkmeta", STREAM, self._many_metadata),
            ("GET", "dids/*/dids/search", STREAM, self._search),
            ("GET", "dids/*/*", JSON, self._did),
            ("POST", "dids/*/*", None, self._add_did),
            ("PUT", "dids/*/*/status", None, self._set_status),
            ("GET", "dids/*/*/dids", STREAM, self._content),
            ("POST", "dids/*/*/dids", None, self._attach),
            ("DELETE", "dids/*/*/dids", None, self._detach),
            ("GET", "dids/*/*/files", STREAM, self._files),
            ("GET", "dids/*/*/parents", STREAM, self._parents),
            ("GET", "dids/*/*/meta", JSON, self._metadata),
            ("POST", "replicas", None, self._add_replicas),
            ("PUT", "replicas", None, self._set_states),
            ("DELETE", "replicas", None, self._delete_replicas),
            ("POST", "replicas/list", STREAM, self._list_replicas),
            ("POST", "replicas/bad", JSON, self._declare_bad),
            ("POST", "replicas/datasets_bulk", STREAM, self._dataset_replicas_bulk),
            ("GET", "replicas/*/*/datasets", STREAM, self._dataset_replicas),
        ]

    # Data identifiers

    def _found(self, call: Call) -> Did:
        return self._holdings.did(call.scope, call.name)

    def _did(self, call: Call) -> Reply:
        did = self._found(call)
        row: Record = {"scope": SCOPE, "name": did.name, "type": did.kind, "account": did.account}
        if did.kind == FILE:
            return as_json({**row, "bytes": did.size, "length": 1, "md5": None, "adler32": did.adler32})
        counted = "dynamic" in call.query or call.query.get("dynamic_depth", "").upper() in (FILE, DATASET)
        length, size = self._holdings.size_of(did) if counted else (did.length, did.size)
        state = {"open": did.is_open, "monotonic": False, "expired_at": None}
        return as_json({**row, **state, "length": length, "bytes": size})

    def _add_did(self, call: Call) -> Reply:
        call.need("type")
        self._add({**call.body, "scope": call.scope, "name": call.name}, call.issuer)
        return Reply(status=201, text=CREATED)

    def _add_dids(self, call: Call) -> Reply:
        for did in call.body:
            self._add(did, call.issuer)
        return Reply(status=201, text=CREATED)

    def _add(self, did: Record, issuer: str) -> None:
        """With what is in it, and with rules on it, where it comes with them."""
        self._holdings.add_did(did["scope"], did["name"], did["type"], issuer)
        if did.get("dids"):
            self._fill(did["scope"], did["name"], did, issuer)
        for rule in did.get("rules") or ():
            named = {"dids": [{"scope": did["scope"], "name": did["name"]}]}
            self._rules.add({"account": issuer, **rule, **named}, issuer)

    def _fill(
        self, scope: str, name: str, told: Record, issuer: str, skip_known: bool = False, mismatch: int = 500
    ) -> None:
        """Attach what it is told to; where an RSE is named, the files are there, and need not be known before."""
        if told.get("rse"):
            self._holdings.add_replicas(told["rse"], told["dids"], issuer)
        self._holdings.attach(scope, name, told["dids"], skip_known, mismatch)

    def _search(self, call: Call) -> Reply:
        """The DIDs that fit one of the filters: their names, or with `long` what is known of them."""
        kind, is_long = call.query.get("type", "collection"), call.query.get("long", "").lower()
        if kind not in KINDS:
            message = f"{kind} is not a valid type. Valid types are {list(KINDS)}"
            raise RucioRefusal(409, "UnsupportedOperation", message)
        filters = _filters(call.query)
        found = [
            did
            for _, did in sorted(self._holdings.dids.items())
            if call.names[0] == SCOPE
            and did.kind in KINDS[kind]
            and any(self._is_found(did, wanted) for wanted in filters)
        ]
        if is_long not in ("1", "true"):
            return Reply(iter([did.name for did in found]))
        return Reply(
            {
                "scope": SCOPE,
                "name": did.name,
                "did_type": did.kind,
                "bytes": did.size,
                "length": did.length,
            }
            for did in found
        )

    def _is_found(self, did: Did, wanted: Record) -> bool:
        """What Rucio knows besides names and metadata, such as dates, is not looked for here."""
        if not fnmatchcase(did.name, str(wanted.get("name", "*"))):
            return False
        if stranger := next((key for key in wanted if "." in key or key.startswith("created_")), None):
            message = f"the local stack's Rucio does not search by {stranger}"
            raise RucioRefusal(501, "NotImplemented", message)
        known = self._metadata_of(did)
        return all(key in known and fnmatchcase(str(known[key]), str(value)) for key, value in wanted.items())

    def _set_status(self, call: Call) -> Reply:
        self._holdings.set_status(call.scope, call.name, call.body)
        return Reply()

    def _attach(self, call: Call) -> Reply:
        if isinstance(call.body, dict) and "dids" not in call.body:
            raise RucioFault("'dids'")
        call.need("dids")
        if "account" in call.body:
            raise invalid(
                "attachment", "Additional properties are not allowed ('account' was unexpected)", 500
            )
        self._fill(call.scope, call.name, call.body, call.issuer)
        return Reply(status=201, text=CREATED)

    def _attach_many(self, call: Call) -> Reply:
        bare = isinstance(call.body, list)
        attachments = call.body if bare else call.need("attachments")
        skip_known = not bare and bool(call.body.get("ignore_duplicate"))
        for one in attachments:
            self._fill(one["scope"], one["name"], one, call.issuer, skip_known, mismatch=412)
        return Reply(status=201, text=CREATED)

    def _detach(self, call: Call) -> Reply:
        self._holdings.detach(call.scope, call.name, call.need("dids"))
        return Reply()

    def _content(self, call: Call) -> Reply:
        children = [self._holdings.dids[name] for name in self._found(call).children]
        return Reply(
            {
                "scope": SCOPE,
                "name": child.name,
                "type": child.kind,
                "bytes": child.size if child.kind == FILE else None,
                "adler32": child.adler32,
                "md5": None,
            }
            for child in children
        )

    def _files(self, call: Call) -> Reply:
        files = [self._holdings.dids[name] for name in self._holdings.files_of(self._found(call))]
        return Reply(
            {
                "scope": SCOPE,
                "name": file.name,
                "bytes": file.size,
                "adler32": file.adler32,
                "guid": None,
                "events": None,
            }
            for file in files
        )

    def _parents(self, call: Call) -> Reply:
        parents = [self._holdings.dids[name] for name in self._found(call).parents]
        return Reply({"scope": SCOPE, "name": above.name, "type": above.kind} for above in parents)

    def _metadata(self, call: Call) -> Reply:
        return as_json(self._metadata_of(self._found(call)))

    def _many_metadata(self, call: Call) -> Reply:
        """Of those that are known."""
        known = [self._holdings.dids[name] for _, name in call.dids() if name in self._holdings.dids]
        return Reply(iter([self._metadata_of(did) for did in known]))

    def _metadata_of(self, did: Did) -> Record:
        return {
            **dict.fromkeys(NEVER_SET),
            "scope": SCOPE,
            "name": did.name,
            "did_type": did.kind,
            "account": did.account,
            "bytes": did.size,
            "length": did.length,
            "adler32": did.adler32,
            "md5": None,
            "events": None,
            "is_open": did.is_open,
            "is_new": did.kind != DATASET or did.name in self._holdings.fresh,
            "monotonic": False,
            "hidden": False,
            "obsolete": False,
            "suppressed": False,
            "transient": False,
            "purge_replicas": True,
            "availability": AVAILABLE,
            "created_at": as_date(did.made_at),
            "updated_at": as_date(did.made_at),
        }

    # Replicas

    def _add_replicas(self, call: Call) -> Reply:
        self._holdings.add_replicas(call.need("rse"), call.need("files"), call.issuer)
        return Reply(status=201, text=CREATED)

    def _set_states(self, call: Call) -> Reply:
        self._rules.set_states(call.need("rse"), call.need("files"))
        return Reply()

    def _delete_replicas(self, call: Call) -> Reply:
        message = f"Account {call.issuer} can not delete file replicas on {call.need('rse')}. "
        raise RucioRefusal(401, "AccessDenied", message)

    def _declare_bad(self, call: Call) -> Reply:
        left = self._holdings.declare_bad(call.need("replicas"))
        return Reply(status=201, text=json.dumps(left), form=JSON)

    def _list_replicas(self, call: Call) -> Reply:
        """A row a file. Of a dataset, files that are nowhere are left out unless all states are asked for."""
        rses = None
        if expression := call.body.get("rse_expression"):
            rses = self._at(expression)
        everything = bool(call.body.get("all_states"))
        schemes = call.body.get("schemes") or [SCHEME]
        rows: dict[str, Record] = {}
        for scope, name in call.dids():
            did = self._holdings.dids.get(name) if scope == SCOPE else None
            for lfn in self._holdings.files_of(did) if did else ():
                row = self._replica_row(lfn, rses, everything, SCHEME in schemes)
                if row["states"] or (did and did.kind == FILE and rses is None):
                    rows[lfn] = row
        return Reply(iter(rows.values()))

    def _replica_row(self, lfn: str, rses: set[str] | None, everything: bool, with_pfns: bool) -> Record:
        file = self._holdings.dids[lfn]
        states = {
            rse: state
            for rse, state in self._holdings.replicas.get(lfn, {}).items()
            if (everything or state == AVAILABLE) and (rses is None or rse in rses)
        }
        pfns = {pfn_of(rse, lfn): rse for rse in states} if with_pfns else {}
        return {
            "scope": SCOPE,
            "name": lfn,
            "bytes": file.size,
            "md5": None,
            "adler32": file.adler32,
            "pfns": {pfn: _pfn(rse, number) for number, (pfn, rse) in enumerate(pfns.items(), start=1)},
            "rses": {rse: [pfn] for pfn, rse in pfns.items()},
            "states": states,
        }

    def _dataset_replicas_bulk(self, call: Call) -> Reply:
        """A row for each block and RSE; nothing for blocks that are not known."""
        if call.need("dids") == []:
            raise RucioRefusal(400, "ValueError", "List of DIDs is empty")
        dids = call.dids()
        if len(dids) > MOST_DIDS:
            raise RucioRefusal(400, "InvalidObject", "Cannot validate DIDs: there are more than 1000")
        names = [name for scope, name in dids if scope == SCOPE and name in self._holdings.shelves]
        return Reply(iter([row for name in names for row in self._shelf_rows(name)]))

    def _dataset_replicas(self, call: Call) -> Reply:
        """Where it is listed, or with `deep` wherever some of its files are."""
        scope, name = call.names
        known = scope == SCOPE and name in self._holdings.shelves
        deep = call.query.get("deep", "").lower() == "true"
        return Reply(iter(list(self._shelf_rows(name, deep)) if known else []))

    def _shelf_rows(self, block: str, deep: bool = False) -> Iterator[Record]:
        dataset = self._holdings.dids[block]
        length, size = self._holdings.size_of(dataset)
        now = as_date(self._clock())
        for rse in sorted(self._holdings.homes_of(dataset) if deep else self._holdings.shelves[block]):
            available, available_bytes = self._holdings.available(dataset, rse)
            yield {
                "scope": SCOPE,
                "name": block,
                "rse": rse,
                "rse_id": rse_id(rse),
                "bytes": size,
                "length": length,
                "available_bytes": available_bytes,
                "available_length": available,
                "state": AVAILABLE if 0 < available == length else "UNAVAILABLE",
                "created_at": now,
                "updated_at": now,
                "accessed_at": None,
            }

    def _at(self, expression: str) -> set[str]:
        try:
            return set(self._holdings.storage.select(expression))
        except BadExpression as error:
            raise RucioRefusal(500, "InvalidRSEExpression", str(error)) from None


def _filters(query: dict[str, str]) -> list[Record]:
    """What is searched for: a list as Python writes it, which is how rucio-clients send it, or one filter's parts."""
    try:
        listed = list(literal_eval(query.get("filters", "[]")))
    except (ValueError, SyntaxError):
        raise RucioRefusal(409, "DIDFilterSyntaxError", "the filters are no list") from None
    return listed or [{key: value for key, value in query.items() if key not in HOW_TO_SEARCH}]


def _pfn(rse: str, priority: int) -> Record:
    kind = attributes(rse)["rse_type"]
    return {
        "rse_id": rse_id(rse),
        "rse": rse,
        "type": kind,
        "volatile": False,
        "domain": "wan",
        "priority": priority,
        "client_extract": False,
    }
