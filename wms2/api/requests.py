"""Requests: submitting, listing and looking at them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Body, Query
from fastapi.openapi.models import Example
from pydantic import Discriminator, Field, Tag
from sqlalchemy.orm import Session

from wms2.api.callers import Caller, NotAllowed
from wms2.api.doorman import Requestor
from wms2.api.service import Inside, Service
from wms2.api.words import Hand, Limit, Name, Offset, SearchedWord, SubmittingHand, next_offset, owner_of
from wms2.core.failures import unjudged
from wms2.db.audit import check_action_id, record_action
from wms2.db.ledger import balance
from wms2.db.requests import Owner, count_requests, list_requests
from wms2.db.versions import versions_of
from wms2.db.workflows import workflow_of
from wms2.models.base import Count, Flag, Model
from wms2.models.failure import ErrorReport, FailedNode
from wms2.models.imports import Taken, document_digest
from wms2.models.ledger import Balance
from wms2.models.overview import RequestOverview
from wms2.models.request import CleanupPolicy, Request, RequestRecord, RequestStatus, RequestSummary
from wms2.models.request_file import read_request
from wms2.models.story import StoryEvent
from wms2.patterns import RequestName

router = APIRouter(prefix="/requests", tags=["Requests"])

IMPORT_SEC = 60.0
"""ReqMgr2 and what its documents name are other people's servers: they may be slow, but not for ever."""


class Import(Model):
    """A request that ReqMgr2 has: operators may import it."""

    request_name: RequestName = Field(examples=["user_Run2024A_v1_250130_123456"])
    source: Literal["reqmgr2"] = "reqmgr2"


class Submission(Model):
    """A request as a file holds it, in WMS2's own fields or in ReqMgr2's; docs/request-format.md describes them."""

    source: Literal["document"]
    request: dict[str, Any] = Field(description="the request, field by field")
    hold: Flag = Field(False, description="keep it in status new until it is released")


class WorkflowInShort(Model):
    id: UUID
    status: RequestStatus


class Submitted(Model):
    request_name: str
    status: RequestStatus
    workflow: WorkflowInShort
    requests: tuple[str, ...] = Field(
        description="all requests that it became: a chain of tasks makes several"
    )
    imported: Taken | None = Field(None, description="of an import: what is recorded of it")


class RequestPage(Model):
    requests: list[RequestSummary]
    total: Count = Field(description="how many fit in all")
    next: int | None = Field(description="the offset of the next page; null for the last one")


class LedgerCheck(Model):
    """What became of every event and file that was planned."""

    request_name: str
    ledger: Balance
    discrepancies: tuple[str, ...] | None = Field(
        description="what does not add up; null while a round is open, which has loose ends as it should"
    )


class Pending(Model):
    request_name: str
    pending: list[FailedNode]


class CurrentVersion(Model):
    request_name: str
    processing_version: Count
    status: RequestStatus
    cleanup_policy: CleanupPolicy


class EarlierVersion(Model):
    request_name: str
    processing_version: Count
    status: RequestStatus
    superseded_by: str | None
    failure_reason: str


class Versions(Model):
    current: CurrentVersion
    versions: list[EarlierVersion]


def _source(order: Any) -> str:
    """ReqMgr2, where a call does not say where a request comes from."""
    said = order.get("source", "reqmgr2") if isinstance(order, dict) else getattr(order, "source", "")
    return said if isinstance(said, str) else ""


ImportOrSubmission = Annotated[
    Annotated[Import, Tag("reqmgr2")] | Annotated[Submission, Tag("document")], Discriminator(_source)
]
EXAMPLES: dict[str, Example] = {
    "import": {
        "summary": "from ReqMgr2",
        "value": {"request_name": "user_Run2024A_v1_250130_123456", "source": "reqmgr2"},
    },
    "document": {
        "summary": "a request file",
        "value": {"source": "document", "request": {"request_name": "demo_simulation"}, "hold": True},
    },
}


@router.post("", status_code=201, summary="Submit a request, or import one from ReqMgr2")
async def submit(
    hand: SubmittingHand,
    inside: Inside,
    order: Annotated[ImportOrSubmission, Body(openapi_examples=EXAMPLES)],
) -> Submitted:
    """It is recorded first, and then lives on its own.

    Requestors submit what names them as requestor, with a priority up to the service's highest for them; operators
    submit for anybody, and import. Submitting the same again is refused, unless an interruption left it recorded but
    not started.
    """
    taken: Taken | None = None
    if isinstance(order, Import):
        taken = await _import(inside, hand, order.request_name)
        names = taken.record.requests
        imported = hand.deed("import", "", names[0], reqmgr2=order.request_name)
        await inside.read(record_action, imported)
    else:
        request = await inside.of_documents(_document, order, hand.caller, inside.config.highest_priority)
        digest = await inside.of_documents(document_digest, order.request)
        by = hand.deed("submit", "", request.request_name, document=digest, hold=order.hold)
        await inside.submit(request, hold=order.hold, by=by)
        names = (request.request_name,)
    workflow = await inside.read(workflow_of, names[0])
    record = await inside.record(names[0])
    return Submitted(
        request_name=names[0],
        status=record.status,
        workflow=WorkflowInShort(id=workflow.id, status=workflow.status),
        requests=names,
        imported=taken,
    )


