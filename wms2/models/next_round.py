"""What comes next for a request."""

from __future__ import annotations

from enum import StrEnum

from wms2.models.base import Count, Model


class Need(StrEnum):
    PILOT = "pilot"
    ROUND = "round"
    NOTHING = "nothing"
    PERSON = "person"
    """Going on by itself would not end: somebody has to look."""


class NextRound(Model):
    """What comes next, and with which priority."""

    need: Need
    events: Count = 0
    """Simulation: how many events to generate; as many of them as fit into a round."""
    files: Count = 0
    """Input: how many files a pilot takes."""
    priority: int | None = None
    """None where nothing is to be run."""
    reason: str = ""
    from_catalogues: bool = False
    """Whether it is planned from what DBS and Rucio say, and so may have to wait for them."""
