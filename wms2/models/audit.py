"""Who did what, when and why."""

from datetime import datetime
from typing import Any

from pydantic import Field

from wms2.models.base import Model
from wms2.patterns import RequestName, Word


class Action(Model):
    """`action_id` names this one deed, so that telling of it again changes nothing."""

    action_id: str = Field(min_length=1, max_length=200)
    actor: str = Field(min_length=1, max_length=200)
    action: Word
    request_name: RequestName | None = None
    reason: str = ""
    detail: dict[str, Any] = Field(default_factory=dict)


class AuditEntry(Model):
    action: Action
    at: datetime
