"""The running side of requests: how far each is, and when it may end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import Field

from wms2.api.doorman import Requestor
from wms2.api.service import Inside
from wms2.api.words import Limit, Offset, next_offset, owner_of
from wms2.db.overview import request_progress
from wms2.db.workflows import list_workflows, workflow_by_id
from wms2.models.base import Count, Model
from wms2.models.dag import DagStatus, NodeRole
from wms2.models.output import OutputStatus
from wms2.models.overview import RequestProgress
from wms2.models.request import RequestStatus
from wms2.models.workflow import PilotMetrics, Workflow

router = APIRouter(prefix="/workflows", tags=["Workflows"])

WorkflowId = Annotated[UUID, Path(description="The workflow's id, as its request tells it.")]
_THERE = (OutputStatus.TRANSFERRED, OutputStatus.SOURCE_RELEASED, OutputStatus.ANNOUNCED)


class WorkflowPage(Model):
    workflows: list[Workflow]
    next: int | None = Field(description="the offset of the next page; null for the last one")


class DagInShort(Model):
    """The newest DAG of a request."""

    id: UUID
    dag_id: str
    status: DagStatus
    total_nodes: Count
    node_counts: dict[NodeRole, Count]
    nodes_idle: Count
    nodes_running: Count
    nodes_done: Count
    nodes_failed: Count
    nodes_held: Count


class OutputInShort(Model):
    dataset_name: str
    status: OutputStatus
    transfers_complete: bool


class WorkflowStatus(Model):
    workflow_id: UUID
    request_name: str
    status: RequestStatus
    pilot_metrics: PilotMetrics | None
    dag: DagInShort | None
    outputs: list[OutputInShort]
    progress_percent: float = Field(ge=0, le=100, description="events done of those asked for")
    estimated_completion: datetime | None = Field(
        description="if all goes on as it did; null when nobody can tell"
    )


@router.get("", summary="List workflows, newest first")
async def list_all(
    caller: Requestor,
    inside: Inside,
    status: Annotated[list[RequestStatus] | None, Query(description="Only these.")] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> WorkflowPage:
    found = await inside.read(list_workflows, status or (), limit, offset, owner_of(caller))
    return WorkflowPage(workflows=found, next=next_offset(len(found), limit, offset))


@router.get("/{workflow_id}", summary="Look at a workflow")
async def show(workflow_id: WorkflowId, caller: Requestor, inside: Inside) -> Workflow:
    found = await inside.read(workflow_by_id, workflow_id)
    await inside.check_sees(caller, found.request_name)
    return found


@router.get("/{workflow_id}/status", summary="How far a workflow is")
async def status(workflow_id: WorkflowId, caller: Requestor, inside: Inside) -> WorkflowStatus:
    found = await inside.read(workflow_by_id, workflow_id)
    await inside.check_sees(caller, found.request_name)
    progress = await inside.read(request_progress, found.request_name)
    return WorkflowStatus(
        workflow_id=workflow_id,
        request_name=found.request_name,
        status=progress.record.status,
        pilot_metrics=progress.pilot,
        dag=_dag(progress),
        outputs=[
            OutputInShort(
                dataset_name=output.dataset,
                status=output.status,
                transfers_complete=output.status in _THERE,
            )
            for output in progress.outputs
        ],
        progress_percent=_percent(progress),
        estimated_completion=_estimate(progress, datetime.now(UTC)),
    )


def _dag(progress: RequestProgress) -> DagInShort | None:
    if not progress.dags:
        return None
    dag = progress.dags[-1]
    return DagInShort(
        id=dag.id,
        dag_id=dag.intent.dag_id,
        status=dag.status,
        total_nodes=dag.intent.total_nodes,
        node_counts=dag.intent.node_counts,
        **{f"nodes_{name}": count for name, count in dag.nodes},
    )


def _percent(progress: RequestProgress) -> float:
    done, asked = progress.events
    return round(min(100.0, 100 * done / asked), 1) if asked > 0 else 0.0


def _estimate(progress: RequestProgress, now: datetime) -> datetime | None:
    """By the pace since the first round began."""
    done, asked = progress.events
    running = progress.record.status in (RequestStatus.PILOT_RUNNING, RequestStatus.ACTIVE)
    if not running or not progress.rounds or done <= 0 or done >= asked:
        return None
    began = progress.rounds[0].created_at
    seconds = (now - began).total_seconds() * (asked - done) / done
    return now + timedelta(seconds=min(seconds, 10 * 365 * 86400))
