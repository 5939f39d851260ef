"""Submitting a request: the row first, then the workflow."""

from __future__ import annotations

from sqlalchemy.orm import Session
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from wms2.db.audit import record_action
from wms2.db.ledger import rounds_of
from wms2.db.requests import find_request, insert_request
from wms2.db.session import RecordConflict
from wms2.errors import Silent
from wms2.models.audit import Action
from wms2.models.request import Request, RequestStatus
from wms2.temporal.launch import start_request


def record_submission(session: Session, request: Request, hold: bool, by: Action | None = None) -> bool:
    """Whether it is news. The row guards the name for good; one that is known is taken only if nothing came of it.

    `by` is who did it, for the record: the same action again is no news, and no mistake.
    """
    name = request.request_name
    if by is not None and not record_action(session, by):
        return False
    known = find_request(session, name)
    if known is None:
        insert_request(session, request, RequestStatus.NEW if hold else RequestStatus.SUBMITTED)
    elif known.request != request or known.status_sequence > 0 or rounds_of(session, name):
        raise _name_is_taken(request)
    return True


async def start_recorded(client: Client, request: Request, *, hold: bool, is_news: bool = True) -> None:
    """Start its workflow; should that fail, submitting it again does what is missing."""
    try:
        await start_request(client, request, hold=hold)
    except WorkflowAlreadyStartedError:
        if is_news:
            raise _name_is_taken(request) from None
    except RPCError as error:
        raise Silent(
            f"{request.request_name} is recorded, but Temporal did not start it ({error.message}); "
            "start a worker, which prepares Temporal, and submit it again"
        ) from error


def _name_is_taken(request: Request) -> RecordConflict:
    return RecordConflict(
        f"a request named {request.request_name} exists already; `wms2 request show {request.request_name}` shows it, "
        "and another name makes this one new"
    )
