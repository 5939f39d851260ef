"""The door that leads through the REST service: for whoever may call it and cannot reach the servers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from wms2.adapters.connect import our_credentials
from wms2.adapters.service import Answer, Service, retry_after
from wms2.config import Settings
from wms2.core.lifecycle import objection
from wms2.core.plain import plain_text
from wms2.errors import Contradiction, Missing, Unavailable, UserError
from wms2.models.actions import Action
from wms2.models.dag import DAG
from wms2.models.failure import ErrorReport
from wms2.models.messages import (
    DropAction,
    JudgeAction,
    OperatorAction,
    PriorityAction,
    ReleaseAction,
    RestartAction,
    SizeAction,
)
from wms2.models.nodes import NodeRow
from wms2.models.output import OutputStanding, OutputStatus
from wms2.models.output_list import ListedOutput
from wms2.models.overview import RequestOverview
from wms2.models.request import Request, RequestRecord, RequestStatus, RequestSummary
from wms2.models.site import Site, SiteBan
from wms2.models.story import StoryEvent
from wms2.patterns import DAG_ID, REQUEST_NAME

PAGE = 1000
ROUTES = frozenset(Action) - {Action.HOST_LOST}

M = TypeVar("M", bound=BaseModel)


class Page(BaseModel):
    """A part of a listing; what it lists is named as the listing itself is."""

    next: int | None
    requests: list[RequestSummary] = []
    dags: list[DAG] = []
    nodes: list[NodeRow] = []
    outputs: list[ListedOutput] = []


class SiteSeen(Site):
    """What the service adds to a site, it says as of its own clock; that is left out."""

    model_config = ConfigDict(extra="ignore")


class Discrepancies(BaseModel):
    discrepancies: list[str] | None


class Story(RootModel[list[StoryEvent]]):
    pass


class Sites(RootModel[list[SiteSeen]]):
    pass


class Bans(RootModel[list[SiteBan]]):
    pass


class Told(BaseModel):
    message: str


class RestService(Service):
    """The service's no is a sentence for people, and is told as it is."""

    name: ClassVar[str] = "The REST service"

    def _error(self, answer: Answer) -> Exception:
        said = _detail(answer)
        if not said:
            return super()._error(answer)
        kinds: dict[int, type[UserError]] = {404: Missing, 409: Contradiction}
        if answer.status in (429, 503):
            return Unavailable(said, retry_after(answer))
        if answer.status in (401, 403):
            return UserError(f"{said} ({self._setting()} says who you are)")
        return kinds.get(answer.status, UserError)(said)


class RestDoor:
    """Who asks is whom the certificate or the token names, whatever an order says of its actor."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def submit(self, request: Request, *, hold: bool = False) -> None:
        document = request.model_dump(mode="json", exclude_defaults=True)
        await self._call("POST", "requests", json={"source": "document", "request": document, "hold": hold})

    async def list_requests(
        self, statuses: Sequence[RequestStatus] = (), campaign: str | None = None
    ) -> list[RequestSummary]:
        pages = self._pages("requests", status=statuses, campaign=campaign)
        return [one async for page in pages for one in page.requests]

    async def list_dags(self, request: str | None = None) -> list[DAG]:
        return [one async for page in self._pages("dags", request=request) for one in page.dags]

    async def nodes(self, dag: str, *, failed: bool = False) -> list[NodeRow]:
        pages = self._pages(f"dags/{_checked_dag(dag)}/nodes", failed=str(failed).lower())
        return [one async for page in pages for one in page.nodes]

    async def list_outputs(
        self,
        request: str | None = None,
        statuses: Sequence[OutputStatus] = (),
        standings: Sequence[OutputStanding] = (),
    ) -> list[ListedOutput]:
        pages = self._pages("outputs", request=request, status=statuses, standing=standings)
        return [one async for page in pages for one in page.outputs]

    async def list_sites(self) -> list[Site]:
        return list(_read(Sites, await self._call("GET", "sites")).root)

    async def list_bans(self, *, ended: bool = False) -> list[SiteBan]:
        return _read(Bans, await self._call("GET", "bans", params={"ended": ended})).root

    async def record(self, name: str) -> RequestRecord:
        return (await self.overview(name)).record

    async def overview(self, name: str) -> RequestOverview:
        return _read(RequestOverview, await self._of(name))

    async def discrepancies(self, name: str) -> Sequence[str] | None:
        return _read(Discrepancies, await self._of(name, "/ledger")).discrepancies

    async def story(self, name: str) -> list[StoryEvent]:
        return _read(Story, await self._of(name, "/why")).root

    async def errors(self, name: str, round_number: int | None = None) -> ErrorReport:
        asked = {} if round_number is None else {"round": round_number}
        return _read(ErrorReport, await self._of(name, "/errors", params=asked))

    async def check(self, record: RequestRecord, order: OperatorAction) -> None:
        """As far as it shows from here; the service looks at all of it."""
        if why := objection(order.action, record.status):
            raise Contradiction(f"{record.request.request_name}: {why}")

    async def ask(self, record: RequestRecord, order: OperatorAction, *, wait: bool = True) -> str:  # noqa: ARG002
        if order.action not in ROUTES:
            raise UserError(f"{order.action} does not go through the REST service; unset WMS2_API_URL for it")
        key = re.sub(r"[^A-Za-z0-9_.:-]", "_", order.action_id)[-100:]
        path = f"requests/{_checked(record.request.request_name)}/{order.action}"
        answer = await self._call("POST", path, json=_body(order), headers={"Idempotency-Key": key})
        return _read(Told, answer).message

    async def _pages(self, listing: str, **asked: str | Sequence[str] | None) -> AsyncIterator[Page]:
        wanted = {name: value for name, value in asked.items() if value is not None}
        offset: int | None = 0
        while offset is not None:
            params = {**wanted, "limit": PAGE, "offset": offset}
            page = _read(Page, await self._call("GET", listing, params=params))
            yield page
            offset = page.next

    async def _of(self, name: str, part: str = "", **parts: Any) -> Answer:
        return await self._call("GET", f"requests/{_checked(name)}{part}", **parts)

    async def _call(self, method: str, path: str, **parts: Any) -> Answer:
        url = self._settings.api_url or ""
        async with RestService(f"{url.rstrip('/')}/api/v1", our_credentials(self._settings)) as service:
            return await service.call(method, path, **parts)


def _read(kind: type[M], answer: Answer) -> M:
    try:
        return kind.model_validate_json(answer.content)
    except ValidationError:
        raise UserError(
            "the REST service answers otherwise than this WMS2 expects; is it another version?"
        ) from None


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


def _checked(name: str) -> str:
    """A name that can stand in an address."""
    if not REQUEST_NAME.fullmatch(name):
        raise Missing(f"there is no request named {name}; `wms2 request list` shows all")
    return name


def _checked_dag(dag: str) -> str:
    """As `_checked` does with the names of requests."""
    if not DAG_ID.fullmatch(dag):
        raise Missing(f"there is no DAG with the id {dag}; `wms2 dag list` shows all")
    return dag


def _detail(answer: Answer) -> str:
    try:
        said = json.loads(answer.content).get("detail")
    except (ValueError, AttributeError):
        return ""
    return plain_text(said)
