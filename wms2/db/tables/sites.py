"""Sites and bans."""

from uuid import UUID

from sqlalchemy import (
    ForeignKey,
    Index,
    String,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import (
    JsonList,
    JsonObject,
    Moment,
    Now,
    RandomId,
    Table,
    Words,
    one_of,
)
from wms2.models.site import SiteStatus


class SiteRow(Table):
    """`status`, `drain_until` and who said so are the operators' word; what CRIC says never changes them.

    A row stays when CRIC lists the site no more, and so does that word.
    """

    __tablename__ = "sites"

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    total_slots: Mapped[int | None]
    running_slots: Mapped[int] = mapped_column(server_default=text("0"))
    pending_slots: Mapped[int] = mapped_column(server_default=text("0"))
    status: Mapped[str] = mapped_column(String(50), server_default=text("'enabled'"))
    drain_until: Mapped[Moment | None]
    thresholds: Mapped[JsonObject]
    schedd_name: Mapped[str | None] = mapped_column(String(255))
    collector_host: Mapped[str | None] = mapped_column(String(255))
    storage_element: Mapped[str | None] = mapped_column(String(255))
    storage_path: Mapped[Words | None]
    config_data: Mapped[JsonObject]
    updated_at: Mapped[Now]
    status_by: Mapped[str | None] = mapped_column(String(200))
    status_reason: Mapped[Words | None]
    status_at: Mapped[Moment | None]
    rses: Mapped[JsonList]
    cric_state: Mapped[str | None] = mapped_column(String(50))
    cric_seen_at: Mapped[Moment | None]
    cric_gone_at: Mapped[Moment | None]

    __table_args__ = (one_of("status", SiteStatus),)


class SiteBanRow(Table):
    """Without a workflow the ban holds for all."""

    __tablename__ = "site_bans"

    id: Mapped[RandomId]
    site_name: Mapped[str] = mapped_column(ForeignKey("sites.name"))
    workflow_id: Mapped[UUID | None] = mapped_column(ForeignKey("workflows.id"))
    reason: Mapped[Words]
    failure_data: Mapped[JsonObject]
    created_at: Mapped[Now]
    expires_at: Mapped[Moment]
    removed_at: Mapped[Moment | None]
    removed_by: Mapped[str | None] = mapped_column(String(200))

    __table_args__ = (
        Index("idx_site_bans_active", "site_name", "expires_at", postgresql_where=text("removed_at IS NULL")),
        Index(
            "idx_site_bans_workflow",
            "workflow_id",
            postgresql_where=text("workflow_id IS NOT NULL AND removed_at IS NULL"),
        ),
    )
