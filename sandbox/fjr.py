"""FrameworkJobReport.xml: what a step says about itself, in CMS's format.

A report may be truncated, hold bytes that are no UTF-8, or be absent. Reading never raises: what can be saved is
saved, and `complete` says whether the whole report was there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator
from xml.etree import ElementTree

NAME = "FrameworkJobReport.xml"
OTHER_EXCEPTION = 8001
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ERROR_TAG = re.compile(r"<FrameworkError\b([^>]*)>([^<]*)")
_EXIT_STATUS = re.compile(r'ExitStatus="(\d+)"')


@dataclass(frozen=True)
class Lumi:
    run: int
    lumi: int
    events: int | None


@dataclass(frozen=True)
class InputEntry:
    lfn: str
    pfn: str
    events_read: int


@dataclass(frozen=True)
class OutputEntry:
    module: str
    pfn: str
    events: int
    lumis: tuple[Lumi, ...]


@dataclass(frozen=True)
class StepReport:
    """`exit_code` is 0 when the report names no error, None when there is no report to tell."""

    complete: bool = False
    exit_code: int | None = None
    message: str = ""
    inputs: tuple[InputEntry, ...] = ()
    outputs: tuple[OutputEntry, ...] = ()
    doubtful_files: tuple[str, ...] = field(default=())  # skipped, or opened only elsewhere


def read(path: Path) -> StepReport:
    """The report of a step, or as much of it as there is."""
    try:
        text = _decode(path.read_bytes())
    except OSError:
        return StepReport()
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        return StepReport()
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - no entities, and written by the job's own step
    except ElementTree.ParseError:
        return _salvage(text)
    return _from_tree(root)


def copy(source: Path, target: Path) -> None:
    """A complete report, as clean UTF-8 whatever it was written in."""
    target.write_text(_decode(source.read_bytes()), encoding="utf-8")


def write(path: Path, code: int, message: str) -> None:
    """The wrapper's own report: no error for code 0, else that one."""
    root = ElementTree.Element("FrameworkJobReport")
    if code:
        error = ElementTree.SubElement(root, "FrameworkError", ExitStatus=str(code), Type="WMS2")
        error.text = _clean(message)
    path.write_bytes(ElementTree.tostring(root, encoding="utf-8") + b"\n")


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return _clean(re.sub(r"^\s*<\?xml[^>]*\?>", "", text))


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)


def _from_tree(root: ElementTree.Element) -> StepReport:
    errors = [(_status(e.get("ExitStatus")), (e.text or "").strip()) for e in root.iter("FrameworkError")]
    code, message = next((error for error in errors if error[0]), (0, ""))
    return StepReport(
        complete=True,
        exit_code=code,
        message=message,
        inputs=tuple(
            InputEntry(_child(e, "LFN"), _child(e, "PFN"), _integer(_child(e, "EventsRead")) or 0)
            for e in root.iter("InputFile")
        ),
        outputs=tuple(
            OutputEntry(
                _child(e, "ModuleLabel"),
                _child(e, "PFN"),
                _integer(_child(e, "TotalEvents")) or 0,
                tuple(_lumis(e)),
            )
            for e in root.iter("File")
        ),
        doubtful_files=tuple(
            name
            for tag in ("SkippedFile", "FallbackAttempt")
            for e in root.iter(tag)
            for name in (e.get("Lfn", ""), e.get("Pfn", ""))
            if name
        ),
    )


def _salvage(text: str) -> StepReport:
    """The first error of a report that breaks off."""
    for attributes, message in _ERROR_TAG.findall(text):
        status = _EXIT_STATUS.search(attributes)
        code = _status(status.group(1) if status else None)
        if code:
            return StepReport(exit_code=code, message=message.strip())
    return StepReport()


def _lumis(element: ElementTree.Element) -> Iterator[Lumi]:
    for run in element.iterfind("Runs/Run"):
        for lumi in run.iterfind("LumiSection"):
            run_number, lumi_number = _integer(run.get("ID")), _integer(lumi.get("ID"))
            if run_number is not None and lumi_number is not None:
                yield Lumi(run_number, lumi_number, _integer(lumi.get("NEvents")))


def _status(value: str | None) -> int:
    """An error without a readable status is 'some other exception'."""
    code = _integer(value)
    return OTHER_EXCEPTION if code is None else code


def _child(element: ElementTree.Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


def _integer(value: str | None) -> int | None:
    try:
        return int(value or "")
    except ValueError:
        return None
