"""Where jobs may go: what operators say of a site, and what CRIC says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from wms2.models.site import Site, SiteStatus

ACTIVE = "ACTIVE"
_DISK = "_Disk"
_NOT_FOR_OUTPUTS = ("_Tape", "_Test", "_Temp", "_Buffer", "_Export", "_MSS")
_WORDS = {
    SiteStatus.DRAINING: "drained",
    SiteStatus.DISABLED: "disabled",
    SiteStatus.MAINTENANCE: "in maintenance",
}


def status_now(site: Site, now: datetime) -> SiteStatus:
    """The operators' word, as long as it holds: one whose time is over is as if the site had been enabled."""
    over = site.drain_until is not None and site.drain_until <= now
    return SiteStatus.ENABLED if over else site.status


def why_closed(site: Site, now: datetime) -> str | None:
    """Why no new work goes to a site, in words; None for one that is open.

    A site that CRIC never listed is open: the pool offers it, and nobody says otherwise.
    """
    status = status_now(site, now)
    if status is not SiteStatus.ENABLED:
        until = f" until {_minute(site.drain_until)}" if site.drain_until else ""
        why = f": {site.status_reason}" if site.status_reason else ""
        return f"{_WORDS[status]} by {site.status_by or 'an operator'}{until}{why}"
    if site.cric_gone_at is not None:
        return f"CRIC does not list it since {_minute(site.cric_gone_at)}"
    if site.cric_state not in (None, ACTIVE):
        return f"CRIC says that it is {site.cric_state}"
    return None


def output_storage(site: str, rses: Sequence[str]) -> str | None:
    """The storage where jobs of a site leave their outputs: its own disk, or the only one it reads; else unknown."""
    disks = [rse for rse in rses if not rse.endswith(_NOT_FOR_OUTPUTS)]
    own = [rse for rse in (f"{site}{_DISK}", site) if rse in disks]
    return own[0] if own else disks[0] if len(disks) == 1 else None


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
