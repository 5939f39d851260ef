"""Sites, bans and submit hosts."""

from uuid import UUID

from sqlalchemy import (
    ForeignKey,
    Index,
    String,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import (
    JsonObject,
    Moment,
    Now,
    RandomId,
    Table,
    Words,
    one_of,
)
from wms2.models.site import SiteStatus, SubmitHostStatus


class SiteRow(Table):
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


class SubmitHostRow(Table):
    __tablename__ = "submit_hosts"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    schedd_name: Mapped[str] = mapped_column(String(255))
    submit_root: Mapped[Words]
    max_dagmans: Mapped[int]
    status: Mapped[str] = mapped_column(String(50), server_default=text("'enabled'"))
    last_seen_at: Mapped[Moment | None]

    __table_args__ = (one_of("status", SubmitHostStatus),)
