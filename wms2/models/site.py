"""Sites, the bans on them, and the hosts that submit to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import Field

from wms2.models.base import Count, Model
from wms2.patterns import RequestName, SiteName


class SiteStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True)
class CricSite:
    """A site where jobs run, and the storage that they read, as CRIC has it."""

    name: str
    rses: tuple[str, ...]
    state: str
    tier: int
    slots: int | None = None
    """How many cores it offers, where CRIC says so."""
    thresholds: Mapping[str, int] = field(default_factory=dict)
    """Limits of the site by their name, where CRIC tells of some."""


class Cores(NamedTuple):
    """The cores of a site in the pool, and how many of them run jobs."""

    total: int
    running: int


class Site(Model):
    """A site, with what operators say of it apart from what CRIC says."""

    name: SiteName
    status: SiteStatus = SiteStatus.ENABLED
    """The operators' word; it holds whatever CRIC says."""
    drain_until: datetime | None = None
    """When their word ends by itself; None while it holds until another one."""
    status_by: str | None = None
    status_reason: str | None = None
    status_at: datetime | None = None
    cric_state: str | None = None
    """The last that CRIC said; None for a site that it never listed."""
    cric_seen_at: datetime | None = None
    cric_gone_at: datetime | None = None
    """Since when CRIC does not list it any more."""
    rses: tuple[str, ...] = ()
    storage_element: str | None = None
    """The storage where its jobs leave their outputs; None where that is not certain."""
    total_slots: Count | None = None
    running_slots: Count = 0
    thresholds: dict[str, int] = Field(default_factory=dict)
    """The last that CRIC said, for people to see: how much a site takes is the pool's business."""
    updated_at: datetime


class SyncedSites(Model):
    """What there was to learn from CRIC."""

    listed: Count
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    back: tuple[str, ...] = ()

    def __str__(self) -> str:
        changes = [(self.new, "new"), (self.gone, "gone"), (self.back, "back")]
        told = [f"{word}: {', '.join(names)}" for names, word in changes if names]
        return "; ".join([f"CRIC lists {self.listed} sites", *told])


class SiteBan(Model):
    """A site that must not run one request's jobs, or, without a request, anybody's."""

    id: UUID
    site_name: SiteName
    request_name: RequestName | None
    reason: str
    failure_data: dict[str, Any]
    created_at: datetime
    expires_at: datetime
    removed_at: datetime | None = None
    removed_by: str | None = None
