"""Taking on requests of ReqMgr2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError

from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.adapters.reqmgr2 import ReqMgr2
from wms2.core.chains import waiting_words
from wms2.core.decisions import USUAL, Policy, with_policy
from wms2.core.reporting import IMPORTABLE
from wms2.db.chains import waiting_requests
from wms2.db.imports import find_import, record_import, record_refusal
from wms2.db.requests import request_record
from wms2.db.silences import end_silence
from wms2.errors import NotFound, Refused, Unavailable, UserError
from wms2.models.chain import LinkedRequest
from wms2.models.imports import Imported, ImportRecord, document_digest, linked_requests
from wms2.models.messages import Alert
from wms2.models.parameter_set import ParameterSet, cached_steps, ship
from wms2.models.reqmgr2 import parts_from_reqmgr2
from wms2.models.request import RequestStatus
from wms2.patterns import REQUEST_NAME
from wms2.temporal.launch import start_request

BACKEND = "wms2"
LOOKED_FOR = ("assigned", "staged")
"""Where requests wait for whoever runs them; other services stage their input in between."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Understood:
    """What a document asks for: its requests, and the parameter sets that they bring along."""

    linked: list[LinkedRequest]
    sets: list[ParameterSet]


async def understand(reqmgr2: ReqMgr2, document: Document) -> Understood:
    """What would become of a document; all that is wrong with it in one RequestFileError."""
    source = f"{document.get('RequestName')} in ReqMgr2"
    _check_standing(document, source)
    parts = parts_from_reqmgr2(document, source)
    ids = sorted({name for part in parts for _, name in cached_steps(part.draft)})
    sets = {name: await _parameter_set(reqmgr2, name) for name in ids}
    for part in parts:
        ship(part.draft, sets)
    linked = linked_requests(parts, source)
    return Understood(linked, [found for found in sets.values() if found is not None])


async def _parameter_set(reqmgr2: ReqMgr2, name: str) -> ParameterSet | None:
    try:
        config = await reqmgr2.config(name)
    except NotFound:
        return None
    return ParameterSet(config.pset, config.tweak)


def _check_standing(document: Mapping[str, Any], source: str) -> None:
    """A request that is somebody else's, or not assigned to anybody, is left alone."""
    backend, status = document.get("wms_backend"), document.get("RequestStatus")
    if backend not in (None, BACKEND):
        raise UserError(f"{source} belongs to {backend}; set its wms_backend to {BACKEND} there first")
    if status not in IMPORTABLE:
        raise UserError(f"{source} is {status}; it can be imported while it is {', '.join(IMPORTABLE)}")


class ImportActivities(DatabaseActivities):
    def __init__(
        self,
        engine: Engine,
        client: Client,
        reqmgr2: ReqMgr2,
        by_itself: bool = False,
        policy: Policy = USUAL,
    ) -> None:
        super().__init__(engine)
        self._policy = policy
        self._client = client
        self._reqmgr2 = reqmgr2
        self._by_itself = by_itself

    @activity.defn
    async def import_assigned(self) -> Imported:
        """Take on what is assigned to WMS2 and new. What cannot be taken on is reported once, until it changes."""
        taken, refused, troubles = [], [], []
        for status in LOOKED_FOR if self._by_itself else ():
            for document in await self._reqmgr2.requests(status, wms_backend=BACKEND):
                name = str(document["RequestName"])
                activity.heartbeat(name)
                try:
                    if await self._is_new(name, document):
                        await self.take_on(document)
                        taken.append(name)
                except UserError as error:
                    if await self._refuse(name, document, str(error)):
                        refused.append(name)
                except (Unavailable, Refused) as error:
                    # Not the document's fault: the others first, and this one again.
                    troubles.append(error)
        if troubles:
            raise troubles[0]
        await self.record(end_silence, "import_assigned")
        return Imported(taken=tuple(taken), refused=tuple(refused))

    async def take_on(self, document: Document) -> ImportRecord:
        """Record the requests of a document and start them. Again, it finds them, and starts what was not started."""
        name = str(document["RequestName"])
        known = await self.record(find_import, name)
        if known is None or not known.is_taken:
            found = await understand(self._reqmgr2, document)
            linked = [
                one.model_copy(update={"request": with_policy(one.request, self._policy)})
                for one in found.linked
            ]
            known = await self.record(record_import, name, document_digest(document), linked, found.sets)
        await self._start(known)
        return known

    async def _is_new(self, name: str, document: Document) -> bool:
        known = await self.record(find_import, name)
        return known is None or (not known.is_taken and known.digest != document_digest(document))

    async def _refuse(self, name: str, document: Document, problem: str) -> bool:
        about = name if REQUEST_NAME.fullmatch(name) else "reqmgr2"
        words = f"{problem}; `wms2 request imports` lists it"
        alert = Alert(request=about, kind="import", message=words)
        is_news = await self.record(record_refusal, name, document_digest(document), problem, alert)
        if is_news:
            sound(alert.kind, about, words)
        return is_news

    async def _start(self, taken: ImportRecord) -> None:
        waiting = {one.request: waiting_words(one) for one in await self.record(waiting_requests)}
        for name in taken.requests:
            record = await self.record(request_record, name)
            if record.status_sequence:
                continue
            is_new = record.status is RequestStatus.NEW
            try:
                await start_request(
                    self._client, record.request, hold=is_new, waits_for=waiting.get(name, "")
                )
            except WorkflowAlreadyStartedError:
                continue
