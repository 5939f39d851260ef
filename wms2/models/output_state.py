"""The state of an output dataset's workflow. It travels through continue-as-new."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from wms2.models.messages import OutputOrder


class Setback(BaseModel):
    """A step that failed when it was last tried."""

    problem: str
    failures: int
    """In a row."""
    again_at: datetime
    """When it is tried again."""
    told: bool = False
    """Whether the request was told that a person is needed."""
    partly: bool = False
    """Whether only some blocks failed: the step is taken for the others as soon as there is something to do."""


class OutputState(BaseModel):
    """An order, and how far it is: whoever starts the workflow sends the order alone.

    Fields are only ever added, with a default.
    """

    model_config = ConfigDict(validate_assignment=True)

    request: str
    dataset: str
    version: int = 1
    urgent: bool = False
    news: bool = True
    """There may be files to protect. True at the start: what was credited before tells nobody."""
    finishing: bool = False
    frozen: bool = False
    protected: int = 0
    """Files that this workflow protected, and below registered."""
    registered: int = 0
    close_at: datetime | None = None
    """When the oldest open block is closed although it is not full."""
    blocks_due: bool = False
    """A block is to be closed, or is closed and not in DBS."""
    waiting: int = 0
    """Blocks that are not yet where they should be."""
    look_at: datetime | None = None
    """When to look again where they are."""
    trouble: str = ""
    """What Rucio says of a transfer that does not get on."""
    trouble_since: datetime | None = None
    trouble_told: bool = False
    """Whether somebody was told that it has lasted too long."""
    failures: int = 0
    """How often in a row the step was tried in vain that was tried most often."""
    problem: str = ""
    """Why steps failed when they were last tried; empty when none did."""
    setbacks: dict[str, Setback] = {}
    """The same, step by step."""
    retry: bool = False
    """A person wants it tried now."""

    @property
    def order(self) -> OutputOrder:
        return OutputOrder(
            request=self.request, dataset=self.dataset, urgent=self.urgent, finishing=self.finishing
        )
