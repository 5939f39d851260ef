"""Requests in the database: inserting, finding, and the record of their statuses."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, case, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.db.session import RecordConflict
from wms2.db.tables import RequestRow, WorkflowRow
from wms2.errors import UserError
from wms2.models.request import Request, RequestRecord, RequestStatus, RequestSummary
from wms2.models.workflow import CategoryThrottles

_APART = {"payload_config", "splitting_params"}


def insert_request(
    session: Session, request: Request, status: RequestStatus = RequestStatus.NEW
) -> RequestRecord:
    """The request's row and its workflow's; a name that is taken raises RecordConflict."""
    name, previous = request.request_name, request.previous_version_request
    if previous is not None and _row(session, previous) is None:
        raise RecordConflict(f"{name} cannot replace {previous}: there is no such request")
    document = request.model_dump(mode="json")
    inserted = session.execute(
        insert(RequestRow)
        .values(
            request_name=name,
            requestor=request.requestor,
            requestor_dn=request.requestor_dn,
            request_data={field: value for field, value in document.items() if field not in _APART},
            payload_config=document["payload_config"],
            splitting_params=document["splitting_params"],
            input_dataset=request.input_dataset,
            campaign=request.campaign,
            priority=request.priority,
            urgent=request.urgent,
            status=status,
            previous_version_request=previous,
            cleanup_policy=request.cleanup_policy,
        )
        .on_conflict_do_nothing(index_elements=[RequestRow.request_name])
        .returning(RequestRow.id)
    ).one_or_none()
    if inserted is None:
        raise RecordConflict(f"a request named {name} exists already; choose another name")
    session.add(
        WorkflowRow(
            request_name=name,
            input_dataset=request.input_dataset,
            splitting_algo=request.splitting_algo,
            splitting_params=document["splitting_params"],
            category_throttles=CategoryThrottles().model_dump(),
            status=status,
        )
    )
    session.flush()
    return request_record(session, name)


def find_request(session: Session, request_name: str) -> RequestRecord | None:
    row = _row(session, request_name)
    return None if row is None else _record(row)


def request_record(session: Session, request_name: str) -> RequestRecord:
    """The request, or a UserError when there is none of that name."""
    row = _row(session, request_name)
    if row is None:
        raise UserError(f"there is no request named {request_name}; `wms2 request list` shows all")
    return _record(row)


def request_number(session: Session, request_name: str) -> int:
    """The number by which the ledger knows the request."""
    number = session.scalar(select(RequestRow.request_no).where(RequestRow.request_name == request_name))
    if number is None:
        raise UserError(f"there is no request named {request_name}; `wms2 request list` shows all")
    return number


def next_first_event(session: Session, request_name: str) -> int:
    """The first event number that no round of the request was planned with."""
    number = session.scalar(
        select(WorkflowRow.next_first_event).where(WorkflowRow.request_name == request_name)
    )
    if number is None:
        raise UserError(f"there is no request named {request_name}; `wms2 request list` shows all")
    return number


def list_requests(
    session: Session,
    statuses: Sequence[RequestStatus] = (),
    campaign: str | None = None,
    limit: int = 1000,
) -> list[RequestSummary]:
    """Highest priority first, then oldest; all statuses unless some are named."""
    columns = [getattr(RequestRow, name) for name in RequestSummary.model_fields]
    query: Select[Any] = select(*columns)
    if statuses:
        query = query.where(RequestRow.status.in_(statuses))
    if campaign is not None:
        query = query.where(RequestRow.campaign == campaign)
    query = query.order_by(RequestRow.priority.desc(), RequestRow.request_no).limit(limit)
    return [_summary(row) for row in session.execute(query)]


def unended_requests(session: Session, recorded_before: datetime) -> list[RequestRecord]:
    """Requests whose end is still to come, the oldest first."""
    query = select(RequestRow).where(
        RequestRow.status.not_in([status for status in RequestStatus if status.is_final]),
        RequestRow.created_at < recorded_before,
    )
    return [_record(row) for row in session.scalars(query.order_by(RequestRow.request_no))]


def record_status(
    session: Session,
    request_name: str,
    status: RequestStatus,
    sequence: int,
    actor: str,
    reason: str = "",
) -> bool:
    """Whether the status was recorded: one that is not newer than what is known changes nothing."""
    number = request_number(session, request_name)
    # Before its workflow spoke, a request only had the status that it was to begin with.
    known = case((RequestRow.status_sequence > 0, RequestRow.status), else_=None)
    change = func.jsonb_build_object(
        "sequence", sequence, "from_status", known, "to_status", str(status),
        "at", func.now(), "actor", actor, "reason", reason,
    )  # fmt: skip
    applied = session.execute(
        update(RequestRow)
        .where(RequestRow.request_no == number, RequestRow.status_sequence < sequence)
        .values(
            status=status,
            status_sequence=sequence,
            status_reason=reason,
            status_transitions=RequestRow.status_transitions.concat(func.jsonb_build_array(change)),
            updated_at=func.now(),
        )
        .returning(RequestRow.request_no)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if applied is None:
        return False
    session.execute(
        update(WorkflowRow)
        .where(WorkflowRow.request_name == request_name)
        .values(status=status, updated_at=func.now())
        .execution_options(synchronize_session=False)
    )
    return True


def _row(session: Session, request_name: str) -> RequestRow | None:
    query = select(RequestRow).where(RequestRow.request_name == request_name)
    return session.scalar(query.execution_options(populate_existing=True))


def _record(row: RequestRow) -> RequestRecord:
    document = row.request_data | {
        "payload_config": row.payload_config,
        "splitting_params": row.splitting_params,
    }
    return RequestRecord.model_validate(
        {
            "request": document,
            **{name: getattr(row, name) for name in RequestRecord.model_fields if name != "request"},
        }
    )


def _summary(row: Row[Any]) -> RequestSummary:
    return RequestSummary.model_validate(row._mapping, from_attributes=False)
