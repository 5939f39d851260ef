"""Since when a service is asked in vain. What CRIC said says that by itself: see `sites`."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.core.notices import SILENCE, silence_happening
from wms2.db.notices import queue
from wms2.db.tables import SilenceRow
from wms2.models.messages import InVain


def end_silence(session: Session, asked: str) -> None:
    session.execute(delete(SilenceRow).where(SilenceRow.asked == asked))


def report_in_vain(session: Session, vain: InVain) -> str:
    """Tell the operators, once a day, when it has been so for longer than a day; what was told, if anything."""
    session.execute(insert(SilenceRow).values(asked=vain.asked).on_conflict_do_nothing())
    now, since = datetime.now(UTC), session.get_one(SilenceRow, vain.asked).since
    if now - since < SILENCE:
        return ""
    silence = silence_happening(vain.service, since, now, meanwhile=f"{vain.asked} fails: {vain.problem}")
    queue(session, silence)
    return silence.words
