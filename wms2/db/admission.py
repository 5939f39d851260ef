"""What admission must not forget, should its workflow be lost: the operators' word, and the slots that rounds have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.core.admission import REMEMBERED_ACTIONS, AdmissionState, remember
from wms2.db.audit import record_action
from wms2.db.requests import request_number
from wms2.db.tables import AdmissionWordRow, AuditRow, RequestRow, RoundRow, SlotRow
from wms2.models.audit import Action
from wms2.models.messages import Slot
from wms2.models.request import RequestStatus

WORDS = ("admission_set", "admission_drain", "admission_resume")
_WITH_A_SLOT = (
    # While its pilot is planned, and while a round that was stopped is submitted again, a request is QUEUED still.
    RequestStatus.QUEUED,
    RequestStatus.PLANNING,
    RequestStatus.PILOT_RUNNING,
    RequestStatus.ACTIVE,
    RequestStatus.PARTIAL,
    RequestStatus.STOPPING,
)


def record_word(session: Session, by: Action) -> bool:
    """Whether an operator's word is new. It holds until the next one, and its record comes with it."""
    if not record_action(session, by):
        return False
    given = {"slot_limit": by.detail.get("limit"), "idle_budget": by.detail.get("idle_budget")}
    word: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if by.action != "admission_set":
        word["draining"] = by.action == "admission_drain"
    said = {**word, "said_by": by.actor, "said_because": by.reason or None, "said_at": func.now()}
    statement = insert(AdmissionWordRow).values(**said)
    session.execute(statement.on_conflict_do_update(index_elements=[AdmissionWordRow.id], set_=said))
    return True


def record_slot(
    session: Session, request_name: str, round_number: int, idle_jobs: int | None, host: str | None = None
) -> None:
    """That a request has a slot for this round; without a host, on the one that the round is planned on.

    A round that was planned by hand is on no host, and has no slot.
    """
    number = request_number(session, request_name)
    if host is None:
        planned_on = select(RoundRow.submit_host).where(
            RoundRow.request_no == number, RoundRow.number == round_number
        )
        host = session.scalars(planned_on).one()
    if host is None:
        return
    taken = {"round": round_number, "host": host, "idle_jobs": idle_jobs}
    statement = insert(SlotRow).values(request_no=number, **taken)
    session.execute(statement.on_conflict_do_update(index_elements=[SlotRow.request_no], set_=taken))


def record_slots(session: Session, slots: Sequence[Slot]) -> None:
    """That these requests have a slot each. One that the record does not know could not use it."""
    numbers = select(RequestRow.request_name, RequestRow.request_no).where(
        RequestRow.request_name.in_([slot.request for slot in slots])
    )
    known = dict(session.execute(numbers).tuples().all())
    rows = [
        {"request_no": known[slot.request], **slot.model_dump(include={"round", "host", "idle_jobs"})}
        for slot in slots
        if slot.request in known
    ]
    if rows:
        statement = insert(SlotRow).values(rows)
        taken = {name: statement.excluded[name] for name in ("round", "host", "idle_jobs")}
        session.execute(statement.on_conflict_do_update(index_elements=[SlotRow.request_no], set_=taken))


def strike_slots(session: Session, request_names: Collection[str]) -> None:
    """That these requests have no slot any more."""
    numbers = select(RequestRow.request_no).where(RequestRow.request_name.in_(request_names))
    session.execute(delete(SlotRow).where(SlotRow.request_no.in_(numbers)))


def lent_slots(session: Session) -> list[Slot]:
    """The slots that requests have. Each is older than whatever its request says of the round to admission itself."""
    query = (
        select(RequestRow.request_name, SlotRow.round, SlotRow.host, SlotRow.idle_jobs)
        .join(RequestRow, RequestRow.request_no == SlotRow.request_no)
        .where(RequestRow.status.in_(_WITH_A_SLOT))
    )
    return [
        Slot(request=name, round=round_number, host=host, idle_jobs=idle_jobs)
        for name, round_number, host, idle_jobs in session.execute(query.order_by(RequestRow.request_no))
    ]


def remembered_admission(session: Session) -> AdmissionState:
    """What admission knows when it begins anew."""
    row = session.scalars(select(AdmissionWordRow).execution_options(populate_existing=True)).one_or_none()
    words = (
        {}
        if row is None
        else {"limit": row.slot_limit, "idle_budget": row.idle_budget, "draining": row.draining}
    )
    handled = select(AuditRow.action_id).where(AuditRow.action.in_(WORDS)).order_by(AuditRow.id.desc())
    state = AdmissionState(
        **{name: word for name, word in words.items() if word is not None},
        handled_actions=tuple(reversed(session.scalars(handled.limit(REMEMBERED_ACTIONS)).all())),
    )
    return remember(state, lent_slots(session))
