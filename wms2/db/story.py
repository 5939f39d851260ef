"""The story of a request, read in one go. All of it is here, so it outlives Temporal's retention."""

from __future__ import annotations

from sqlalchemy.orm import Session

from wms2.core.story import tell
from wms2.db.audit import audit_trail
from wms2.db.dags import dags_of_request
from wms2.db.failures import failures_in_numbers
from wms2.db.ledger import rounds_of
from wms2.db.requests import request_record
from wms2.models.story import StoryEvent

MOST_ACTIONS = 100_000


def request_story(session: Session, request_name: str) -> list[StoryEvent]:
    """Everything that happened to a request, the oldest first, or a UserError when there is none of that name."""
    record = request_record(session, request_name)
    rounds = rounds_of(session, request_name)
    return tell(
        record,
        audit_trail(session, request_name, limit=MOST_ACTIONS),
        rounds,
        dags_of_request(session, request_name),
        failures_in_numbers(session, request_name),
    )
