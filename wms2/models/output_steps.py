"""What the steps of an output dataset's workflow say when they are done."""

from __future__ import annotations

from wms2.models.base import Count, Model


class Protected(Model):
    """Files that are protected at their site now, and what that means for their blocks."""

    files: Count
    blocks_due: bool = False
    """A block is to be closed, or is closed and not in DBS."""
    next_due_sec: float | None = None
    """When the oldest open block is to be closed, if nothing else closes it."""


class Registered(Model):
    blocks: Count
    files: Count


class Placed(Model):
    """Where the blocks that are in DBS are."""

    waiting: Count
    """Blocks that are not yet where they should be."""
    complete: bool = False
    """Every file of the dataset is in a block for which nothing is left to do."""
    left_alone: Count = 0
    """Those of them that were looked at just before, and not now."""
    trouble: str = ""
    """What Rucio says of a transfer that does not get on."""
    patience_hours: float = 24
    """How long a transfer may be in trouble before somebody is told."""


class OutputStuck(Model):
    """A dataset that does not get on without a person."""

    dataset: str
    problem: str
