"""Restarting a request: the next version is recorded in the transaction that supersedes the old one."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from wms2.core.versions import next_version
from wms2.db.audit import record_action
from wms2.db.chains import link_readers_anew
from wms2.db.requests import insert_request, request_record
from wms2.db.tables import RequestRow
from wms2.db.verdicts import judged_request
from wms2.errors import Contradiction
from wms2.models.audit import Action
from wms2.models.request import Request, RequestRecord, RequestStatus


def supersede(session: Session, action: Action, most_versions: int) -> str:
    """The name of the request that replaces this one: the same one, however often it is asked for."""
    name = action.request_name or ""
    query = select(RequestRow).where(RequestRow.request_name == name).with_for_update()
    row = session.scalars(query.execution_options(populate_existing=True)).one()
    if row.superseded_by_request is not None:
        return row.superseded_by_request
    if policy := action.detail.get("cleanup_policy"):
        # What a person decides of the outputs holds for those of the next version as well.
        row.cleanup_policy = policy
        row.request_data = {**row.request_data, "cleanup_policy": policy}
        session.flush()
    clone = planned_clone(session, name, most_versions)
    insert_request(session, clone, RequestStatus.SUBMITTED)
    link_readers_anew(session, name, clone)
    row.superseded_by_request = clone.request_name
    detail = {**action.detail, "superseded_by": clone.request_name}
    record_action(session, action.model_copy(update={"detail": detail}))
    session.flush()
    return clone.request_name


def planned_clone(session: Session, request_name: str, most_versions: int) -> Request:
    """The request that a restart would make, or a UserError when it has been restarted often enough.

    What people judged in this one is among the rules of the next.
    """
    request = judged_request(session, request_name)
    if (versions := _versions(session, request)) >= most_versions:
        raise Contradiction(
            f"{request_name} is version {versions} of at most {most_versions}; fail it, and submit a corrected request"
        )
    clone = next_version(request)
    taken = session.scalar(select(RequestRow.id).where(RequestRow.request_name == clone.request_name))
    if taken is not None:
        raise Contradiction(
            f"{request_name} cannot be restarted: a request named {clone.request_name} exists already"
        )
    return clone


def _versions(session: Session, request: Request) -> int:
    """How many there are, from the first one to this."""
    count, previous = 1, request.previous_version_request
    while previous is not None:
        count += 1
        previous = session.scalar(
            select(RequestRow.previous_version_request).where(RequestRow.request_name == previous)
        )
    return count


def versions_of(session: Session, request_name: str) -> list[RequestRecord]:
    """A request with all that it replaced and all that replaced it, the first version first."""
    found = [request_record(session, request_name)]
    while (previous := found[0].request.previous_version_request) is not None:
        found.insert(0, request_record(session, previous))
    while (following := found[-1].superseded_by_request) is not None:
        found.append(request_record(session, following))
    return found
