"""FrameworkJobReport.xml, where the wrapper's own report is not enough: what cmsRun itself said of its end.

It is searched, never parsed: a report may be truncated, no UTF-8, or made to break an XML parser.
"""

from __future__ import annotations

import os

OTHER_EXCEPTION = 8001
UNEXPECTED_END = 8901
"""What a newer CMSSW has in its report for as long as it runs."""
TOLD_TO_STOP = 9000
_LONGEST = 16_000_000
_LONGEST_TAG = 2000
_LONGEST_TEXT = 10_000
_MOST = 1000
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


class JobReport:
    """`exit_code` is None when there is no report, or it breaks off before it names an error.

    Of several errors the one whose code a process returns as `status` counts, else the first.
    """

    def __init__(self, path: str, status: int | None = None) -> None:
        self.exit_code: int | None = None
        self.message = ""
        self._text = _read(path)
        errors = _errors(self._text)
        fitting = [error for error in errors if status is not None and error[0] % 256 == status % 256]
        named = [error for error in errors if error[0] != UNEXPECTED_END]
        if errors:
            self.exit_code, self.message = (fitting or named or errors)[0]
        elif "</FrameworkJobReport>" in self._text:
            self.exit_code = 0

    def input_files(self) -> list[str]:
        """The LFNs that were read; files that were mixed in, or read beside others, are not among them."""
        return [lfn for lfn in (_element(entry, "LFN") for entry in self._inputs()) if lfn]

    def events_read(self) -> int:
        """From all input files together, as far as the step came."""
        counts = [_element(entry, "EventsRead") for entry in self._inputs()]
        return sum(int(count) for count in counts if count.isdigit() and count.isascii() and len(count) < 19)

    def bad_files(self, planned: list[str], with_pileup: bool) -> list[str]:
        """Which files could not be used, by the first that names any: the error, what was skipped, fallbacks in vain.

        A file whose fallback led to events is a good one. Where nothing is named the only planned file is it, unless
        it may as well be one that was mixed in.
        """
        candidates = planned or self.input_files()
        unread = set(candidates) - self._files_with_events()
        for told, possible in (
            (self.message, candidates),
            (self._names_in("<SkippedFile"), candidates),
            (self._names_in("<FallbackAttempt"), [lfn for lfn in candidates if lfn in unread]),
        ):
            named = [lfn for lfn in possible if lfn in told]
            if named:
                return named
        return [lfn for lfn in planned if len(planned) == 1 and not with_pileup]

    def _inputs(self) -> list[str]:
        entries = [part.partition("</InputFile>")[0] for part in self._text.split("<InputFile>", _MOST)[1:]]
        return [entry for entry in entries if _element(entry, "InputType") in ("", "primaryFiles")]

    def _files_with_events(self) -> set[str]:
        counts = [(_element(entry, "LFN"), _element(entry, "EventsRead")) for entry in self._inputs()]
        return {lfn for lfn, count in counts if count.strip("0").isdigit()}

    def _names_in(self, tag: str) -> str:
        """<SkippedFile Pfn="..." Lfn="..."/> and <FallbackAttempt Pfn="..." Lfn="..."/>"""
        found = []
        for part in self._text.split(tag, _MOST)[1:]:
            attributes, _ = _tag(part[:_LONGEST_TAG], 0)
            found += [_plain(_attribute(attributes, name)) for name in ("Lfn", "Pfn")]
        return "\n".join(found)

    def metric(self, name: str) -> float | None:
        """A figure of the performance summaries, such as PeakValueRss; those of single modules do not count."""
        for part in self._text.split("<PerformanceSummary", _MOST)[1:]:
            summary = part.partition("</PerformanceSummary>")[0]
            tag = summary.partition(f'Name="{name}"')[2].partition(">")[0]
            number = _number(tag.partition('Value="')[2].partition('"')[0])
            if number is not None:
                return number
        return None


def _element(entry: str, name: str) -> str:
    return _plain(entry.partition(f"<{name}>")[2].partition(f"</{name}>")[0][:_LONGEST_TAG]).strip()


def _number(text: str) -> float | None:
    """CMSSW writes nan and inf for what it could not measure."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e300 else None


def _read(path: str) -> str:
    """All of it; of what is too large the beginning and the end, where errors stand."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if size <= _LONGEST:
                return _decode(file.read(_LONGEST))
            beginning = file.read(_LONGEST // 2)
            file.seek(size - _LONGEST // 2)
            return _decode(beginning) + "\n" + _decode(file.read(_LONGEST // 2))
    except OSError:
        return ""


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        torn = error.start > len(data) - 4 or error.end < 4
        return data.decode("utf-8" if torn else "cp1252", "replace")


def _errors(text: str) -> list[tuple[int, str]]:
    """Code and text of each error. What looks like one inside the text of another is none."""
    found: list[tuple[int, str]] = []
    place = text.find("<FrameworkError")
    while place >= 0 and len(found) < _MOST:
        attributes, place = _tag(text, place + len("<FrameworkError"))
        body = ""
        if not attributes.endswith("/"):
            end = text.find("</FrameworkError>", place)
            body = text[place : end if end >= 0 else None][: 2 * _LONGEST_TEXT]
            place = end if end >= 0 else len(text)
        code = _status(attributes)
        if code:
            found.append((code, _plain(body).strip()[:_LONGEST_TEXT] or _attribute(attributes, "Type")))
        place = text.find("<FrameworkError", place)
    if "<ShutdownSignal" in text:
        found.append((TOLD_TO_STOP, "cmsRun was told to stop by a signal, and stopped before its end"))
    return found


def _tag(text: str, place: int) -> tuple[str, int]:
    """The inside of a tag, and where it ends; a > inside quotes does not end it."""
    quote = ""
    inside = text[place : place + _LONGEST_TAG]
    for length, letter in enumerate(inside):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == ">":
            return inside[:length], place + length + 1
    return inside, place + len(inside)


def _attribute(attributes: str, name: str) -> str:
    """The value of an attribute; empty when it is missing or breaks off."""
    value = attributes.partition(name)[2].lstrip(" \t\r\n=")
    text, ended, _ = value[1:].partition(value[:1]) if value[:1] in ("'", '"') else ("", "", "")
    return text if ended else ""


def _status(attributes: str) -> int:
    """An error without a readable status is 'some other exception'."""
    digits = _attribute(attributes, "ExitStatus").strip()
    return int(digits) if digits.isdigit() and digits.isascii() and len(digits) < 10 else OTHER_EXCEPTION


def _plain(text: str) -> str:
    text = text.replace("<![CDATA[", "").replace("]]>", "")
    for entity, letter in _ENTITIES:
        text = text.replace(entity, letter)
    return text
