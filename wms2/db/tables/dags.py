"""DAGs and what happened to them."""

from typing import Any
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import (
    Counter,
    JsonObject,
    Moment,
    Now,
    Number,
    RandomId,
    SerialId,
    Table,
    Words,
    one_of,
)
from wms2.models.dag import DagStatus


class DagRow(Table):
    """One submission of a round's DAG. The row comes first, then the submission."""

    __tablename__ = "dags"

    id: Mapped[RandomId]
    dag_id: Mapped[str] = mapped_column(String(300), unique=True)
    workflow_id: Mapped[UUID] = mapped_column(ForeignKey("workflows.id"))
    request_no: Mapped[Number]
    round: Mapped[int]
    attempt: Mapped[int]
    dag_file_path: Mapped[Words]
    submit_dir: Mapped[Words]
    rescue_dag_path: Mapped[Words | None]
    dagman_cluster_id: Mapped[Number | None]
    schedd_name: Mapped[str | None] = mapped_column(String(255))
    parent_dag_id: Mapped[UUID | None] = mapped_column(ForeignKey("dags.id"))
    stop_requested_at: Mapped[Moment | None]
    stop_reason: Mapped[Words | None]
    total_nodes: Mapped[Number]
    total_edges: Mapped[Counter]
    node_counts: Mapped[JsonObject]
    nodes_idle: Mapped[Counter]
    nodes_running: Mapped[Counter]
    nodes_done: Mapped[Counter]
    nodes_failed: Mapped[Counter]
    nodes_held: Mapped[Counter]
    status: Mapped[str] = mapped_column(String(50), server_default=text("'ready'"))
    intent_at: Mapped[Now]
    submitted_at: Mapped[Moment | None]
    completed_at: Mapped[Moment | None]
    failures: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))

    __table_args__ = (
        ForeignKeyConstraint(["request_no", "round"], ["rounds.request_no", "rounds.number"]),
        UniqueConstraint("request_no", "round", "attempt"),
        one_of("status", DagStatus),
        CheckConstraint(
            "num_nulls(dagman_cluster_id, schedd_name, submitted_at) IN (0, 3)", name="submitted"
        ),
        Index("idx_dags_workflow", "workflow_id"),
        Index("idx_dags_status", "status"),
        Index("idx_dags_schedd", "schedd_name", postgresql_where=text("dagman_cluster_id IS NOT NULL")),
        Index("idx_dags_parent", "parent_dag_id", postgresql_where=text("parent_dag_id IS NOT NULL")),
    )


class DagHistoryRow(Table):
    __tablename__ = "dag_history"

    id: Mapped[SerialId]
    dag_id: Mapped[UUID] = mapped_column(ForeignKey("dags.id"))
    event_type: Mapped[str] = mapped_column(String(50))
    from_status: Mapped[str | None] = mapped_column(String(50))
    to_status: Mapped[str | None] = mapped_column(String(50))
    nodes_idle: Mapped[Counter]
    nodes_running: Mapped[Counter]
    nodes_done: Mapped[Counter]
    nodes_failed: Mapped[Counter]
    nodes_held: Mapped[Counter]
    detail: Mapped[JsonObject]
    created_at: Mapped[Now]

    __table_args__ = (Index("idx_dag_history_dag", "dag_id"),)
