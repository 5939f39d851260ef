"""Sites that must not run a request's jobs, for a time. Names are compared whole."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.core.bans import BAN, USUAL, BanPolicy, SiteTally, is_for_all
from wms2.core.notices import ban_happening, ban_over_happening
from wms2.db.audit import record_action
from wms2.db.notices import queue
from wms2.db.requests import request_number
from wms2.db.tables import AuditRow, DagRow, NodeFailureRow, SiteBanRow, SiteRow, WorkflowRow
from wms2.errors import Contradiction, Missing
from wms2.models.audit import Action
from wms2.models.site import SiteBan

EXPIRY = "its time is over"
CAUSES_TOLD = 5


def ban_sites(session: Session, request_name: str, sites: Iterable[str], by: Action) -> None:
    """Keep a request away from sites; one that it is kept away from already is banned for longer."""
    for site in sorted(set(sites)):
        _insert(session, site, request_name, _words(by), {"action_id": by.action_id}, BAN)


def banned_sites(session: Session, request_name: str) -> dict[str, str]:
    """The sites that must not run it now, each with the reason; those that are banned for all are among them."""
    request_number(session, request_name)
    own = _workflow_of(request_name).scalar_subquery()
    query = (
        select(SiteBanRow.site_name, SiteBanRow.reason)
        .where(or_(SiteBanRow.workflow_id.is_(None), SiteBanRow.workflow_id == own), *_IN_FORCE)
        .order_by(SiteBanRow.created_at)
    )
    return {row.site_name: row.reason for row in session.execute(query)}


def ban_bad_site(
    session: Session, request_name: str, tally: SiteTally, dag_id: str, policy: BanPolicy = USUAL
) -> bool:
    """Whether the request is kept away from the site only now; told again, nothing changes."""
    workflow_id = session.scalars(_workflow_of(request_name)).one()
    if session.scalar(_active(tally.site, SiteBanRow.workflow_id == workflow_id)) is not None:
        return False
    found = {"dag_id": dag_id, "attempts": tally.attempts, "failures": tally.failures}
    causes = _causes(session, dag_id, tally.site)
    _insert(session, tally.site, request_name, str(tally), found, policy.length, causes)
    _audit(session, f"ban-{dag_id}-{tally.site}", "ban", request_name, str(tally), {"site": tally.site})
    return True


def promote_ban(session: Session, site: str, policy: BanPolicy = USUAL) -> bool:
    """Whether the site is banned for all only now, because so many requests are kept away from it."""
    # One at a time: two that count at once would both promote it.
    session.execute(select(SiteRow).where(SiteRow.name == site).with_for_update())
    if session.scalar(_active(site, SiteBanRow.workflow_id.is_(None))) is not None:
        return False
    requests = session.scalars(
        select(WorkflowRow.request_name)
        .join(SiteBanRow, SiteBanRow.workflow_id == WorkflowRow.id)
        .where(SiteBanRow.site_name == site, *_IN_FORCE)
        .distinct()
        .order_by(WorkflowRow.request_name)
    ).all()
    if not is_for_all(requests, policy):
        return False
    reason = f"{len(requests)} requests are kept away from it: {', '.join(requests[:5])}"
    ban = _insert(session, site, None, reason, {"requests": list(requests)}, policy.length)
    _audit(session, f"ban-{ban.id}", "ban", None, reason, {"site": site})
    return True


def ban_by_hand(session: Session, site: str, request_name: str | None, length: timedelta, by: Action) -> None:
    """A person's ban, for one request or for all; the same action again changes nothing."""
    if request_name is not None and session.scalar(_workflow_of(request_name)) is None:
        raise Missing(f"there is no request {request_name}; `wms2 request list` shows those that are")
    if record_action(session, by):
        _insert(session, site, request_name, _words(by), {"action_id": by.action_id}, length)


def lift_bans(session: Session, site: str, request_name: str | None, by: Action) -> int:
    """Lift the bans of a site: those of one request, or else all of them; how many there were.

    The same action again lifts none that were made since, and answers as before.
    """
    whose = (
        []
        if request_name is None
        else [SiteBanRow.workflow_id == _workflow_of(request_name).scalar_subquery()]
    )
    of_site = (SiteBanRow.site_name == site, *whose)
    if not record_action(session, by):
        # Within a transaction all that is done is done at one moment.
        then = select(AuditRow.created_at).where(AuditRow.action_id == by.action_id).scalar_subquery()
        lifted_then = select(SiteBanRow.id).where(*of_site, SiteBanRow.removed_at == then)
        return len(session.scalars(lifted_then).all())
    statement = (
        update(SiteBanRow)
        .where(*of_site, *_IN_FORCE)
        .values(removed_at=func.now(), removed_by=by.actor)
        .returning(SiteBanRow.id)
    )
    lifted = len(session.scalars(statement).all())
    if not lifted:
        raise Contradiction(f"{site} is not banned; `wms2 site bans` shows what is")
    queue(session, ban_over_happening(f"unban:{by.action_id}", site, request_name, _words(by)))
    return lifted


