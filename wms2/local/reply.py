"""What comes with a call of the stand-in Rucio, and what goes back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wms2.local.journal import Record
from wms2.local.refusals import RucioRefusal, invalid

STREAM, JSON, HTML = "application/x-json-stream", "application/json", "text/html; charset=utf-8"
BYTES = "application/octet-stream"
CREATED = "Created"
DATE = "%a, %d %b %Y %H:%M:%S UTC"


@dataclass(frozen=True)
class Reply:
    """Rows, a line each, or a text; and headers of their own."""

    rows: Iterator[Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    text: str = ""
    form: str = HTML


@dataclass(frozen=True)
class Call:
    """What came with a call."""

    names: list[str]
    query: dict[str, str]
    body: Any
    issuer: str

    @property
    def scope(self) -> str:
        return self.names[0]

    @property
    def name(self) -> str:
        return self.names[1]

    def need(self, key: str) -> Any:
        """What the body must have."""
        if self.body is None:
            raise RucioRefusal(400, "ValueError", "cannot decode json parameter dictionary")
        if not isinstance(self.body, dict):
            raise RucioRefusal(400, "TypeError", "body must be a json dictionary")
        if key not in self.body:
            raise RucioRefusal(400, "KeyError", f"'{key}' not defined")
        return self.body[key]

    def dids(self) -> list[tuple[str, str]]:
        dids = self.need("dids")
        for did in dids:
            for key in ("scope", "name"):
                if key not in did:
                    raise invalid("r_dids", f"'{key}' is a required property", 400)
        return [(did["scope"], did["name"]) for did in dids]


Answer = Callable[[Call], Reply]
Route = tuple[str, str, str | None, Answer]
"""Method, path (a star is a name), what the answer is made of where Rucio checks that, and who answers."""


def as_json(row: Record) -> Reply:
    return Reply(text=json.dumps(row), form=JSON)


def as_date(when: float) -> str:
    return time.strftime(DATE, time.gmtime(when))


def check_accepted(accept: str | None, form: str | None) -> None:
    """Rucio says no to who does not take the form in which it would answer."""
    if accept is None or form is None:
        return
    taken = [one.partition(";")[0].strip() for one in accept.split(",")]
    if not {"*/*", form, f"{form.partition('/')[0]}/*"}.intersection(taken):
        message = f"The requested content type {accept} is not supported. Use ['{form}']."
        raise RucioRefusal(406, "UnsupportedRequestedContentType", message)
