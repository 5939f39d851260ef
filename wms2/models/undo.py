"""Taking back what was told of an output dataset."""

from __future__ import annotations

from datetime import datetime

from wms2.models.base import Count, Model
from wms2.patterns import RequestName


class UndoOrder(Model):
    """Take back the datasets of a request, or one of them. `action_id` names the deed in the audit trail."""

    request: RequestName
    dataset: str | None = None
    actor: str
    reason: str
    action_id: str


class Undone(Model):
    """What was taken back in this run; what was taken back before is not counted again."""

    datasets: Count = 0
    blocks: Count = 0
    rules: Count = 0
    files: Count = 0


class UndoState(Model):
    """How often in a row it was tried in vain to take something back, why, and when it is tried again."""

    failures: Count = 0
    problem: str = ""
    again_at: datetime | None = None


class RecordedBlock(Model):
    """What other systems may have been told of a block."""

    name: str
    in_dbs: bool
    rules: tuple[str, ...] = ()
    """Of WMS2's own that still hold."""


class RecordedDataset(Model):
    name: str
    shared: bool
    """Other requests have files in it, which stay."""
    blocks: tuple[RecordedBlock, ...]
