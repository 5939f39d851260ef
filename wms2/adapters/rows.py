"""Rows of an answer as they arrive: a JSON object a line, or one JSON list, as the server likes."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterator
from typing import Any, Generic, Protocol, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

Row = TypeVar("Row")

NEWLINE = b"\n"
_BETWEEN_ROWS = re.compile(r"[\s,]*")


class WholeAnswer(Protocol):
    """An answer that was read to its end."""

    @property
    def headers(self) -> httpx.Headers: ...

    @property
    def content(self) -> bytes: ...


class BrokenAnswer(Exception):
    """An answer that is not whole, or not made of the rows that were expected."""


async def streamed_rows(answer: httpx.Response, kind: TypeAdapter[list[Row]]) -> AsyncIterator[list[Row]]:
    """The rows of an answer, some at a time; at no time are all of them in memory.

    An answer that was cut off is a BrokenAnswer, or an error of httpx, and never just short.
    """
    reader = RowReader(kind)
    _check_that_a_cut_shows(answer.headers)
    async for piece in answer.aiter_bytes():
        yield reader.feed(piece)
    reader.close()


def whole_rows(answer: WholeAnswer, kind: TypeAdapter[list[Row]]) -> list[Row]:
    """All rows of a short answer that was read to its end."""
    reader = RowReader(kind)
    _check_that_a_cut_shows(answer.headers)
    rows = reader.feed(answer.content)
    reader.close()
    return rows


def _check_that_a_cut_shows(headers: httpx.Headers) -> None:
    if not headers.keys() & {"content-length", "transfer-encoding"}:
        raise BrokenAnswer("an answer whose end cannot be told from a cut")


class RowReader(Generic[Row]):
    """Cuts what arrives in pieces into rows, and checks each."""

    def __init__(self, kind: TypeAdapter[list[Row]]) -> None:
        self._kind = kind
        self._form: _Lines | _List | None = None

    def feed(self, piece: bytes) -> list[Row]:
        """The rows that end in this piece."""
        if self._form is None:
            piece = piece.lstrip()
            if not piece:
                return []
            self._form = _form(piece)
        try:
            return self._form.rows(piece, self._kind)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"][1:])
            raise BrokenAnswer(f"a row that it should not have ({where or 'row'}: {first['msg']})") from None
        except UnicodeDecodeError:
            raise BrokenAnswer("something that is no JSON") from None

    def close(self) -> None:
        """To be called after the last piece. An empty answer has no rows."""
        if self._form is not None and not self._form.is_whole:
            raise BrokenAnswer("rows that end in the middle")


def _form(piece: bytes) -> _Lines | _List:
    if piece.startswith(b"{"):
        return _Lines()
    if piece.startswith(b"["):
        return _List()
    raise BrokenAnswer("something that is no JSON")


class _Lines:
    """A row a line. Many lines are checked in one go, which is several times faster than one by one."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_whole(self) -> bool:
        return not self._rest.strip()

    def rows(self, piece: bytes, kind: TypeAdapter[list[Row]]) -> list[Row]:
        whole, newline, rest = piece.rpartition(NEWLINE)
        if not newline:
            self._rest += piece
            return []
        lines = (self._rest + whole).strip()
        self._rest = rest
        return kind.validate_json(b"[%s]" % lines.replace(NEWLINE, b","))


class _List:
    """One JSON list, read object by object. Nothing may follow its end: DBS reports there what went wrong late."""

    def __init__(self) -> None:
        self._decoded = codecs.getincrementaldecoder("utf-8")()
        self._parser = json.JSONDecoder()
        self._rest = ""
        self._is_open = False
        self.is_whole = False

    def rows(self, piece: bytes, kind: TypeAdapter[list[Row]]) -> list[Row]:
        self._rest += self._decoded.decode(piece)
        found: list[Any] = []
        at = 0
        if not self._is_open:
            self._is_open, at = True, 1
        while (at := self._next_row(at)) < len(self._rest):
            try:
                row, at = self._parser.raw_decode(self._rest, at)
            except ValueError:
                break
            found.append(row)
        self._rest = self._rest[at:]
        return kind.validate_python(found)

    def _next_row(self, at: int) -> int:
        """Where the next row begins; the end of what is there when no row does."""
        between = _BETWEEN_ROWS.match(self._rest, at)
        at = between.end() if between else at
        if self._rest.startswith("]", at) and not self.is_whole:
            self.is_whole = True
            return self._next_row(at + 1)
        if self.is_whole and at < len(self._rest):
            raise BrokenAnswer("an error after its rows")
        return at
