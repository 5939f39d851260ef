"""Reading a FrameworkJobReport.xml that may be huge, torn or malformed.

Expat reads it in parts and nothing is kept but what matters, so the size of a report does not matter. Whatever had
come to its end before a report breaks off is kept, and of an error also its beginning. A report that is malformed
somewhere, as by an & in an address that CMSSW writes as it is, is read on from the next thing that is known.
"""

from __future__ import annotations

import codecs
import os
import re
from dataclasses import dataclass, field
from typing import BinaryIO, Iterator, Mapping
from xml.parsers import expat

PART_BYTES = 1 << 20
LARGEST_BYTES, LARGEST_TORN_BYTES = 1 << 28, 20 << 20
LONGEST_TOKEN = 8 << 20
LONGEST_TEXT = 10_000
MOST_ENTRIES = 200_000
MOST_BREAKS = 20
ROOT = "FrameworkJobReport"
_FIELDS = frozenset({"LFN", "PFN", "ModuleLabel", "EventsRead", "InputType", "TotalEvents", "Size"})
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")
_QUOTED = re.compile(r"(<!\[CDATA\[.*?(?:\]\]>|\Z))", re.S)
_BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});)")
_KNOWN = re.compile(
    rb"<(?:InputFile|File|FrameworkError|SkippedFile|FallbackAttempt|ShutdownSignal)\b|</FrameworkJobReport>"
)


class _Refused(Exception):
    """A document that brings entities of its own, or more of anything than a report can have."""


