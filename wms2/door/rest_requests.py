"""Requests, through the REST service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from wms2.adapters.service import Answer
from wms2.core.lifecycle import objection
from wms2.door.rest_calls import Page, RestCalls, checked, read
from wms2.errors import Contradiction, Missing, UserError
from wms2.models.actions import Action
from wms2.models.chain import LinkedRequest
from wms2.models.failure import ErrorReport
from wms2.models.imports import ImportRecord, Taken
from wms2.models.messages import (
    DropAction,
    JudgeAction,
    OperatorAction,
    PriorityAction,
    ReleaseAction,
    RestartAction,
    SizeAction,
)
from wms2.models.overview import RequestOverview
from wms2.models.request import Request, RequestRecord, RequestStatus, RequestSummary
from wms2.models.story import StoryEvent
from wms2.patterns import REQUEST_NAME, WORD

ROUTES = frozenset(Action) - {Action.HOST_LOST}


class RequestPage(Page):
    requests: list[RequestSummary]


class ImportPage(Page):
    imports: list[ImportRecord]


class Discrepancies(BaseModel):
    discrepancies: list[str] | None


class Told(BaseModel):
    message: str


class Submitted(BaseModel):
    imported: Taken


class RestRequests(RestCalls):
    async def submit(self, request: Request, *, hold: bool = False) -> None:
        document = request.model_dump(mode="json", exclude_defaults=True)
        await self.call("POST", "requests", json={"source": "document", "request": document, "hold": hold})

    async def list_requests(
        self, statuses: Sequence[RequestStatus] = (), campaign: str | None = None
    ) -> list[RequestSummary]:
        if campaign is not None and not WORD.fullmatch(campaign):
            return []
        pages = self.pages(RequestPage, "requests", status=statuses, campaign=campaign)
        return [one async for page in pages for one in page.requests]

    async def record(self, name: str) -> RequestRecord:
        return (await self.overview(name)).record

    async def overview(self, name: str) -> RequestOverview:
        return read(RequestOverview, await self._of(name))

    async def discrepancies(self, name: str) -> Sequence[str] | None:
        return read(Discrepancies, await self._of(name, "/ledger")).discrepancies

    async def story(self, name: str) -> list[StoryEvent]:
        return read(list[StoryEvent], await self._of(name, "/why"))

    async def errors(self, name: str, round_number: int | None = None) -> ErrorReport:
        asked = {} if round_number is None else {"round": round_number}
        return read(ErrorReport, await self._of(name, "/errors", params=asked))

    async def check(self, record: RequestRecord, order: OperatorAction) -> None:
        """As far as it shows from here; the service looks at all of it."""
        if why := objection(order.action, record.status):
            raise Contradiction(f"{record.request.request_name}: {why}")

    async def ask(self, record: RequestRecord, order: OperatorAction, *, wait: bool = True) -> str:  # noqa: ARG002
        if order.action not in ROUTES:
            raise UserError(f"{order.action} does not go through the REST service; unset WMS2_API_URL for it")
        path = f"requests/{checked(record.request.request_name)}/{order.action}"
        return read(Told, await self.act("POST", path, order.action_id, json=_body(order))).message

    async def take_on(self, name: str) -> Taken:
        order = {"source": "reqmgr2", "request_name": _in_reqmgr2(name)}
        return read(Submitted, await self.call("POST", "requests", json=order)).imported

    async def preview_import(self, name: str) -> list[LinkedRequest]:
        return await self.look(list[LinkedRequest], f"imports/{_in_reqmgr2(name)}/preview")

    async def list_imports(self) -> list[ImportRecord]:
        return [one async for page in self.pages(ImportPage, "imports") for one in page.imports]

    async def _of(self, name: str, part: str = "", **parts: Any) -> Answer:
        return await self.call("GET", f"requests/{checked(name)}{part}", **parts)


def _in_reqmgr2(name: str) -> str:
    """As `checked` does with names of our own."""
    if not REQUEST_NAME.fullmatch(name):
        raise Missing(f"ReqMgr2 has no request named {name}; check the name")
    return name


def _body(order: OperatorAction) -> dict[str, Any]:
    body: dict[str, Any] = {"reason": order.reason}
    match order:
        case ReleaseAction():
            body |= {"rescue": order.rescue, "changes": order.changes.given}
        case DropAction() | RestartAction():
            body |= order.given
        case JudgeAction():
            body |= {"rule": order.rule.model_dump(mode="json", exclude_defaults=True)}
        case PriorityAction():
            body |= {"priority": order.priority}
        case SizeAction():
            body |= {"change": order.change.given, "clear": order.clear}
    return body
