"""report.json: what the job did, for the scripts on the submit host.

It is written early as a placeholder, again before each stage-out begins, and a last time at the end, always by
rename: whoever finds it finds a whole one.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Dict

from sandbox.failure import DONE_ALREADY, KILLED, OUTCOME_UNKNOWN, Failure

NAME = "report.json"
KILLED_MESSAGE = "the job was ended before it could write its report"
# By the outcome of a step that must not run twice.
NOT_AGAIN = {
    "unknown": (OUTCOME_UNKNOWN, "nobody knows what it has done"),
    "done": (DONE_ALREADY, "has done its work"),
}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass
class StepMetrics:
    name: str
    type: str
    exit_code: int
    wall_sec: float
    cpu_sec: float
    peak_rss_mb: int
    events_read: int
    events_written: int
    output_bytes: int
    threads: int
    runs: int = 1

    def add(self, other: StepMetrics) -> None:
        self.runs += other.runs
        self.exit_code = other.exit_code
        self.wall_sec = round(self.wall_sec + other.wall_sec, 3)
        self.cpu_sec = round(self.cpu_sec + other.cpu_sec, 3)
        self.peak_rss_mb = max(self.peak_rss_mb, other.peak_rss_mb)
        self.events_read += other.events_read
        self.events_written += other.events_written
        self.output_bytes += other.output_bytes


@dataclass
class OutputFile:
    module: str
    dataset: str
    lfn: str
    site: str
    size_bytes: int
    events: int
    adler32: str
    lumis: list[dict[str, Any]]
    parents: list[str]
    merged_from: list[str] = field(default_factory=list)


@dataclass
class Report:
    mode: str
    node: str
    cluster: int = 0
    site: str = ""
    host: str = field(default_factory=lambda: os.uname().nodename)
    started: str = field(default_factory=now)
    ended: str = field(default_factory=now)
    exit_code: int = KILLED
    exit_message: str = KILLED_MESSAGE
    failed_step: str | None = None
    log_tail: list[str] = field(default_factory=list)
    steps: list[StepMetrics] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    bad_input_files: list[str] = field(default_factory=list)
    pileup_files: list[str] = field(default_factory=list)
    bad_pileup_files: list[str] = field(default_factory=list)
    outputs: list[OutputFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    left: list[dict[str, str]] = field(default_factory=list)
    wall_sec: float = 0.0
    cpu_sec: float = 0.0
    peak_rss_mb: int = 0
    pilot: dict[str, Any] | None = None
    not_repeatable: dict[str, str] | None = None
    cause_code: int | None = None

    def succeed(self, message: str = "") -> None:
        self.exit_code, self.exit_message, self.cause_code = 0, message, None

    def fail(self, failure: Failure) -> None:
        """The job's outputs are void from here on."""
        self._blame(failure.code, failure.message)
        self.failed_step = failure.step
        self.log_tail = failure.log_tail
        self.bad_input_files = failure.bad_input_files
        self.bad_pileup_files = failure.bad_pileup_files
        self.outputs = []

    def note_outcome(self, word: dict[str, str] | None) -> None:
        """How far a step is that must not run twice (unknown, done, failed); the placeholder says so from then on."""
        self.not_repeatable = word
        self._blame(KILLED, KILLED_MESSAGE)

    def _blame(self, code: int, message: str) -> None:
        """That a step must not run again matters more than why the job failed."""
        step = self.not_repeatable or {}
        warning = NOT_AGAIN.get(step.get("outcome", ""))
        if warning is None:
            self.exit_code, self.exit_message, self.cause_code = code, message, None
        else:
            told = f"step {step['step']} is not repeatable and {warning[1]}; the job failed with {code}: {message}"
            self.exit_code, self.exit_message, self.cause_code = warning[0], told, code

    def add_step(self, metrics: StepMetrics) -> None:
        """A step that runs several times, as in a pilot, is one entry."""
        known = next((step for step in self.steps if step.name == metrics.name), None)
        if known is None:
            self.steps.append(replace(metrics))
        else:
            known.add(metrics)
        self.cpu_sec = round(sum(step.cpu_sec for step in self.steps), 3)
        self.peak_rss_mb = max(step.peak_rss_mb for step in self.steps)

    def add_pileup(self, lfns: list[str]) -> None:
        """What a step mixed in; the same file may be mixed in again and again."""
        self.pileup_files = sorted({*self.pileup_files, *lfns})

    def leave(self, lfn: str, reason: str) -> None:
        """Something that may be on the storage and that nobody has accepted."""
        self.left.append({"lfn": lfn, "reason": reason})

    def no_longer_left(self, lfn: str) -> None:
        self.left = [item for item in self.left if item["lfn"] != lfn]

    def write(self, folder: Path) -> None:
        self.ended = now()
        record: Dict[str, Any] = {"version": 1, **asdict(self)}
        temporary = folder / f".{NAME}.part"
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, folder / NAME)
