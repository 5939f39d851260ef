"""An output dataset as people look at it."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from wms2.models.base import Count, Model
from wms2.models.output import OutputBlock, OutputStanding, OutputStatus


class ListedOutput(Model):
    request: str
    dataset: str
    status: OutputStatus
    standing: OutputStanding
    blocks: Count
    files: Count
    protected: Count
    """Files that Rucio holds at their site, or holds elsewhere by now."""
    registered: Count
    events: Count
    size_bytes: Count
    announced_at: datetime | None
    cleanup_at: datetime | None
    invalidated_at: datetime | None
    invalidation_reason: str | None


class OutputProblem(Model):
    """A step that failed when it was last tried, or a transfer that does not get on."""

    step: str = Field(description="protect, register, place, announce, transfer or undo")
    problem: str
    failures: Count = Field(default=0, description="in a row")
    again_at: datetime | None = Field(default=None, description="when it is tried again; null: now")
    since: datetime | None = None


class OutputDetails(ListedOutput):
    blocks_of_it: list[OutputBlock] = Field(description="its blocks, in the order in which they were opened")
    problems: list[OutputProblem] | None = Field(
        default=None, description="why it does not get on; null where no worker could be asked"
    )
