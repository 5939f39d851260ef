"""The running side of requests, as people look at it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from wms2.db.requests import Owner
from wms2.db.tables import RequestRow, WorkflowRow
from wms2.errors import Missing
from wms2.models.request import RequestStatus
from wms2.models.workflow import Workflow


def list_workflows(
    session: Session,
    statuses: Sequence[RequestStatus] = (),
    limit: int = 1000,
    offset: int = 0,
    owner: Owner | None = None,
) -> list[Workflow]:
    """Newest first; all statuses unless some are named."""
    query = (
        select(WorkflowRow)
        .join(RequestRow, RequestRow.request_name == WorkflowRow.request_name)
        .order_by(RequestRow.request_no.desc())
        .limit(limit)
        .offset(offset)
    )
    if statuses:
        query = query.where(WorkflowRow.status.in_(statuses))
    rows = session.scalars(query if owner is None else query.where(owner.owns()))
    return [_workflow(row) for row in rows]


def workflow_by_id(session: Session, workflow_id: UUID) -> Workflow:
    row = session.get(WorkflowRow, workflow_id)
    if row is None:
        raise Missing(
            f"there is no workflow with the id {workflow_id}; `wms2 request list` shows the requests"
        )
    return _workflow(row)


def workflow_of(session: Session, request_name: str) -> Workflow:
    row = session.scalars(select(WorkflowRow).where(WorkflowRow.request_name == request_name)).one_or_none()
    if row is None:
        raise Missing(f"there is no request named {request_name}; `wms2 request list` shows all")
    return _workflow(row)


def _workflow(row: WorkflowRow) -> Workflow:
    return Workflow.model_validate({name: getattr(row, name) for name in Workflow.model_fields})
