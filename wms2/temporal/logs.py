"""Logs as JSON, one object a line, with the request, the DAG and the activity that each line is about.

What people read at a terminal stays as it is; this is for programs that keep logs and look for names in them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from temporalio import activity, workflow
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from wms2.core.plain import whole_text
from wms2.temporal.ids import request_of

HIDDEN = "***"
LEAST_SECRET = 4
"""What is shorter would hide half of the words there are."""
_LOOKED_INTO = ("order", "dag")
"""Where orders carry the order that they follow from."""

_about: ContextVar[dict[str, str | int]] = ContextVar("wms2_about")


class LogContext(Interceptor):
    """Lets what an activity logs say which request, round and DAG it works for: as its arguments name them."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Telling(next)


class _Telling(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        # Each activity runs in a task of its own, so nobody need take it back.
        _about.set(subject_of(input.args))
        return await self.next.execute_activity(input)


def subject_of(arguments: Sequence[object]) -> dict[str, str | int]:
    """The request, the round and the DAG that an activity was called for, as far as its arguments tell."""
    known: dict[str, str | int] = {}
    for order in _orders(arguments):
        for name, fields in (
            ("request", ("request", "request_name")),
            ("round", ("round",)),
            ("dag", ("dag_id",)),
        ):
            for field in fields:
                value = getattr(order, field, None)
                if isinstance(value, (str, int)):
                    known.setdefault(name, value)
    return known


def _orders(arguments: Iterable[object]) -> Iterator[object]:
    for argument in arguments:
        yield argument
        yield from _orders(
            inner for name in _LOOKED_INTO if (inner := getattr(argument, name, None)) is not None
        )


class PlainFormatter(logging.Formatter):
    """A line for people. A secret that somebody's error quotes is hidden in it.

    Words from outside act on no terminal, and pass for no line of their own: what follows the first one is indented.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets = _hideable(secrets)

    def format(self, record: logging.LogRecord) -> str:
        shown = _without(self._secrets, super().format(record))
        return whole_text(shown).replace("\n", "\n  ")


class JsonFormatter(logging.Formatter):
    """A JSON object a line: when, how grave, who, what; and what it is about where that is known."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = _hideable(secrets)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_context(record),
        }
        if record.exc_info:
            line["stack"] = self.formatException(record.exc_info)
        shown = {
            name: _without(self._secrets, value) if isinstance(value, str) else value
            for name, value in line.items()
        }
        return json.dumps(shown)


def without_details_in_messages() -> None:
    """The SDK writes what it knows of the caller behind each message too; in JSON it has fields of its own."""
    activity.logger.activity_info_on_message = False
    workflow.logger.workflow_info_on_message = False


def _context(record: logging.LogRecord) -> dict[str, str | int]:
    told: dict[str, str | int] = {}
    if activity.in_activity():
        info = activity.info()
        told |= {"activity": info.activity_type, "attempt": info.attempt}
        told |= _workflow_context(info.workflow_id, info.workflow_run_id)
        told |= _about.get({})
    elif isinstance(details := getattr(record, "temporal_workflow", None), dict):
        told |= _workflow_context(details.get("workflow_id"), details.get("run_id"))
    return told


def _workflow_context(workflow_id: str | None, run_id: str | None) -> dict[str, str]:
    told = {"workflow": workflow_id, "run": run_id, "request": request_of(workflow_id or "")}
    return {name: value for name, value in told.items() if value}


def _hideable(secrets: Iterable[str]) -> list[str]:
    # The longest first: one may be a part of another.
    return sorted({one for one in secrets if len(one) >= LEAST_SECRET}, key=len, reverse=True)


def _without(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
