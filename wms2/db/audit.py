"""The audit trail: it is only ever added to."""

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.core.plain import storable
from wms2.db.session import RecordConflict
from wms2.db.tables import AuditRow
from wms2.models.audit import Action, AuditEntry


def record_action(session: Session, action: Action) -> bool:
    """Whether the action is new; the same one again changes nothing."""
    action = Action.model_validate(storable(action.model_dump(mode="json")))
    inserted = session.execute(
        insert(AuditRow)
        .values(**action.model_dump(mode="json"))
        .on_conflict_do_nothing(index_elements=[AuditRow.action_id])
        .returning(AuditRow.id)
    ).one_or_none()
    if inserted is not None:
        return True
    known = session.scalars(select(AuditRow).where(AuditRow.action_id == action.action_id)).one()
    if _entry(known).action != action:
        raise _used_before(action.action_id)
    return False


def check_action_id(session: Session, action_id: str, action: str, detail: Mapping[str, str]) -> None:
    """Before something is done that can be recorded only then: that the id was not used for something else."""
    known = session.scalars(select(AuditRow).where(AuditRow.action_id == action_id)).one_or_none()
    if known is not None and (known.action, known.detail) != (action, dict(detail)):
        raise _used_before(action_id)


def audit_trail(
    session: Session, request_name: str | None = None, limit: int = 1000, offset: int = 0
) -> list[AuditEntry]:
    """What was done, newest first; to one request, or to all."""
    query = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit).offset(offset)
    if request_name is not None:
        query = query.where(AuditRow.request_name == request_name)
    return [_entry(row) for row in session.scalars(query)]


def newest_entry(session: Session, request_name: str, action: str) -> AuditEntry | None:
    """The last time that this was done to the request."""
    query = select(AuditRow).where(AuditRow.request_name == request_name, AuditRow.action == action)
    row = session.scalars(query.order_by(AuditRow.id.desc()).limit(1)).one_or_none()
    return None if row is None else _entry(row)


def _used_before(action_id: str) -> RecordConflict:
    return RecordConflict(f"the action id {action_id} was used for something else; take a new one")


def _entry(row: AuditRow) -> AuditEntry:
    action = Action.model_validate({name: getattr(row, name) for name in Action.model_fields})
    return AuditEntry(action=action, at=row.created_at)
