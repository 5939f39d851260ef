"""The outbox of notices. What is told of is recorded in the transaction of what happened, and sent later."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import Engine, case, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.core.notices import (
    LONGEST_NAME,
    LONGEST_WORDS,
    MOST_NOTICES,
    WHAT_TO_DO,
    alert_happening,
    alert_record,
    digest_of,
    pause_after,
)
from wms2.core.plain import plain_line
from wms2.db.audit import record_action
from wms2.db.tables import DigestRow, NoticeRow, RequestRow
from wms2.models.contacts import Contacts
from wms2.models.messages import Alert
from wms2.models.notice import Audience, Digest, DigestState, Happening, Notice, NoticeRecord, NoticeState

MOST_DIGESTS = 50
"""How many are sent in one run; what is more waits for the next one."""
_CONTACTS = "wms2_contacts"
_OPEN = DigestRow.state == DigestState.SENDING


def telling(engine: Engine, contacts: Contacts | None) -> Engine:
    """The same connections; what is recorded through them is told to these contacts. Without any, to nobody."""
    return engine if contacts is None else engine.execution_options(**{_CONTACTS: contacts})


def queue(session: Session, what: Happening) -> None:
    """Leave a notice for everybody who is to hear of it; the same happening again changes nothing."""
    contacts: Contacts | None = session.get_bind().get_execution_options().get(_CONTACTS)
    if contacts is None:
        return
    told: dict[str, Audience] = {}
    for audience in WHAT_TO_DO[what.reason]:
        if contacts.hears(audience, what.reason):
            for address in _addresses(session, contacts, audience, what):
                told.setdefault(address, audience)
    if told:
        common = {
            "key": what.key,
            "reason": what.reason,
            "about": plain_line(what.about, LONGEST_NAME),
            "words": plain_line(what.words, LONGEST_WORDS),
        }
        rows = [{**common, "audience": told[address], "address": address} for address in sorted(told)]
        unknown = [NoticeRow.key, NoticeRow.address]
        session.execute(insert(NoticeRow).values(rows).on_conflict_do_nothing(index_elements=unknown))


def queue_alert(session: Session, alert: Alert) -> None:
    """Record an alert, whoever hears of it, and leave a notice of it; the same one is told once a day."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    record_action(session, alert_record(alert, day))
    queue(session, alert_happening(alert, day))


def claim_digests(session: Session) -> list[UUID]:
    """Put what waits into digests, one for each address, and name those that are due, the most overdue first.

    An address whose last digest is not sent yet gets no other: what is new for it waits. Once this is committed a
    digest never changes, whoever sends it and however often.
    """
    is_open = exists().where(DigestRow.address == NoticeRow.address, _OPEN)
    waiting = select(NoticeRow.address).where(NoticeRow.digest_id.is_(None), ~is_open).distinct()
    for address in session.scalars(waiting.order_by(NoticeRow.address)).all():
        _claim(session, address)
    due = select(DigestRow.id).where(_OPEN, DigestRow.due_at <= func.now())
    return list(session.scalars(due.order_by(DigestRow.due_at, DigestRow.id).limit(MOST_DIGESTS)))


def open_digest(session: Session, digest_id: UUID) -> Digest | None:
    """The digest, unless it is sent or given up already."""
    row = session.scalar(select(DigestRow).where(DigestRow.id == digest_id, _OPEN))
    if row is None:
        return None
    return Digest(id=row.id, address=row.address, subject=row.subject, body=row.body, at=row.created_at)


def mark_sent(session: Session, digest_id: UUID) -> DigestState:
    """Said again, it changes nothing."""
    session.execute(
        update(DigestRow)
        .where(DigestRow.id == digest_id, _OPEN)
        .values(state=DigestState.SENT, tries=DigestRow.tries + 1, error="", sent_at=func.now())
        .execution_options(synchronize_session=False)
    )
    return DigestState.SENT


def mark_failed(
    session: Session, digest_id: UUID, error: str, most_tries: int, between_runs: timedelta
) -> DigestState:
    """It rests, each time for longer, and is given up after so many tries."""
    row = session.scalars(select(DigestRow).where(DigestRow.id == digest_id).with_for_update()).one()
    if row.state == DigestState.SENDING:
        row.tries += 1
        row.error = plain_line(error, LONGEST_WORDS)
        row.due_at = func.now() + pause_after(row.tries - 1, between_runs)
        row.state = DigestState.GIVEN_UP if row.tries >= most_tries else DigestState.SENDING
        session.flush()
    return DigestState(row.state)


def list_notices(
    session: Session, states: Collection[NoticeState] = (), limit: int = 1000
) -> list[NoticeRecord]:
    """What people were told and will be told, newest first; all states unless some are named."""
    state = case((NoticeRow.digest_id.is_(None), NoticeState.WAITING), else_=DigestRow.state)
    query = select(NoticeRow, DigestRow, state).outerjoin(DigestRow, DigestRow.id == NoticeRow.digest_id)
    if states:
        query = query.where(state.in_(states))
    rows = session.execute(query.order_by(NoticeRow.id.desc()).limit(limit))
    return [_record(notice, digest, NoticeState(state)) for notice, digest, state in rows]


def _addresses(session: Session, contacts: Contacts, audience: Audience, what: Happening) -> Iterator[str]:
    if audience is Audience.OPERATORS:
        yield from contacts.operators
    elif audience is Audience.SITE:
        yield from contacts.sites.get(what.site or "", ())
    elif what.request is not None:
        named = RequestRow.request_data["notify"]
        query = select(RequestRow.requestor, named).where(RequestRow.request_name == what.request)
        requestor, notify = session.execute(query).one()
        yield from contacts.requestors.get(requestor, ()) if notify is None else notify


def _claim(session: Session, address: str) -> None:
    query = select(NoticeRow).where(NoticeRow.address == address, NoticeRow.digest_id.is_(None))
    rows = session.scalars(query.order_by(NoticeRow.id).limit(MOST_NOTICES).with_for_update()).all()
    if not rows:
        return
    digest = digest_of(address, [_notice(row) for row in rows], session.scalars(select(func.now())).one())
    inserted = session.scalar(
        insert(DigestRow)
        .values(id=digest.id, address=address, subject=digest.subject, body=digest.body, created_at=digest.at)
        # Another one that claims at the same moment was quicker.
        .on_conflict_do_nothing()
        .returning(DigestRow.id)
    )
    if inserted is not None:
        for row in rows:
            row.digest_id = inserted
        session.flush()


def _notice(row: NoticeRow) -> Notice:
    names = Notice.model_fields.keys() - {"at"}
    return Notice.model_validate({"at": row.created_at, **{name: getattr(row, name) for name in names}})


def _record(notice: NoticeRow, digest: DigestRow | None, state: NoticeState) -> NoticeRecord:
    common = {name: getattr(notice, name) for name in ("audience", "address", "reason", "about", "words")}
    record = NoticeRecord.model_validate({"at": notice.created_at, "state": state, **common})
    if digest is None:
        return record
    sending = state is NoticeState.SENDING
    return record.model_copy(
        update={
            "digest_id": digest.id,
            "tries": digest.tries,
            "next_try_at": digest.due_at if sending else None,
            "sent_at": digest.sent_at,
            "error": digest.error,
        }
    )
