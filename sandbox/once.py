"""Steps that must not run twice: the report says at every moment how far they are.

It is written before such a step begins, so that a job that vanishes in the middle leaves word of it.
"""

from __future__ import annotations

from sandbox.fjr import StepReport
from sandbox.job import Job
from sandbox.manifest import Step
from sandbox.process import Outcome


class Once:
    """The word about one run of a step; about a repeatable one there is none to keep."""

    def __init__(self, job: Job, step: Step) -> None:
        self._job = job
        self._step = step
        self._before = job.report.not_repeatable

    def begins(self) -> None:
        self._note("unknown")

    def never_began(self) -> None:
        self._write(self._before)

    def ended(self, outcome: Outcome, report: StepReport, code: int) -> None:
        """A step that was ended, or left no report, may have done anything; one that says it failed did fail."""
        if code == 0:
            self._note("done")
        elif report.says_failed and outcome.status >= 0 and not outcome.ended:
            # What was done before, by another step or in an earlier part of a pilot, is not undone by this.
            self._write(self._before or {"step": self._step.name, "outcome": "failed"})

    def _note(self, outcome: str) -> None:
        self._write({"step": self._step.name, "outcome": outcome})

    def _write(self, word: dict[str, str] | None) -> None:
        if not self._step.repeatable:
            self._job.report.note_outcome(word)
            self._job.report.write(self._job.folder)
