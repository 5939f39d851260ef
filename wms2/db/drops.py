"""What people take out of a request: files that are excluded or dropped, events that nobody waits for any more.

Each is recorded together with who did it, in one transaction; the same action again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from wms2.core.rounds import events_left, events_of_units
from wms2.db.audit import record_action
from wms2.db.bans import ban_sites
from wms2.db.ledger import balance
from wms2.db.requests import request_number, request_record
from wms2.db.session import RecordConflict
from wms2.db.tables import AuditRow, InputFileRow, WorkflowRow, WorkUnitRow
from wms2.models.actions import Action as ActionName
from wms2.models.audit import Action
from wms2.models.ledger import InputFileState, WorkUnitStatus
from wms2.models.messages import Changes, DropAction, Dropped
from wms2.models.plan import unit_name

_TO_BE_PLANNED = (InputFileState.AVAILABLE, InputFileState.ATTEMPTED)


def apply_changes(session: Session, action: Action, changes: Changes) -> bool:
    """Whether it is news. Files are excluded and sites banned with the person's reason."""
    request_name = action.request_name or ""
    _lock(session, request_name)
    if not record_action(session, action):
        return False
    if changes.exclude_files:
        _take_out(session, request_name, changes.exclude_files, InputFileState.EXCLUDED, reason_of(action))
    if changes.avoid_sites:
        ban_sites(session, request_name, changes.avoid_sites, action)
    return True


def drop_work(session: Session, action: Action, asked: DropAction) -> Dropped:
    """What was dropped, by this action now or before.

    Raises RecordConflict for what cannot be dropped: files and work units that are unknown, under way or produced.
    """
    request_name = action.request_name or ""
    _lock(session, request_name)
    known = session.scalar(select(AuditRow.detail).where(AuditRow.action_id == action.action_id))
    if known is not None:
        return Dropped.model_validate(known["dropped"])
    dropped = _drop(session, request_name, asked, reason_of(action))
    detail = {**asked.given, "dropped": dropped.model_dump()}
    record_action(session, action.model_copy(update={"detail": detail}))
    return dropped


def check_files(session: Session, request_name: str, files: Sequence[str]) -> None:
    """Raises RecordConflict unless each is a file of the request's input that is not processed, excluded or dropped."""
    query = select(InputFileRow.lfn, InputFileRow.state).where(
        InputFileRow.request_no == request_number(session, request_name), InputFileRow.lfn.in_(list(files))
    )
    states = {row.lfn: row.state for row in session.execute(query)}
    for lfn in files:
        if lfn not in states:
            raise RecordConflict(f"{lfn} is no file of the input of {request_name} that is known yet")
        if states[lfn] not in (*_TO_BE_PLANNED, InputFileState.PLANNED):
            raise RecordConflict(f"{lfn} is {states[lfn]} already")


def reason_of(action: Action) -> str:
    """Never empty: the ledger wants a reason."""
    return f"{action.action} by {action.actor}" + (f": {action.reason}" if action.reason else "")


def _drop(session: Session, request_name: str, asked: DropAction, reason: str) -> Dropped:
    state = InputFileState.DROPPED
    if asked.files:
        return Dropped(files=_take_out(session, request_name, asked.files, state, reason))
    if asked.files_left:
        return Dropped(files=_take_out_where(session, request_name, state, reason, []))
    request, ledger = request_record(session, request_name).request, balance(session, request_name)
    if asked.events_left:
        return _drop_events(session, request_name, events_left(request, ledger))
    planned = _abandoned_events(session, request_name, asked.units)
    if request.is_simulation:
        return _drop_events(session, request_name, events_of_units(request, ledger, planned))
    own = [InputFileRow.work_unit.in_(asked.units)]
    return Dropped(files=_take_out_where(session, request_name, state, reason, own))


def _take_out(
    session: Session, request_name: str, files: Sequence[str], state: InputFileState, reason: str
) -> int:
    check_files(session, request_name, files)
    taken = _take_out_where(session, request_name, state, reason, [InputFileRow.lfn.in_(list(files))])
    if left := len(set(files)) - taken:
        raise RecordConflict(f"{left} of the files of {request_name} are planned in a round that is open")
    return taken


def _take_out_where(
    session: Session,
    request_name: str,
    state: InputFileState,
    reason: str,
    which: Sequence[ColumnElement[bool]],
) -> int:
    """How many files that could be planned are out now."""
    taken = session.scalars(
        update(InputFileRow)
        .where(
            InputFileRow.request_no == request_number(session, request_name),
            InputFileRow.state.in_(_TO_BE_PLANNED),
            *which,
        )
        .values(state=state, reason=reason)
        .returning(InputFileRow.id)
        .execution_options(synchronize_session=False)
    )
    return len(taken.all())


def _abandoned_events(session: Session, request_name: str, units: Sequence[int]) -> int:
    """The events that the units were planned with; only what was given up can be dropped."""
    query = select(WorkUnitRow.number, WorkUnitRow.status, WorkUnitRow.planned_events).where(
        WorkUnitRow.request_no == request_number(session, request_name), WorkUnitRow.number.in_(list(units))
    )
    found = {number: (status, events) for number, status, events in session.execute(query)}
    before = _dropped_units(session, request_name)
    for number in units:
        status = found[number][0] if number in found else "unknown"
        status = "dropped already" if number in before else status
        if status != WorkUnitStatus.ABANDONED:
            raise RecordConflict(
                f"work unit {unit_name(number)} of {request_name} is {status} and cannot be dropped"
            )
    return sum(events for _, events in found.values())


def _dropped_units(session: Session, request_name: str) -> set[int]:
    query = select(AuditRow.detail).where(
        AuditRow.request_name == request_name, AuditRow.action == ActionName.DROP
    )
    return {unit for detail in session.scalars(query) for unit in detail.get("units", [])}


def _drop_events(session: Session, request_name: str, events: int) -> Dropped:
    session.execute(
        update(WorkflowRow)
        .where(WorkflowRow.request_name == request_name)
        .values(dropped_events=WorkflowRow.dropped_events + events, updated_at=func.now())
        .execution_options(synchronize_session=False)
    )
    return Dropped(events=events)


def _lock(session: Session, request_name: str) -> None:
    """One at a time: an action that is told twice at once is done once."""
    session.execute(
        select(WorkflowRow.id).where(WorkflowRow.request_name == request_name).with_for_update()
    ).one()
