"""DAGs: what is handed to condor_submit_dag, and what became of it. Single jobs belong to DAGMan."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from wms2.models.base import Count, Model, PositiveCount
from wms2.patterns import DAG_ID, RequestName


class DagStatus(StrEnum):
    PLANNING = "planning"
    READY = "ready"
    SUBMITTED = "submitted"
    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    REMOVED = "removed"
    HALTED = "halted"
    STOPPED = "stopped"

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = (
    DagStatus.COMPLETED,
    DagStatus.PARTIAL,
    DagStatus.FAILED,
    DagStatus.REMOVED,
    DagStatus.STOPPED,
)


class NodeRole(StrEnum):
    LANDING = "Landing"
    PROCESSING = "Processing"
    MERGE = "Merge"
    CLEANUP = "Cleanup"


class NodeCounts(Model):
    """How the nodes of a DAG stand."""

    idle: Count = 0
    running: Count = 0
    done: Count = 0
    failed: Count = 0
    held: Count = 0


# The tag that DAGMan's job carries as WMS2_DagId.
DagId = Annotated[str, Field(pattern=f"^{DAG_ID.pattern}$")]


class DagIntent(Model):
    """A DAG that is about to be submitted; recorded first, so that it is never submitted twice."""

    dag_id: DagId
    request_name: RequestName
    round: Count
    attempt: PositiveCount
    dag_file_path: str
    submit_dir: str
    total_nodes: Count
    total_edges: Count = 0
    node_counts: dict[NodeRole, Count] = Field(default_factory=dict)
    parent_dag_id: DagId | None = None


class DAG(Model):
    """One submission of a round's DAG: the first, or one of its rescues."""

    id: UUID
    intent: DagIntent
    submit_host: str | None
    """That of its round; None for one that was planned by hand."""
    rescue_dag_path: str | None
    dagman_cluster_id: PositiveCount | None
    schedd_name: str | None
    stop_requested_at: datetime | None
    stop_reason: str | None
    nodes: NodeCounts
    status: DagStatus
    intent_at: datetime
    submitted_at: datetime | None
    completed_at: datetime | None


class DagHistory(Model):
    """One thing that happened to a DAG."""

    dag_id: DagId
    event_type: str
    from_status: DagStatus | None
    to_status: DagStatus | None
    nodes: NodeCounts
    detail: dict[str, Any]
    created_at: datetime


class DagDetails(Model):
    dag: DAG
    history: list[DagHistory] = Field(description="what happened to it, in order")
