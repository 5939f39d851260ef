"""Notices: what people are told of, and the digests in which they get it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from wms2.models.base import Count, Model


class Audience(StrEnum):
    """Who is told."""

    OPERATORS = "operators"
    REQUESTOR = "requestor"
    SITE = "site"


class Reason(StrEnum):
    """Why somebody is told."""

    HELD = "held"
    FAILURES = "failures"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    REPLACED = "replaced"
    LONG_STATUS = "long_status"
    LOST_HOST = "lost_host"
    LOST_WORKFLOW = "lost_workflow"
    ALERT = "alert"
    BAN = "ban"
    BAN_FOR_ALL = "ban_for_all"
    BAN_ENDED = "ban_ended"
    SILENT_SERVICE = "silent_service"
    CREDENTIAL = "credential"


class NoticeState(StrEnum):
    """`waiting` for the next digest, then the state of that digest."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    GIVEN_UP = "given_up"


class DigestState(StrEnum):
    """`sending` is tried until it is sent, or given up after many tries."""

    SENDING = "sending"
    SENT = "sent"
    GIVEN_UP = "given_up"


class Happening(Model):
    """Something to tell of. `key` names it, so that telling of it again changes nothing."""

    key: str
    reason: Reason
    about: str
    """The request or the site under whose name it is told."""
    words: str
    """What happened to it, beginning with a verb."""
    request: str | None = None
    site: str | None = None


class Notice(Model):
    """One happening, for one address."""

    key: str
    audience: Audience
    reason: Reason
    about: str
    words: str
    at: datetime


class Digest(Model):
    """A message as it is recorded before it is sent: sent again, it is the same one."""

    id: UUID
    address: str
    subject: str
    body: str
    """Plain text for a mail, a JSON document for a webhook."""
    at: datetime


class NoticeRecord(Model):
    """A line of a listing: a notice and what became of it."""

    at: datetime
    state: NoticeState
    audience: Audience
    address: str
    reason: Reason
    about: str
    words: str
    digest_id: UUID | None = None
    tries: Count = 0
    next_try_at: datetime | None = None
    sent_at: datetime | None = None
    error: str = ""


class Notified(Model):
    """What a run came to, in digests."""

    sent: Count = 0
    failed: Count = 0
    """They are tried again later."""
    given_up: Count = 0

    def with_one(self, state: DigestState) -> Notified:
        counted = {DigestState.SENT: "sent", DigestState.SENDING: "failed", DigestState.GIVEN_UP: "given_up"}
        name = counted[state]
        return self.model_copy(update={name: getattr(self, name) + 1})

    def __str__(self) -> str:
        return f"{self.sent} digests sent, {self.failed} to be tried again, {self.given_up} given up"
