"""Submit hosts as the database knows them: what their workers announce, and apart from that what operators say.

All times are the database's own.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.core.hosts import is_cut_off, is_missed, is_vanished, ready_hosts, why_unused, with_schedds
from wms2.core.notices import cut_off_host_happening, host_record, silent_host_happening
from wms2.db.audit import record_action
from wms2.db.ledger import requests_on_host
from wms2.db.notices import queue
from wms2.db.tables import HostWordRow, SubmitHostRow
from wms2.models.audit import Action
from wms2.models.host import HostReport, HostSurvey, SubmitHost
from wms2.models.messages import HostList
from wms2.models.notice import Happening

_WORD = ("disabled", "lost_at", "said_by", "said_because", "said_at")


def announce_host(session: Session, report: HostReport, silence: timedelta) -> bool:
    """Whether it is news for admission that a worker serves this host: it was unused, or could carry another number."""
    before, now = find_host(session, report.host), database_time(session)
    said = {
        "schedd_name": report.schedd_name,
        "submit_root": report.submit_root,
        "max_dagmans": report.dagmans,
        "version": report.version,
        "last_seen_at": now,
        "silence_told_at": None,
        "left_at": None,
    }
    if before is not None and before.schedd_name != report.schedd_name:
        said["schedd_gone_at"] = None
    statement = insert(SubmitHostRow).values(name=report.host, first_seen_at=now, **said)
    session.execute(statement.on_conflict_do_update(index_elements=[SubmitHostRow.name], set_=said))
    if before is None or why_unused(before, now, silence) is not None:
        return True
    return before.max_dagmans != report.dagmans


def leave_host(session: Session, name: str) -> None:
    """Its worker stops: nothing more is lent there until the host is announced again, by the next one or another."""
    _update(session, name, left_at=database_time(session))


def survey_hosts(session: Session, schedds: Collection[str] | None, silence: timedelta) -> HostSurvey:
    """Hold the known hosts against the schedds that the collector knows; None while it does not answer.

    What it said before then holds. Hosts that nobody knows any more are removed, and operators are told of those that
    are silent, or whose schedd is not in the pool.
    """
    now, known = database_time(session), list_hosts(session)
    if schedds is not None:
        known = [with_schedds(host, schedds, now) for host in known]
        for host in known:
            _update(session, host.name, schedd_gone_at=host.schedd_gone_at)
    rounds = {host.name: len(requests_on_host(session, host.name)) for host in known}
    missed = [host for host in known if is_missed(host, now, silence)]
    for host in missed:
        queue(session, silent_host_happening(host, rounds[host.name]))
        _update(session, host.name, silence_told_at=now)
    cut_off = [
        host
        for host in known
        if is_cut_off(host, now, silence) and _is_news(session, cut_off_host_happening(host))
    ]
    removed = [host.name for host in known if is_vanished(host, rounds[host.name], now, silence)]
    session.execute(delete(SubmitHostRow).where(SubmitHostRow.name.in_(removed)))
    return HostSurvey(
        ready=tuple(sorted(ready_hosts(known, now, silence))),
        silent=tuple(host.name for host in missed),
        cut_off=tuple(host.name for host in cut_off),
        removed=tuple(removed),
    )


def host_list(session: Session, silence: timedelta) -> HostList:
    """The hosts that may be lent slots, as of now."""
    now = database_time(session)
    return HostList(at=now, dagmans=ready_hosts(list_hosts(session), now, silence))


def set_disabled(session: Session, name: str, disabled: bool, by: Action) -> None:
    """An operator's word, which holds until the next one; the same action again changes nothing.

    To enable a host takes back that it was given up.
    """
    _say(session, name, by, {"disabled": True} if disabled else {"disabled": False, "lost_at": None})


def give_up_host(session: Session, name: str, by: Action) -> None:
    """An operator's word that a host does not come back: it is used no more until its worker is heard of again."""
    _say(session, name, by, {"lost_at": func.now()})


def find_host(session: Session, name: str) -> SubmitHost | None:
    row = session.execute(_rows().where(SubmitHostRow.name == name)).one_or_none()
    return None if row is None else _host(*row)


def list_hosts(session: Session) -> list[SubmitHost]:
    """The hosts that are known, by name."""
    return [_host(*row) for row in session.execute(_rows().order_by(SubmitHostRow.name))]


def list_vanished(session: Session) -> list[str]:
    """Hosts that are not known, and that operators have disabled all the same."""
    known = select(SubmitHostRow.name)
    query = select(HostWordRow.name).where(HostWordRow.disabled, HostWordRow.name.not_in(known))
    return list(session.scalars(query.order_by(HostWordRow.name)))


def database_time(session: Session) -> datetime:
    """By which hosts are judged: the clocks of other machines may differ from it."""
    return session.scalars(select(func.now())).one()


def _is_news(session: Session, what: Happening) -> bool:
    """Whether operators are told of it only now."""
    queue(session, what)
    return record_action(session, host_record(what))


def _say(session: Session, name: str, by: Action, word: dict[str, object]) -> None:
    if not record_action(session, by):
        return
    said = {**word, "said_by": by.actor, "said_because": by.reason or None, "said_at": func.now()}
    statement = insert(HostWordRow).values(name=name, **said)
    session.execute(statement.on_conflict_do_update(index_elements=[HostWordRow.name], set_=said))


def _rows() -> Select[SubmitHostRow, HostWordRow]:
    # What statements changed beside the session's back is read anew.
    joined = select(SubmitHostRow, HostWordRow).outerjoin(HostWordRow, HostWordRow.name == SubmitHostRow.name)
    return joined.execution_options(populate_existing=True)


def _host(row: SubmitHostRow, word: HostWordRow | None) -> SubmitHost:
    said = {name: getattr(word, name) for name in _WORD} if word else {}
    own = SubmitHost.model_fields.keys() - set(_WORD)
    return SubmitHost.model_validate({**{name: getattr(row, name) for name in own}, **said})


def _update(session: Session, name: str, **values: datetime | None) -> None:
    session.execute(update(SubmitHostRow).where(SubmitHostRow.name == name).values(**values))
