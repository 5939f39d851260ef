"""Requests in the database: inserting, finding, and the record of their statuses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, cast, false, func, or_, select, update
from sqlalchemy.dialects.postgresql import TIMESTAMP, insert
from sqlalchemy.orm import Session

from wms2.core.notices import ALERTED, status_happening
from wms2.core.plain import UNPRINTABLE
from wms2.core.time_limits import GRACE, Standing, is_unattended
from wms2.db.audit import newest_entry
from wms2.db.notices import queue
from wms2.db.session import RecordConflict
from wms2.db.tables import RequestRow, RoundRow, WorkflowRow
from wms2.errors import Missing
from wms2.models.request import Request, RequestRecord, RequestStatus, RequestSummary, StatusCount
from wms2.models.workflow import CategoryThrottles, PilotMetrics

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
            next_first_event=request.first_event,
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
        raise Missing(f"there is no request named {request_name}; `wms2 request list` shows all")
    return _record(row)


def request_number(session: Session, request_name: str) -> int:
    """The number by which the ledger knows the request. It is for good, so a session asks for it once."""
    known = _known_numbers(session)
    if request_name not in known:
        number = session.scalar(select(RequestRow.request_no).where(RequestRow.request_name == request_name))
        if number is None:
            raise Missing(f"there is no request named {request_name}; `wms2 request list` shows all")
        known[request_name] = number
    return known[request_name]


def created(session: Session, request_name: str) -> datetime | None:
    """When the request was recorded; None where there is none of that name."""
    return session.scalar(select(RequestRow.created_at).where(RequestRow.request_name == request_name))


def next_first_event(session: Session, request_name: str) -> int:
    """The first event number that no round of the request was planned with."""
    number = session.scalar(
        select(WorkflowRow.next_first_event).where(WorkflowRow.request_name == request_name)
    )
    if number is None:
        raise Missing(f"there is no request named {request_name}; `wms2 request list` shows all")
    return number


def record_pilot_metrics(session: Session, request_name: str, metrics: PilotMetrics) -> None:
    """Keep what the pilot measured."""
    session.execute(
        update(WorkflowRow)
        .where(WorkflowRow.request_name == request_name)
        .values(pilot_metrics=metrics.model_dump(mode="json"), updated_at=func.now())
        .execution_options(synchronize_session=False)
    )


def pilot_metrics_of(session: Session, request_name: str) -> PilotMetrics | None:
    query = select(WorkflowRow.pilot_metrics).where(WorkflowRow.request_name == request_name)
    found = session.scalar(query)
    return None if found is None else PilotMetrics.model_validate(found)


@dataclass(frozen=True)
class Owner:
    """How requests name their requestor."""

    name: str | None = None
    dn: str | None = None

    def owns(self) -> ColumnElement[bool]:
        """The requests that name one of the two."""
        named = [RequestRow.requestor == self.name] if self.name is not None else []
        shown = [RequestRow.requestor_dn == self.dn] if self.dn is not None else []
        return or_(false(), *named, *shown)


def list_requests(
    session: Session,
    statuses: Sequence[RequestStatus] = (),
    campaign: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    owner: Owner | None = None,
) -> list[RequestSummary]:
    """Highest priority first, then oldest; all statuses unless some are named."""
    names = list(RequestSummary.model_fields)
    columns = [getattr(RequestRow, name) for name in names]
    query: Select[Any] = select(*columns).where(*_asked_for(statuses, campaign, owner))
    query = query.order_by(RequestRow.priority.desc(), RequestRow.request_no).limit(limit).offset(offset)
    # Plain dictionaries: a mapping of another kind is read much more slowly, and there are a thousand in a page.
    return [
        RequestSummary.model_validate(dict(zip(names, row, strict=True))) for row in session.execute(query)
    ]


def count_requests(
    session: Session,
    statuses: Sequence[RequestStatus] = (),
    campaign: str | None = None,
    owner: Owner | None = None,
) -> int:
    """How many there are in all."""
    query = select(func.count()).select_from(RequestRow).where(*_asked_for(statuses, campaign, owner))
    return session.scalar(query) or 0


def _asked_for(
    statuses: Sequence[RequestStatus], campaign: str | None, owner: Owner | None
) -> list[ColumnElement[bool]]:
    asked: list[ColumnElement[bool]] = [RequestRow.status.in_(statuses)] if statuses else []
    asked += [RequestRow.campaign == campaign] if campaign is not None else []
    return asked + ([owner.owns()] if owner is not None else [])


def status_since() -> ColumnElement[datetime]:
    """When a request came to its status; it is changed in other ways, too."""
    changed_at = cast(RequestRow.status_transitions[-1]["at"].astext, TIMESTAMP(timezone=True))
    return func.coalesce(changed_at, RequestRow.created_at)


def requests_by_status(session: Session) -> dict[RequestStatus, StatusCount]:
    """How many requests have each status, and since when the one that has had it longest."""
    query = select(RequestRow.status, func.count(), func.min(status_since())).group_by(RequestRow.status)
    return {
        RequestStatus(status): StatusCount(requests=count, oldest_since=oldest)
        for status, count, oldest in session.execute(query)
    }


def unended_requests(session: Session, recorded_before: datetime) -> list[str]:
    """The names of requests whose end is still to come, the oldest first; but not of those that a person runs by hand.

    A workflow tells where its request stands before it plans a round, so a round without that is a person's.
    """
    planned = select(RoundRow.number).where(RoundRow.request_no == RequestRow.request_no).exists()
    query = select(RequestRow.request_name).where(
        RequestRow.status.not_in([status for status in RequestStatus if status.is_final]),
        RequestRow.created_at < recorded_before,
        or_(RequestRow.status_sequence > 0, ~planned),
    )
    return list(session.scalars(query.order_by(RequestRow.request_no)))


def queued_requests(session: Session, since: datetime) -> list[str]:
    """Requests that have been waiting for a slot since then or longer, in the order of their turn."""
    query = select(RequestRow.request_name).where(
        RequestRow.status == RequestStatus.QUEUED, status_since() < since
    )
    return list(session.scalars(query.order_by(RequestRow.priority.desc(), RequestRow.request_no)))


def unattended_requests(session: Session, limits: Mapping[RequestStatus, timedelta]) -> list[Standing]:
    """Requests whose status has passed its limit without anybody saying so, the oldest first."""
    now, since = session.scalars(select(func.now())).one(), status_since()
    passed = [
        and_(RequestRow.status == status, since < now - limit - GRACE) for status, limit in limits.items()
    ]
    query = select(RequestRow.request_name, RequestRow.status, since).where(or_(false(), *passed))
    found = []
    for name, status, at in session.execute(query.order_by(RequestRow.request_no)).all():
        alert = newest_entry(session, name, ALERTED)
        standing = Standing(name, RequestStatus(status), at, alert.at if alert else None)
        if is_unattended(standing, limits[standing.status], now):
            found.append(standing)
    return found


def record_status(
    session: Session,
    request_name: str,
    status: RequestStatus,
    sequence: int,
    actor: str,
    reason: str = "",
) -> bool:
    """Whether the status was recorded, with the notices of it; one that is not newer than what is known is not."""
    number = request_number(session, request_name)
    # A reason may quote anybody, and the one character that PostgreSQL refuses would keep the request from going on.
    reason = reason.replace("\0", UNPRINTABLE)
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
        .returning(RequestRow.superseded_by_request)
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
    told = status_happening(request_name, status, sequence, reason, applied.superseded_by_request)
    if told is not None:
        queue(session, told)
    return True


def record_priority(session: Session, request_name: str, priority: int) -> None:
    """The priority of today; what was asked for stays in the request itself."""
    session.execute(
        update(RequestRow)
        .where(RequestRow.request_no == request_number(session, request_name))
        .values(priority=priority, updated_at=func.now())
        .execution_options(synchronize_session=False)
    )


def _row(session: Session, request_name: str) -> RequestRow | None:
    query = select(RequestRow).where(RequestRow.request_name == request_name)
    row = session.scalar(query.execution_options(populate_existing=True))
    if row is not None:
        _known_numbers(session)[request_name] = row.request_no
    return row


def _known_numbers(session: Session) -> dict[str, int]:
    known: dict[str, int] = session.info.setdefault("request_numbers", {})
    return known


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
