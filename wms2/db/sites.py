"""Sites as the database knows them: what CRIC says, and apart from that what operators say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import Select, func, select, update
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.orm import Session

from wms2.core.notices import SILENCE, silence_happening
from wms2.core.sites import output_storage, why_closed
from wms2.db.audit import record_action
from wms2.db.bans import banned_sites
from wms2.db.notices import queue
from wms2.db.tables import SiteRow
from wms2.models.audit import Action
from wms2.models.site import Cores, CricSite, Site, SiteStatus, SyncedSites


def site_rse(session: Session, site: str) -> str | None:
    """The name of the site's storage on disk, if it is known."""
    row = session.get(SiteRow, site)
    return None if row is None else row.storage_element


def take_sites(session: Session, listed: Sequence[CricSite], cores: Mapping[str, Cores]) -> SyncedSites:
    """Take over what CRIC lists; where it does not tell the cores of a site, those that the pool has.

    The operators' word is left as it is, also at sites that CRIC lists no more. Those keep their row, so that the word
    still holds when they are back.
    """
    before = {site.name: site for site in list_sites(session)}
    names = {site.name for site in listed}
    for site in sorted(listed, key=lambda site: site.name):
        session.execute(_upsert(site, cores.get(site.name)))
    gone = {name for name, site in before.items() if site.cric_seen_at and not site.cric_gone_at} - names
    session.execute(
        update(SiteRow).where(SiteRow.name.in_(gone)).values(cric_gone_at=func.now(), updated_at=func.now())
    )
    return SyncedSites(
        listed=len(names),
        new=tuple(sorted(name for name in names if name not in before or not before[name].cric_seen_at)),
        gone=tuple(sorted(gone)),
        back=tuple(sorted(name for name in names if name in before and before[name].cric_gone_at)),
    )


def set_site_status(
    session: Session, name: str, status: SiteStatus, until: datetime | None, by: Action
) -> Site:
    """An operator's word. It holds until its time is over, or until the next one; the same action has one effect."""
    said = {
        "status": status,
        "drain_until": until,
        "status_by": by.actor,
        "status_reason": by.reason or None,
        "status_at": func.now(),
        "updated_at": func.now(),
    }
    if record_action(session, by):
        statement = insert(SiteRow).values(name=name, **said)
        session.execute(statement.on_conflict_do_update(index_elements=[SiteRow.name], set_=said))
    return _site(session.scalars(_rows().where(SiteRow.name == name)).one())


def find_site(session: Session, name: str) -> Site | None:
    row = session.scalar(_rows().where(SiteRow.name == name))
    return None if row is None else _site(row)


def list_sites(session: Session) -> list[Site]:
    """All that CRIC ever listed, and those that people spoke of; by name."""
    return [_site(row) for row in session.scalars(_rows().order_by(SiteRow.name))]


def closed_sites(session: Session) -> dict[str, str]:
    """The sites that take no new work, each with the reason."""
    now = datetime.now(UTC)
    reasons = ((site.name, why_closed(site, now)) for site in list_sites(session))
    return {name: why for name, why in reasons if why is not None}


def avoided_sites(session: Session, request_name: str) -> dict[str, str]:
    """The sites that must not run a request now, each with the reason: the closed ones, and those it is banned from."""
    return closed_sites(session) | banned_sites(session, request_name)


def cric_answered_at(session: Session) -> datetime | None:
    """When CRIC last told of its sites."""
    return session.scalar(select(func.max(SiteRow.cric_seen_at)))


def report_silence(session: Session) -> str:
    """Tell the operators, once a day, when CRIC has been silent for longer than a day; what was told, if anything."""
    now, answered = datetime.now(UTC), cric_answered_at(session)
    if answered is not None and now - answered < SILENCE:
        return ""
    silence = silence_happening("CRIC", answered, now)
    queue(session, silence)
    return silence.words


def _rows() -> Select[SiteRow]:
    # What statements changed beside the session's back is read anew.
    return select(SiteRow).execution_options(populate_existing=True)


def _site(row: SiteRow) -> Site:
    return Site.model_validate({name: getattr(row, name) for name in Site.model_fields})


def _upsert(site: CricSite, cores: Cores | None) -> Insert:
    told: dict[str, object] = {
        "rses": list(site.rses),
        "storage_element": output_storage(site.name, site.rses),
        "cric_state": site.state,
        "cric_seen_at": func.now(),
        "cric_gone_at": None,
        "updated_at": func.now(),
    }
    if cores is not None:
        told |= {"total_slots": cores.total, "running_slots": cores.running}
    if site.slots is not None:
        told["total_slots"] = site.slots
    if site.thresholds:
        told["thresholds"] = dict(site.thresholds)
    statement = insert(SiteRow).values(name=site.name, **told)
    return statement.on_conflict_do_update(index_elements=[SiteRow.name], set_=told)
