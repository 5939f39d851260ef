"""What calls bring along and what all routes have in common: names, pages, reasons, the id of an action."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Body, Depends, Header, Path, Query
from pydantic import AfterValidator, Field
from starlette.requests import Request as Call

from wms2.api.callers import Caller
from wms2.api.config import Role
from wms2.api.doorman import Needs
from wms2.api.problems import MEDIA_TYPE
from wms2.core.plain import plain_line
from wms2.db.requests import Owner
from wms2.models.audit import Action as Deed
from wms2.models.base import Model
from wms2.patterns import REQUEST_NAME, SITE_NAME, WORD

MOST_IN_A_PAGE = 1000

Name = Annotated[
    str,
    Path(
        pattern=f"^{REQUEST_NAME.pattern}$", description="The request's name.", examples=["demo_simulation"]
    ),
]
SiteInPath = Annotated[
    str,
    Path(pattern=f"^{SITE_NAME.pattern}$", max_length=100, description="A site.", examples=["T2_US_Purdue"]),
]
OfRequest = Annotated[
    str | None, Query(alias="request", pattern=f"^{REQUEST_NAME.pattern}$", description="Of one request.")
]
SearchedWord = Annotated[str | None, Query(pattern=f"^{WORD.pattern}$")]
Limit = Annotated[int, Query(ge=1, le=MOST_IN_A_PAGE, description="How many at most.")]
Offset = Annotated[int, Query(ge=0, le=10**6, description="How many to skip: `next` of the page before.")]
Reason = Annotated[
    str,
    Field(max_length=1000, description="Why; kept in the record."),
    AfterValidator(lambda text: plain_line(text, 1000)),
]
ReasonInQuery = Annotated[str, Query(max_length=1000, description="Why; kept in the record.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[A-Za-z0-9_.:-]{1,100}$",
        description="A name of your own for this action: sent again with the same body, it has no second effect.",
    ),
]


class Why(Model):
    """An action that needs nothing but a reason, and can do without one."""

    reason: Reason = Field("", examples=["Schedd maintenance window"])


NO_REASON = Why()
MaybeWhy = Annotated[Why, Body()]


@dataclass(frozen=True)
class Hand:
    """Somebody who acts: who was let in, whatever the call says, and the name of this one action."""

    caller: Caller
    action_id: str

    def deed(self, action: str, reason: str, request: str | None = None, **detail: Any) -> Deed:
        """As the audit trail keeps it."""
        return Deed(
            action_id=self.action_id,
            actor=self.caller.identity,
            action=action,
            request_name=request,
            reason=plain_line(reason, 1000),
            detail=detail,
        )


class Acts(Needs):
    """As Needs, for routes that change something. Another body under the same key is another action."""

    async def __call__(self, call: Call, key: Key = None) -> Hand:  # type: ignore[override]
        caller = await super().__call__(call)
        return Hand(caller, _action_id(call, caller, key, await self._said(call)))

    async def _said(self, call: Call) -> bytes:
        return await call.body()


class Submits(Acts):
    """As Acts, but another body under the same key is a mistake, which the record of the first one finds."""

    async def _said(self, call: Call) -> bytes:  # noqa: ARG002
        return b""


SubmittingHand = Annotated[Hand, Depends(Submits(Role.REQUESTOR))]
RequestorHand = Annotated[Hand, Depends(Acts(Role.REQUESTOR))]
OperatorHand = Annotated[Hand, Depends(Acts(Role.OPERATOR))]
AdminHand = Annotated[Hand, Depends(Acts(Role.ADMIN))]


def _action_id(call: Call, caller: Caller, key: str | None, said: bytes) -> str:
    """The key names the action of this caller at this address: nobody else's key can stand in its way."""
    if key is None:
        return f"api-{uuid.uuid4().hex}"
    named = "\n".join((caller.identity, call.method, call.url.path, key, hashlib.sha256(said).hexdigest()))
    return f"api-{hashlib.sha256(named.encode()).hexdigest()[:40]}"


def owner_of(caller: Caller) -> Owner | None:
    """Whose requests the caller sees; None for everybody's."""
    return None if caller.sees_all else Owner(caller.name, caller.dn)


def next_offset(found: int, limit: int, offset: int) -> int | None:
    return offset + limit if found == limit else None


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers that say no, for the OpenAPI document."""
    schema = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _MEANINGS[status], "content": schema} for status in statuses}


_MEANINGS = {
    400: "What was sent cannot be read.",
    401: "Nobody who is known here.",
    403: "Known, but not allowed to do this.",
    404: "There is no such thing.",
    405: "The address does not know the method.",
    408: "The body took too long to come.",
    409: "It does not fit what is recorded, or where the request stands now.",
    413: "The body is too long.",
    422: "What was sent is wrong; `mistakes` lists all of it.",
    429: "Too many calls; `Retry-After` says when the next one may come.",
    503: "A server or a worker does not answer; `Retry-After` says when to ask again.",
}
ALWAYS = problems(400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 503)
