"""Requests, their running side, and who did what to them."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Identity,
    Index,
    String,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import (
    Counter,
    JsonList,
    JsonObject,
    No,
    Now,
    Number,
    RandomId,
    SerialId,
    Table,
    Words,
    one_of,
)
from wms2.models.request import CleanupPolicy, RequestStatus
from wms2.models.splitting import SplittingAlgo


class RequestRow(Table):
    """What was asked is request_data, payload_config and splitting_params together; priority is today's."""

    __tablename__ = "requests"

    id: Mapped[RandomId]
    request_no: Mapped[int] = mapped_column(BigInteger, Identity(always=True), unique=True)
    request_name: Mapped[str] = mapped_column(String(255), unique=True)
    requestor: Mapped[str] = mapped_column(String(200))
    requestor_dn: Mapped[str | None] = mapped_column(String(500))
    request_data: Mapped[JsonObject]
    payload_config: Mapped[JsonObject]
    splitting_params: Mapped[JsonObject]
    input_dataset: Mapped[str | None] = mapped_column(String(500))
    campaign: Mapped[str] = mapped_column(String(200))
    priority: Mapped[int] = mapped_column(server_default=text("100000"))
    urgent: Mapped[No]
    status: Mapped[str] = mapped_column(String(50), server_default=text("'new'"))
    status_sequence: Mapped[Counter]
    status_reason: Mapped[Words] = mapped_column(server_default=text("''"))
    status_transitions: Mapped[JsonList]
    previous_version_request: Mapped[str | None] = mapped_column(ForeignKey("requests.request_name"))
    superseded_by_request: Mapped[str | None] = mapped_column(String(255))
    cleanup_policy: Mapped[str] = mapped_column(String(50), server_default=text("'keep_until_replaced'"))
    created_at: Mapped[Now]
    updated_at: Mapped[Now]

    __table_args__ = (
        one_of("status", RequestStatus),
        one_of("cleanup_policy", CleanupPolicy),
        Index("idx_requests_status", "status"),
        Index("idx_requests_campaign", "campaign"),
        Index("idx_requests_priority", "priority"),
        Index(
            "idx_requests_non_terminal",
            "status",
            postgresql_where=text("status NOT IN ('completed', 'failed', 'aborted')"),
        ),
        Index(
            "idx_requests_version_link",
            "previous_version_request",
            postgresql_where=text("previous_version_request IS NOT NULL"),
        ),
    )


class WorkflowRow(Table):
    """The running side of a request; splitting_params are those in use, which measurements change."""

    __tablename__ = "workflows"

    id: Mapped[RandomId]
    request_name: Mapped[str] = mapped_column(ForeignKey("requests.request_name"))
    input_dataset: Mapped[str | None] = mapped_column(String(500))
    splitting_algo: Mapped[str] = mapped_column(String(50))
    splitting_params: Mapped[JsonObject]
    sandbox_url: Mapped[Words | None]
    config_data: Mapped[JsonObject]
    pilot_metrics: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    next_first_event: Mapped[Number] = mapped_column(server_default=text("1"))
    dropped_events: Mapped[Counter]
    category_throttles: Mapped[JsonObject]
    total_nodes: Mapped[Counter]
    nodes_done: Mapped[Counter]
    nodes_failed: Mapped[Counter]
    nodes_queued: Mapped[Counter]
    nodes_running: Mapped[Counter]
    status: Mapped[str] = mapped_column(String(50), server_default=text("'new'"))
    created_at: Mapped[Now]
    updated_at: Mapped[Now]

    __table_args__ = (
        one_of("status", RequestStatus),
        one_of("splitting_algo", SplittingAlgo),
        Index("idx_workflows_request", "request_name", unique=True),
        Index("idx_workflows_status", "status"),
    )


class AuditRow(Table):
    """Who did what and why. It keeps names instead of references, so that it outlives what it tells of."""

    __tablename__ = "audit_trail"

    id: Mapped[SerialId]
    action_id: Mapped[str] = mapped_column(String(200), unique=True)
    actor: Mapped[str] = mapped_column(String(200))
    action: Mapped[str] = mapped_column(String(100))
    request_name: Mapped[str | None] = mapped_column(String(255))
    reason: Mapped[Words]
    detail: Mapped[JsonObject]
    created_at: Mapped[Now]

    __table_args__ = (
        Index("idx_audit_trail_request", "request_name", "created_at"),
        Index("idx_audit_trail_created", "created_at"),
    )