def expire_bans(session: Session) -> list[SiteBan]:
    """End the bans whose time is over, and leave a word of each in the audit trail."""
    over = (SiteBanRow.removed_at.is_(None), SiteBanRow.expires_at <= func.now())
    statement = (
        update(SiteBanRow)
        .where(*over)
        .values(removed_at=SiteBanRow.expires_at, removed_by=EXPIRY)
        .returning(SiteBanRow.id)
    )
    ended = _bans(session, SiteBanRow.id.in_(session.scalars(statement).all()))
    for ban in ended:
        _audit(session, f"expiry-{ban.id}", "unban", ban.request_name, EXPIRY, {"site": ban.site_name})
        queue(session, ban_over_happening(f"expiry:{ban.id}", ban.site_name, ban.request_name, EXPIRY))
    return ended


def list_bans(session: Session, *, ended: bool = False) -> list[SiteBan]:
    """The bans in force, newest first; with `ended` all there ever were."""
    return _bans(session, *(() if ended else _IN_FORCE))


def _bans(session: Session, *conditions: ColumnElement[bool]) -> list[SiteBan]:
    query = (
        select(SiteBanRow, WorkflowRow.request_name)
        .outerjoin(WorkflowRow, WorkflowRow.id == SiteBanRow.workflow_id)
        .where(*conditions)
        .order_by(SiteBanRow.created_at.desc(), SiteBanRow.site_name)
        .execution_options(populate_existing=True)
    )
    columns = SiteBan.model_fields.keys() - {"request_name"}
    return [
        SiteBan.model_validate({"request_name": name, **{column: getattr(row, column) for column in columns}})
        for row, name in session.execute(query)
    ]


_IN_FORCE = (SiteBanRow.removed_at.is_(None), SiteBanRow.expires_at > func.now())


def _words(by: Action) -> str:
    return f"by {by.actor}" + (f": {by.reason}" if by.reason else "")


def _active(site: str, whose: ColumnElement[bool]) -> Select[UUID]:
    return select(SiteBanRow.id).where(SiteBanRow.site_name == site, whose, *_IN_FORCE).limit(1)


def _workflow_of(request_name: str) -> Select[UUID]:
    return select(WorkflowRow.id).where(WorkflowRow.request_name == request_name)


def _causes(session: Session, dag_id: str, site: str) -> str:
    """What the nodes of a DAG that gave up at the site gave up over, the most frequent cause first."""
    nodes = func.count()
    query = (
        select(NodeFailureRow.category, NodeFailureRow.exit_code, func.min(NodeFailureRow.message), nodes)
        .join(DagRow, DagRow.id == NodeFailureRow.dag_id)
        .where(DagRow.dag_id == dag_id, NodeFailureRow.site == site)
        .group_by(NodeFailureRow.category, NodeFailureRow.exit_code)
        .order_by(nodes.desc(), NodeFailureRow.category, NodeFailureRow.exit_code)
        .limit(CAUSES_TOLD)
    )
    return "; ".join(
        f"{number} {category}{'' if code is None else f' ({code})'}: {message}"
        for category, code, message, number in session.execute(query)
    )


def _insert(
    session: Session,
    site: str,
    request_name: str | None,
    reason: str,
    found: dict[str, Any],
    length: timedelta,
    causes: str = "",
) -> SiteBanRow:
    """For one request, or for all; and the notices of it."""
    workflow_id = None if request_name is None else session.scalars(_workflow_of(request_name)).one()
    session.execute(insert(SiteRow).values(name=site).on_conflict_do_nothing(index_elements=[SiteRow.name]))
    ban = SiteBanRow(
        site_name=site,
        workflow_id=workflow_id,
        reason=reason,
        failure_data=found,
        expires_at=func.now() + length,
    )
    session.add(ban)
    session.flush()
    why = f"{reason}; {causes}" if causes else reason
    queue(session, ban_happening(f"ban:{ban.id}", site, request_name, ban.expires_at, why))
    return ban


def _audit(
    session: Session,
    action_id: str,
    action: str,
    request_name: str | None,
    reason: str,
    detail: dict[str, Any],
) -> None:
    entry = Action(
        action_id=action_id,
        actor="wms2",
        action=action,
        request_name=request_name,
        reason=reason,
        detail=detail,
    )
    record_action(session, entry)