@router.get("", summary="List requests, highest priority first, then oldest")
async def list_all(
    caller: Requestor,
    inside: Inside,
    status: Annotated[list[RequestStatus] | None, Query(description="Only these.")] = None,
    campaign: Annotated[SearchedWord, Query(description="Only of this campaign.")] = None,
    requestor: Annotated[SearchedWord, Query(description="Only of this requestor.")] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> RequestPage:
    """Operators see all requests, requestors their own."""
    if requestor is not None and not caller.sees_all and requestor != caller.name:
        return RequestPage(requests=[], total=0, next=None)
    owner = owner_of(caller) if requestor is None else Owner(requestor)
    found, total = await inside.read(_page, status or (), campaign, limit, offset, owner)
    return RequestPage(requests=found, total=total, next=next_offset(len(found), limit, offset))


@router.get("/{name}", summary="Look at a request: record, rounds, DAGs, outputs, ledger")
async def show(name: Name, caller: Requestor, inside: Inside) -> RequestOverview:
    await inside.check_sees(caller, name)
    return await inside.overview(name)


@router.get("/{name}/ledger", summary="What became of every event and file, and whether it adds up")
async def ledger(name: Name, caller: Requestor, inside: Inside) -> LedgerCheck:
    await inside.check_sees(caller, name)
    found = await inside.discrepancies(name)
    return LedgerCheck(
        request_name=name,
        ledger=await inside.read(balance, name),
        discrepancies=None if found is None else tuple(found),
    )


@router.get(
    "/{name}/errors", summary="What failed: by cause, site and exit code, with bad files and ends of logs"
)
async def errors(
    name: Name,
    caller: Requestor,
    inside: Inside,
    round_number: Annotated[
        int | None, Query(alias="round", ge=0, le=10**6, description="Only of this round.")
    ] = None,
) -> ErrorReport:
    await inside.check_sees(caller, name)
    return await inside.errors(name, round_number)


@router.get("/{name}/why", summary="All that happened to a request, and what was decided, with the reasons")
async def why(name: Name, caller: Requestor, inside: Inside) -> list[StoryEvent]:
    await inside.check_sees(caller, name)
    return await inside.story(name)


@router.get("/{name}/pending", summary="Failures that no rule knows, for a person to judge")
async def pending(name: Name, caller: Requestor, inside: Inside) -> Pending:
    await inside.check_sees(caller, name)
    return Pending(request_name=name, pending=list(unjudged((await inside.errors(name)).dags)))


@router.get("/{name}/versions", summary="The versions of a request that restarts made")
async def versions(name: Name, caller: Requestor, inside: Inside) -> Versions:
    """The newest version, and those before it, the first one first."""
    await inside.check_sees(caller, name)
    *earlier, current = await inside.read(versions_of, name)
    return Versions(
        current=CurrentVersion(
            request_name=current.request.request_name,
            processing_version=current.request.processing_version,
            status=current.status,
            cleanup_policy=current.request.cleanup_policy,
        ),
        versions=[_earlier(record) for record in earlier],
    )


def _page(
    session: Session,
    statuses: Sequence[RequestStatus],
    campaign: str | None,
    limit: int,
    offset: int,
    owner: Owner | None,
) -> tuple[list[RequestSummary], int]:
    found = list_requests(session, statuses, campaign, limit, offset, owner)
    return found, count_requests(session, statuses, campaign, owner)


def _earlier(record: RequestRecord) -> EarlierVersion:
    return EarlierVersion(
        request_name=record.request.request_name,
        processing_version=record.request.processing_version,
        status=record.status,
        superseded_by=record.superseded_by_request,
        failure_reason=record.status_reason,
    )


def _document(order: Submission, caller: Caller, highest_priority: int) -> Request:
    request = read_request(json.dumps(order.request), asked_by=caller.name)
    if not caller.sees_all:
        _check_own(request, caller)
        _check_priority(request, highest_priority)
    return request


def _check_own(request: Request, caller: Caller) -> None:
    """A requestor speaks for nobody else, and takes nobody's outputs away, as a new version does with the old one's."""
    if caller.name is None:
        raise NotAllowed(f"no user name is known for {caller.identity}; ask for a grant with one")
    if request.requestor != caller.name or request.requestor_dn not in (None, caller.dn):
        raise NotAllowed(
            f"the requestor is {request.requestor}, and {caller.identity} may submit in their own name only"
        )
    if request.previous_version_request is not None:
        raise NotAllowed(
            "a request that replaces another is made by operators; leave previous_version_request out"
        )


def _check_priority(request: Request, highest: int) -> None:
    """Nobody puts themselves before the others."""
    asked = max([request.priority, *(step.priority for step in request.production_steps)])
    if asked > highest:
        raise NotAllowed(
            f"the priority {asked} is above {highest}, the highest for requestors; lower it, and ask an operator "
            "for another once the request is submitted"
        )


async def _import(inside: Service, hand: Hand, name: str) -> Taken:
    if not hand.caller.sees_all:
        raise NotAllowed("requests of ReqMgr2 are imported by operators; submit a document instead")
    await inside.read(check_action_id, hand.action_id, "import", {"reqmgr2": name})
    async with asyncio.timeout(IMPORT_SEC):
        return await inside.take_on(name)
