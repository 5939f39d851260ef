"""The stand-in for ReqMgr2 and for the configuration cache in its CouchDB."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from wms2.local.dbs_query import Query, values
from wms2.local.journal import Journal, Record, Refused

REQUEST_PATH = "/reqmgr2/data/request"
COUCH_PATH = "/couchdb/reqmgr_config_cache/"
START = "new"
TRANSITIONS: dict[str, tuple[str, ...]] = {
    "new": ("new", "assignment-approved", "rejected"),
    "assignment-approved": ("assigned", "rejected"),
    "assigned": ("staging", "aborted"),
    "staging": ("staged", "aborted", "failed"),
    "staged": ("acquired", "aborted", "failed"),
    "acquired": ("running-open", "aborted", "failed"),
    "running-open": ("running-closed", "force-complete", "aborted"),
    "running-closed": ("force-complete", "completed", "aborted"),
    "force-complete": ("completed",),
    "failed": ("rejected", "assigned"),
    "completed": ("closed-out", "rejected"),
    "closed-out": ("announced", "rejected"),
    "announced": ("rejected", "normal-archived"),
    "aborted": ("aborted-completed",),
    "aborted-completed": ("aborted-archived",),
    "rejected": ("rejected-archived",),
    "normal-archived": ("rejected-archived",),
    "aborted-archived": (),
    "rejected-archived": (),
}
FILTERS = {
    "status": "RequestStatus",
    "name": "RequestName",
    "request_type": "RequestType",
    "prep_id": "PrepID",
    "campaign": "Campaign",
    "team": "Team",
    "inputdataset": "InputDataset",
    "requestor": "Requestor",
}
"""What can be asked for, and the field that it is compared with."""


class ReqMgr2Refusal(Refused):
    """A refusal in the headers of WMCore's REST server."""

    def __init__(self, status: int, number: int, message: str) -> None:
        told = {"X-REST-Status": str(number), "X-Error-HTTP": str(status), "X-Error-Detail": message}
        super().__init__(status, message, headers=told)


class ReqMgr2:
    def __init__(self, journal: Journal, clock: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._clock = clock
        self._requests: dict[str, Record] = {}
        self._documents: dict[str, Record] = {}
        self._attachments: dict[tuple[str, str], str] = {}
        journal.learn(
            request=self._take_request, config=self._take_document, attachment=self._take_attachment
        )

    def _take_request(self, name: str, changes: Record) -> None:
        self._requests.setdefault(name, {"RequestName": name}).update(changes)

    def _take_document(self, document_id: str, document: Record) -> None:
        self._documents[document_id] = document

    def _take_attachment(self, document_id: str, name: str, text: str) -> None:
        self._attachments[document_id, name] = text

    def answer(self, method: str, name: str, query: Query, body: Any) -> Record:
        """A call for the request of that name, or for all requests where there is none."""
        if method == "GET":
            return self.requests({**query, "name": name} if name else query)
        if not isinstance(body, dict):
            raise ReqMgr2Refusal(400, 1102, "Invalid spec parameter value: the body is no JSON object")
        if method == "PUT":
            return self.change(name or str(body.get("RequestName", "")), body)
        if method == "POST" and not name:
            return self.create(body)
        raise ReqMgr2Refusal(405, 206, f"Method not allowed: {method}")

    def requests(self, query: Query) -> Record:
        """Those that fit; nothing fits a name that is not known, and that is no error."""
        given = [(field, values(query, key)) for key, field in FILTERS.items() if key in query]
        if not given:
            raise ReqMgr2Refusal(400, 302, "Invalid input parameter: name what to search for")
        with self._journal.lock:
            found = {
                name: dict(request)
                for name, request in self._requests.items()
                if all(str(request.get(field)) in wanted for field, wanted in given)
            }
        if query.get("detail", "true") in ("false", "False", "0"):
            return {"result": list(found)}
        if mask := values(query, "mask"):
            found = {name: {field: one.get(field) for field in mask} for name, one in found.items()}
        return {"result": [found] if found else []}

    def create(self, arguments: Record) -> Record:
        """A new request; its name is given, or made as ReqMgr2 makes it."""
        now = int(self._clock())
        requestor, label = arguments.get("Requestor", "wms2"), arguments.get("RequestString", "request")
        stamp = time.strftime("%y%m%d_%H%M%S", time.gmtime(now))
        name = arguments.get("RequestName") or f"{requestor}_{label}_{stamp}_{now % 10_000}"
        with self._journal.lock:
            if name in self._requests:
                raise ReqMgr2Refusal(400, 1102, f"Invalid spec parameter value: {name} exists already")
            status = arguments.get("RequestStatus", START)
            history = [{"Status": status, "UpdateTime": now, "DN": requestor}]
            fields = {**arguments, "RequestStatus": status, "RequestTransition": history}
            self._journal.change("request", name, {**fields, "RequestName": name, "_id": name})
        return {"result": [{"request": name}]}

    def change(self, name: str, changes: Record) -> Record:
        """Other values of some fields; a status must follow from the one before."""
        with self._journal.lock:
            request = self._requests.get(name)
            if request is None:
                raise ReqMgr2Refusal(400, 1102, f"Invalid spec parameter value: {name} is not known")
            if "RequestStatus" in changes:
                changes = {**changes, "RequestTransition": self._history(request, changes["RequestStatus"])}
            self._journal.change("request", name, changes)
        return {"result": [{name: "OK"}]}

    def _history(self, request: Record, status: str) -> list[Record]:
        before = request.get("RequestStatus", START)
        if status not in TRANSITIONS.get(before, ()):
            name = request["RequestName"]
            message = f"Invalid status transition for request: {name}, from '{before}' to '{status}'"
            raise ReqMgr2Refusal(400, 1101, message)
        change = {"Status": status, "UpdateTime": int(self._clock()), "DN": "wms2"}
        return [*request.get("RequestTransition", ()), change]

    def couch(self, method: str, path: str, body: bytes, document: Any) -> Record | bytes:
        """CouchDB's documents and what is attached to them: `ID` and `ID/configFile`."""
        document_id, _, attachment = path.partition("/")
        if method == "PUT" and attachment:
            self._journal.change("attachment", document_id, attachment, body.decode("utf-8", "replace"))
            return {"ok": True, "id": document_id}
        if method == "PUT":
            self._journal.change("config", document_id, document)
            return {"ok": True, "id": document_id}
        with self._journal.lock:
            if attachment and (text := self._attachments.get((document_id, attachment))) is not None:
                return text.encode()
            if not attachment and document_id in self._documents:
                return {"_id": document_id, **self._documents[document_id]}
        raise Refused(404, "missing", headers={})
