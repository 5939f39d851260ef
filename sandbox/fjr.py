"""FrameworkJobReport.xml: what a step says about itself, in CMS's format.

A report may be truncated, malformed, huge, hold bytes that are no UTF-8, or be absent. Reading never raises: what can
be saved is saved, and `complete` says whether the whole report was there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Iterator
from xml.etree import ElementTree

from sandbox import scanner
from sandbox.scanner import Entry, Scan

NAME = "FrameworkJobReport.xml"
OTHER_EXCEPTION = 8001
UNEXPECTED_END = 8901
"""What a newer CMSSW has in its report for as long as it runs: found afterwards, it says that the end never came."""
TOLD_TO_STOP = 9000
"""CMSSW was sent a signal and stopped early, which it does without naming an error."""
NO_WORD = (None, 0, UNEXPECTED_END, TOLD_TO_STOP)
PRIMARY, MIXED = "primaryFiles", "mixingFiles"
LARGEST_COPY = 10_000_000
LARGEST_COUNT = 2**63


@dataclass(frozen=True)
class Lumi:
    run: int
    lumi: int
    events: int | None


@dataclass(frozen=True)
class InputEntry:
    """`kind` is primaryFiles, secondaryFiles or mixingFiles."""

    lfn: str
    pfn: str
    events_read: int
    kind: str = PRIMARY


@dataclass(frozen=True)
class OutputEntry:
    module: str
    pfn: str
    events: int
    lumis: tuple[Lumi, ...]
    size_bytes: int = 0  # 0 where the report does not say


@dataclass(frozen=True)
class StepReport:
    """`exit_code` is 0 when the report names no error, None when there is no report to tell.

    `errors` has the codes and messages of all errors; the first of them is `exit_code` and `message`.
    """

    complete: bool = False
    exit_code: int | None = None
    message: str = ""
    inputs: tuple[InputEntry, ...] = ()
    pileup: tuple[InputEntry, ...] = ()
    outputs: tuple[OutputEntry, ...] = ()
    skipped_files: tuple[str, ...] = ()
    fallback_files: tuple[str, ...] = ()
    errors: tuple[tuple[int, str], ...] = ()

    @property
    def unread_fallbacks(self) -> tuple[str, ...]:
        """Names of files that were not found at first, and then not read either; for all others the fallback helped."""
        read = [entry for entry in self.inputs + self.pileup if entry.events_read > 0]
        names = [name for entry in read for name in (entry.lfn, entry.pfn) if name]
        return tuple(told for told in self.fallback_files if not any(name in told for name in names))

    @property
    def says_failed(self) -> bool:
        """Whether the step itself said what went wrong; a report that only never came to its end does not."""
        return self.exit_code not in NO_WORD

    def error_for(self, status: int) -> tuple[int, str]:
        """The error whose code a process returns as this status, else the first one."""
        fitting = (error for error in self.errors if error[0] % 256 == status)
        return next(fitting, (self.exit_code or 0, self.message))


def read(path: Path) -> StepReport:
    """The report of a step, or as much of it as there is."""
    try:
        with path.open("rb") as stream:
            found = scanner.scan(stream)
    except OSError:
        return StepReport()
    return _report(found)


def copy(source: Path, target: Path) -> None:
    """A complete report, as clean UTF-8 whatever it was written in; none when it is too large to be sent around."""
    if source.stat().st_size > LARGEST_COPY:
        target.unlink(missing_ok=True)
        return
    with source.open("rb") as stream, target.open("w", encoding="utf-8") as copied:
        copied.writelines(scanner.clean_parts(stream, LARGEST_COPY))


def write(path: Path, code: int, message: str) -> None:
    """The wrapper's own report: no error for code 0, else that one."""
    root = ElementTree.Element("FrameworkJobReport")
    if code:
        error = ElementTree.SubElement(root, "FrameworkError", ExitStatus=str(code), Type="WMS2")
        error.text = scanner.clean(message)
    path.write_bytes(ElementTree.tostring(root, encoding="utf-8") + b"\n")


def _report(found: Scan) -> StepReport:
    errors = tuple(sorted(_errors(found), key=lambda error: error[0] == UNEXPECTED_END))
    code, message = errors[0] if errors else (0, "")
    read = [_input(entry) for entry in found.entries if entry.tag == "InputFile"]
    written = [_output(entry) for entry in found.entries if entry.tag == "File"]
    outputs = tuple(entry for entry in written if entry is not None)
    complete = found.whole and len(outputs) == len(written)
    return StepReport(
        complete=complete,
        exit_code=code if errors or complete else None,
        message=message,
        inputs=tuple(entry for entry in read if entry.kind == PRIMARY),
        pileup=tuple(entry for entry in read if entry.kind == MIXED),
        outputs=outputs,
        skipped_files=tuple(found.skipped),
        fallback_files=tuple(found.fallbacks),
        errors=errors,
    )


def _errors(found: Scan) -> Iterator[tuple[int, str]]:
    """An error without a readable status is 'some other exception'."""
    for status, message in found.errors:
        code = _integer(status)
        if code != 0:
            yield OTHER_EXCEPTION if code is None else code, message
    if found.told_to_stop:
        yield TOLD_TO_STOP, "cmsRun was told to stop by a signal, and stopped before its end"
    if found.failed:
        yield OTHER_EXCEPTION, "the report says that the job failed"


def _input(entry: Entry) -> InputEntry:
    texts = entry.texts
    events = _count(texts.get("EventsRead"))
    return InputEntry(
        texts.get("LFN", ""), texts.get("PFN", ""), events or 0, texts.get("InputType") or PRIMARY
    )


def _output(entry: Entry) -> OutputEntry | None:
    """None when it does not say how many events the file has: none at all would be a wrong answer."""
    texts, lumis = entry.texts, tuple(_lumis(entry))
    events = _count(texts.get("TotalEvents"))
    known = [lumi.events for lumi in lumis if lumi.events is not None]
    if events is None and known and len(known) == len(entry.lumis):
        events = sum(known)
    if events is None:
        return None
    return OutputEntry(
        texts.get("ModuleLabel", ""), texts.get("PFN", ""), events, lumis, _count(texts.get("Size")) or 0
    )


def _lumis(entry: Entry) -> Iterator[Lumi]:
    for run, lumi, events in entry.lumis:
        run_number, lumi_number = _count(run), _count(lumi)
        if run_number is not None and lumi_number is not None:
            yield Lumi(run_number, lumi_number, _count(events))


def _count(text: str | None) -> int | None:
    """A number of things; None for what is none. CMSSW writes its largest integer for a number it does not know."""
    number = _integer(text)
    return number if number is not None and 0 <= number < LARGEST_COUNT else None


def _integer(text: str | None) -> int | None:
    """A whole number, also written as 1200.0 or 1.2e+03."""
    if not text or len(text) > 40 or not text.isascii() or "_" in text:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
