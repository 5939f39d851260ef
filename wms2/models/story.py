"""Why a request is where it is: everything that happened to it, in order."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from wms2.models.base import Model


class EventKind(StrEnum):
    STATUS = "status"
    ACTION = "action"
    PLAN = "plan"
    DAG = "dag"
    DECISION = "decision"
    CLOSED = "closed"


class StoryEvent(Model):
    """One thing that happened or was decided; `detail` holds what it was decided from."""

    at: datetime
    kind: EventKind
    actor: str
    what: str
    why: str = ""
    detail: dict[str, Any] = Field(default_factory=dict)
