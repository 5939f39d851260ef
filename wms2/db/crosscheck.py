"""The ledger read twice: the same counts from different tables, so that a mistake in one of them shows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, cast, func, select
from sqlalchemy.orm import Session

from wms2.db.requests import next_first_event, request_number, request_record
from wms2.db.tables import AuditRow, InputFileRow, OutputFileRow, RoundRow, WorkflowRow, WorkUnitRow
from wms2.models.actions import Action
from wms2.models.ledger import CrossCheck, InputFileState, WorkUnitStatus


def cross_check(session: Session, request_name: str) -> CrossCheck:
    """To be asked between rounds: a round that is open has loose ends, as it should."""
    number = request_number(session, request_name)
    request = request_record(session, request_name).request
    used_up = next_first_event(session, request_name) - request.first_event
    return CrossCheck(
        offset=used_up if request.is_simulation else None,
        **_of_units(session, number),
        **_of_rounds(session, number),
        **_of_files(session, number),
        **_of_drops(session, request_name),
        units_unlike_their_files=_units_unlike_their_files(session, number),
    )


def _of_units(session: Session, number: int) -> dict[str, int]:
    unit = WorkUnitRow
    counts = select(
        _sum(unit.planned_events).label("events_in_units"),
        func.count().label("units"),
        func.count().filter(unit.status == WorkUnitStatus.PLANNED).label("units_without_end"),
        _sum(unit.planned_files, unit.status == WorkUnitStatus.PRODUCED).label("files_of_produced_units"),
    )
    return dict(session.execute(counts.where(unit.request_no == number)).one()._mapping)


def _of_rounds(session: Session, number: int) -> dict[str, int]:
    counts = select(
        _sum(RoundRow.planned_events).label("events_in_rounds"),
        _sum(RoundRow.work_units).label("units_in_rounds"),
    )
    return dict(session.execute(counts.where(RoundRow.request_no == number)).one()._mapping)


def _of_files(session: Session, number: int) -> dict[str, int]:
    state = InputFileRow.state
    counts = select(
        func.count().filter(state == InputFileState.PLANNED).label("files_without_end"),
        func.count().filter(state == InputFileState.PROCESSED).label("files_processed"),
        func.count().filter(state == InputFileState.DROPPED).label("files_dropped"),
    )
    return dict(session.execute(counts.where(InputFileRow.request_no == number)).one()._mapping)


def _of_drops(session: Session, request_name: str) -> dict[str, int]:
    """What was dropped, as the request's row and as the audit trail tell it."""
    workflow, told = WorkflowRow, AuditRow.detail
    by_hand = select(
        _sum(cast(told["dropped", "events"].astext, BigInteger)).label("events_dropped_by_hand"),
        _sum(cast(told["dropped", "files"].astext, BigInteger)).label("files_dropped_by_hand"),
    ).where(AuditRow.request_name == request_name, AuditRow.action == Action.DROP)
    dropped = select(workflow.dropped_events).where(workflow.request_name == request_name)
    return {"events_dropped": session.scalar(dropped) or 0, **session.execute(by_hand).one()._mapping}


def _units_unlike_their_files(session: Session, number: int) -> int:
    """A work unit counts the events of its fullest dataset."""
    file, unit = OutputFileRow, WorkUnitRow
    written = (
        select(file.work_unit, func.sum(file.events).label("events"))
        .where(file.request_no == number)
        .group_by(file.work_unit, file.output_dataset_id)
        .subquery()
    )
    fullest = (
        select(written.c.work_unit, func.max(written.c.events).label("events"))
        .group_by(written.c.work_unit)
        .subquery()
    )
    unlike = (
        select(func.count())
        .select_from(unit)
        .outerjoin(fullest, fullest.c.work_unit == unit.number)
        .where(
            unit.request_no == number,
            func.coalesce(unit.produced_events, 0) != func.coalesce(fullest.c.events, 0),
        )
    )
    return session.scalar(unlike) or 0


def _sum(column: Any, *conditions: Any) -> ColumnElement[int]:
    total = func.sum(column)
    return cast(func.coalesce(total.filter(*conditions) if conditions else total, 0), BigInteger)
