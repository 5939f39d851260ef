"""Inputs that are brought near before a request begins."""

from __future__ import annotations

from datetime import datetime

from wms2.models.base import Count, Model


class InputRule(Model):
    """A dataset or a block that a request wants to have at a place, and the rule for it as soon as it is known."""

    request_name: str
    name: str
    rse_expression: str
    rule_id: str | None = None


class InputProgress(Model):
    """How much of a request's input is where the request wants it."""

    rse_expression: str
    rules: Count
    """One for the dataset, or for each block that the request names."""
    rules_ok: Count = 0
    files: Count = 0
    files_there: Count = 0
    problem: str = ""
    """What Rucio says of the first rule that is stuck."""
    looked_at: datetime | None = None
    released: bool = False

    @property
    def is_there(self) -> bool:
        return self.rules_ok == self.rules > 0

    def __str__(self) -> str:
        said = f"{self.files_there} of {self.files} files at {self.rse_expression}"
        if self.released:
            return f"{said}, let go"
        return f"{said}; {self.problem}" if self.problem else said


class FetchedInput(Model):
    progress: InputProgress
    patience_hours: float
    """How long Rucio may be stuck before a person is asked."""
