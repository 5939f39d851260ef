"""What went wrong, for programs and people: one sentence, as RFC 9457 has it, and never a stack trace."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError, ResponseValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.requests import Request as Call
from temporalio.service import RPCError

from wms2.api.callers import NotAllowed, NotKnown
from wms2.api.limits import TooMany
from wms2.core.plain import plain_line
from wms2.door.asking import refusal
from wms2.errors import Contradiction, Missing, NotFound, Refused, Silent, Unavailable, UserError
from wms2.models.mistakes import RequestFileError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
ASK_AGAIN_SEC = 5
MOST_MISTAKES = 100
DETAIL_LENGTH = 4000
DATABASE_SILENT = "the database does not answer; ask again in a moment"
_KINDS: Sequence[tuple[type[UserError], int]] = ((Missing, 404), (Contradiction, 409), (Silent, 503))


class FieldMistake(BaseModel):
    field: str = Field(description="where in what was sent")
    problem: str = Field(description="what is wrong there")


class Problem(BaseModel):
    """An answer that says no, and why."""

    type: str = "about:blank"
    title: str = Field(description="the HTTP status in words", examples=["Conflict"])
    status: int = Field(description="the HTTP status", examples=[409])
    detail: str = Field(
        description="what is wrong and what to do, in one sentence",
        examples=["demo_simulation: the request is active; release needs one that is held, new"],
    )
    mistakes: list[FieldMistake] = Field([], description="every mistake in what was sent")


def problem(
    status: int,
    detail: str,
    mistakes: Sequence[FieldMistake] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    told = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail[:DETAIL_LENGTH],
        mistakes=list(mistakes[:MOST_MISTAKES]),
    )
    return JSONResponse(told.model_dump(), status, dict(headers or {}), MEDIA_TYPE)


def silent(detail: str, retry_after: float | None = None) -> JSONResponse:
    wait = max(1, round(retry_after or ASK_AGAIN_SEC))
    return problem(503, detail, headers={"Retry-After": str(wait)})


def register(app: FastAPI) -> None:
    """Give every kind of error its answer."""
    for kind, answer in _ANSWERS.items():
        app.add_exception_handler(kind, answer)


def answer_to(call: Call, error: Exception) -> JSONResponse:
    """For what goes wrong before a route is found."""
    kind = next(kind for kind in type(error).__mro__ if kind in _ANSWERS)
    answer: JSONResponse = _ANSWERS[kind](call, error)
    return answer


def _user_error(_: Call, error: Exception) -> JSONResponse:
    status = next((status for kind, status in _KINDS if isinstance(error, kind)), 422)
    if status == 503:
        return silent(str(error))
    mistakes: list[FieldMistake] = []
    if isinstance(error, RequestFileError):
        mistakes = [FieldMistake(field=one.field, problem=one.problem) for one in error.mistakes]
    return problem(status, str(error), mistakes)


def _unreadable(_: Call, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    mistakes = [
        FieldMistake(
            field=plain_line(".".join(str(part) for part in one["loc"]), 200),
            problem=plain_line(str(one["msg"]).removeprefix("Value error, "), 500),
        )
        for one in found[:MOST_MISTAKES]
    ]
    first = mistakes[0] if mistakes else FieldMistake(field="body", problem="it cannot be read")
    more = f"; {len(found) - 1} more below mistakes" if len(found) > 1 else ""
    return problem(422, f"{first.field}: {first.problem}{more}", mistakes)


def _http(_: Call, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    words = {
        404: "there is nothing at this address; /api/v1/openapi.json lists what there is",
        405: "this address does not know that method; /api/v1/openapi.json lists those that it knows",
    }
    return problem(error.status_code, words.get(error.status_code, str(error.detail)), headers=error.headers)


def _not_known(_: Call, error: Exception) -> JSONResponse:
    return problem(401, str(error), headers={"WWW-Authenticate": 'Bearer realm="wms2"'})


def _not_allowed(_: Call, error: Exception) -> JSONResponse:
    return problem(403, str(error))


def _too_many(_: Call, error: Exception) -> JSONResponse:
    assert isinstance(error, TooMany)
    wait = {"Retry-After": str(error.retry_after)}
    return problem(429, f"too many calls; wait {error.retry_after} s", headers=wait)


def _unavailable(_: Call, error: Exception) -> JSONResponse:
    return silent(str(error), getattr(error, "retry_after", None))


def _refused(_: Call, error: Exception) -> JSONResponse:
    return problem(404 if isinstance(error, NotFound) else 409, str(error))


def _database(_: Call, error: Exception) -> JSONResponse:
    log.warning("The database does not answer: %s", plain_line(str(error), 300))
    return silent(DATABASE_SILENT)


def _too_late(_: Call, error: Exception) -> JSONResponse:  # noqa: ARG001
    return silent("a server takes too long to answer; ask again in a moment")


def _temporal(_: Call, error: Exception) -> JSONResponse:
    assert isinstance(error, RPCError)
    told = refusal(error, "what it was asked")
    return silent(str(told)) if isinstance(told, Silent) else problem(409, str(told))


def _unexpected(call: Call, error: Exception) -> JSONResponse:
    log.error("%s %s went wrong", call.method, plain_line(call.url.path, 300), exc_info=error)
    return problem(500, "something went wrong here that should not; the log of the service tells what")


_ANSWERS: dict[type[Exception], Any] = {
    UserError: _user_error,
    RequestValidationError: _unreadable,
    HTTPException: _http,
    NotKnown: _not_known,
    NotAllowed: _not_allowed,
    TooMany: _too_many,
    Unavailable: _unavailable,
    Refused: _refused,
    OperationalError: _database,
    InterfaceError: _database,
    NoConnection: _database,
    TimeoutError: _too_late,
    RPCError: _temporal,
    DBAPIError: _unexpected,
    ResponseValidationError: _unexpected,
    Exception: _unexpected,
}
