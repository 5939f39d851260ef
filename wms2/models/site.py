"""Sites, the bans on them, and the hosts that submit to them."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from wms2.models.base import Count, Model
from wms2.patterns import RequestName, SiteName


class SiteStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"


class Site(Model):
    name: SiteName
    total_slots: Count
    running_slots: Count = 0
    pending_slots: Count = 0
    status: SiteStatus = SiteStatus.ENABLED
    drain_until: datetime | None = None
    thresholds: dict[str, int] = Field(default_factory=dict)
    schedd_name: str | None = None
    collector_host: str | None = None
    storage_element: str | None = None
    storage_path: str | None = None
    updated_at: datetime


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


class SubmitHostStatus(StrEnum):
    ENABLED = "enabled"
    DRAINING = "draining"
    LOST = "lost"


class SubmitHost(Model):
    """A host with a schedd and a folder for the DAGs; it runs at most `max_dagmans` DAGMan processes."""

    name: str
    schedd_name: str
    submit_root: str
    max_dagmans: Count
    status: SubmitHostStatus = SubmitHostStatus.ENABLED
    last_seen_at: datetime | None = None