def _as_windows_1252(error: UnicodeError) -> tuple[str, int]:
    """What is no UTF-8 was most likely written on some desktop, or is torn; either way it is some character."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error("wms2-windows-1252", _as_windows_1252)


@dataclass
class Entry:
    """An InputFile or a File: its own texts by tag, and (run, lumi, events) as they stand there."""

    tag: str
    texts: dict[str, str] = field(default_factory=dict)
    lumis: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass
class Scan:
    """What was found. `whole` says that nothing is missing; `errors` are (ExitStatus, text) in their order."""

    whole: bool = False
    errors: list[tuple[str, str]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)
    told_to_stop: bool = False
    failed: bool = False
    """The report says of itself that it is one of a failure."""


def scan(stream: BinaryIO) -> Scan:
    """Read a report. Never raises over what is in it."""
    reader = _Reader()
    if reader.reads(clean_parts(stream, LARGEST_BYTES)):
        reader.found.whole = reader.closed
        return reader.found
    size = stream.seek(0, os.SEEK_END)
    found = _piecewise(_ends(stream, size))
    found.whole = found.whole and size <= LARGEST_TORN_BYTES and not reader.refused
    return found


def _ends(stream: BinaryIO, size: int) -> str:
    """All of it; of what is too large the beginning and the end, where errors stand, with a break between them."""
    stream.seek(0)
    if size <= LARGEST_TORN_BYTES:
        return "".join(clean_parts(stream, LARGEST_TORN_BYTES))
    beginning = "".join(clean_parts(stream, LARGEST_TORN_BYTES // 2))
    stream.seek(size - LARGEST_TORN_BYTES // 2)
    return beginning + "\n<\n" + "".join(clean_parts(stream, LARGEST_TORN_BYTES // 2))


def clean(text: str) -> str:
    """Without characters that have no place in XML."""
    return _NOT_XML.sub("?", text)


def clean_parts(stream: BinaryIO, most: int) -> Iterator[str]:
    """The text, part by part, whatever it was written in."""
    decoder = codecs.getincrementaldecoder("utf-8")("wms2-windows-1252")
    begun = False
    for _ in range(0, most + 1, PART_BYTES):
        data = stream.read(PART_BYTES)
        text = decoder.decode(data, final=not data)
        if not begun:
            text = text.lstrip("\ufeff \t\r\n")
        begun = begun or bool(text)
        yield clean(text)
        if not data:
            return


def _piecewise(text: str) -> Scan:
    """What breaks off, or is malformed: go on behind each break with the next thing that is known."""
    mended = [
        part if number % 2 else _BARE.sub("&amp;", part) for number, part in enumerate(_QUOTED.split(text))
    ]
    data = _DECLARATION.sub("", "".join(mended), count=1).encode("utf-8")
    reader, place = _Reader(), 0
    for _ in range(MOST_BREAKS):
        broken = place + reader.reads_piece(data[place:])
        following = _KNOWN.search(data, broken if broken > place else place + 1)
        if following is None:
            break
        place = following.start()
    else:
        reader.cut = True
    found = reader.found
    if not found.errors and b"FrameworkError" in data:
        # The remains of an error are one.
        found.errors.append(("", ""))
    found.whole = reader.closed and not reader.cut
    return found


class _Reader:
    """Expat's handlers. `closed` says whether the report has ended, `cut` whether a file's entry did not."""

    def __init__(self) -> None:
        self.found = Scan()
        self.closed = False
        self.cut = False
        self.refused = False
        self._things = 0
        self._begin()

    def _begin(self) -> None:
        self._depth = 0
        self._entry: Entry | None = None
        self._entry_depth = 0
        self._run = ""
        self._error: str | None = None
        self._field = ""
        self._text: list[str] = []
        self._text_room = 0
        self._type = ""

    def reads(self, parts: Iterator[str]) -> bool:
        """Whether it is well-formed XML to its end."""
        parser, fed = self._parser(), 0
        try:
            for part in parts:
                parser.Parse(part, False)
                fed += len(part)
                if fed - parser.CurrentByteIndex > LONGEST_TOKEN:
                    return False
            parser.Parse("", True)
        except expat.ExpatError:
            return False
        except _Refused:
            self.refused = True
            return False
        return True

    def reads_piece(self, data: bytes) -> int:
        """Read until it breaks, and say where."""
        start = f"<{ROOT}>".encode()
        was_closed = self.closed
        parser = self._parser()
        try:
            parser.Parse(start + data, True)
        except expat.ExpatError:
            place = max(0, parser.ErrorByteIndex - len(start))
        except _Refused:
            place, self.cut = len(data), True
        else:
            place = len(data)
        self._break_off()
        # The start that was put in front is no new report.
        self.closed = self.closed or was_closed
        return place

    def _parser(self) -> expat.XMLParserType:
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._read_text
        parser.StartDoctypeDeclHandler = self._refuse
        self._begin()
        return parser

    def _refuse(self, *_: object) -> None:
        raise _Refused

    def _break_off(self) -> None:
        if self._error is not None:
            self._end_error()
        self.cut = self.cut or self._entry is not None

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._entry is not None:
            self._start_inside(self._entry, name, attributes)
        elif name in ("InputFile", "File"):
            self._entry, self._entry_depth, self._run = Entry(name), self._depth, ""
        elif name in ("SkippedFile", "FallbackAttempt"):
            names = self.found.skipped if name == "SkippedFile" else self.found.fallbacks
            self._count()
            names += [attributes[key] for key in ("Lfn", "Pfn") if attributes.get(key)]
        elif name == "ShutdownSignal":
            self.found.told_to_stop = True
        elif name == ROOT:
            self.closed = False
            self.found.failed = self.found.failed or attributes.get("Status", "").lower() == "failed"
        if name == "FrameworkError" and self._error is None:
            self._count()
            self._error = attributes.get("ExitStatus", "")
            self._collect(attributes.get("Type", ""))

    def _start_inside(self, entry: Entry, name: str, attributes: Mapping[str, str]) -> None:
        if name == "Run":
            self._run = attributes.get("ID", "")
        elif name == "LumiSection":
            self._count()
            entry.lumis.append((self._run, attributes.get("ID", ""), attributes.get("NEvents", "")))
        elif name in _FIELDS and self._depth == self._entry_depth + 1 and name not in entry.texts:
            self._field = name
            self._collect()

    def _count(self) -> None:
        self._things += 1
        if self._things > MOST_ENTRIES:
            raise _Refused

    def _collect(self, type_: str = "") -> None:
        self._text, self._text_room, self._type = [], LONGEST_TEXT, type_

    def _read_text(self, text: str) -> None:
        if self._text_room > 0 and (self._field or self._error is not None):
            self._text.append(text[: self._text_room])
            self._text_room -= len(text)

    def _end(self, name: str) -> None:
        if self._field == name and self._depth == self._entry_depth + 1 and self._entry is not None:
            self._entry.texts[name] = "".join(self._text).strip()
            self._field = ""
        elif self._entry is not None and self._depth == self._entry_depth:
            self._count()
            self.found.entries.append(self._entry)
            self._entry = None
        elif name == "FrameworkError" and self._error is not None:
            self._end_error()
        elif name == ROOT:
            self.closed = True
        self._depth -= 1

    def _end_error(self) -> None:
        self.found.errors.append((self._error or "", "".join(self._text).strip() or self._type))
        self._error = None
