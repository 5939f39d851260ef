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
    """What comes next, and for a simulation how many events it generates."""

    need: Need
    events: Count = 0
    files: Count = 0
    reason: str = ""
