"""How WMS2 itself is: alive or not, what it has to do, and who did what."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import Field
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from starlette.requests import Request as Call
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.service import RPCError

from wms2.api.doorman import Operator, Requestor
from wms2.api.service import Inside, Service
from wms2.api.words import Limit, Offset, OfRequest
from wms2.core.time_limits import limits_with
from wms2.db.audit import audit_trail
from wms2.db.bans import list_bans
from wms2.db.requests import requests_by_status
from wms2.db.sites import closed_sites
from wms2.door.asking import refusal
from wms2.errors import UserError
from wms2.models.audit import AuditEntry
from wms2.models.base import Count, Model
from wms2.models.request import RequestStatus
from wms2.temporal.queues import WORKFLOWS

open_router = APIRouter(tags=["Monitoring"])
router = APIRouter(tags=["Monitoring"])

HEALTH_HOLDS_SEC = 2.0
"""Strangers may ask for it: the servers are not asked more often than that."""
LOOK_SEC = 3.0

Part = Literal["ok", "silent"]


class Health(Model):
    status: Literal["ok", "degraded"]
    database: Part
    temporal: Part


class StatusInNumbers(Model):
    requests: Count
    oldest_since: datetime
    time_limit_sec: Count | None = Field(description="how long a request may be so before somebody is told")
    too_long: bool = Field(description="whether the oldest has been so for longer")


class Lifecycle(Model):
    """What looks after requests: the workers that run their workflows."""

    workers: Count = Field(description="workers that asked for workflow tasks in the last minutes")
    healthy: bool = Field(description="there is a worker")
    statuses: dict[RequestStatus, StatusInNumbers]


class SystemStatus(Model):
    version: str
    database: Part
    temporal: Part
    requests: dict[RequestStatus, Count]
    bans: Count
    closed_sites: Count


@dataclass
class HealthCheck:
    """The newest look at the servers: one for all who ask meanwhile."""

    seen: Health | None = None
    at: float = 0.0
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def look(self, inside: Service) -> Health:
        async with self._looking:
            if self.seen is None or time.monotonic() - self.at > HEALTH_HOLDS_SEC:
                database, temporal = await asyncio.gather(_database(inside), _temporal(inside))
                fine = database == temporal == "ok"
                self.seen = Health(status="ok" if fine else "degraded", database=database, temporal=temporal)
                self.at = time.monotonic()
            return self.seen


@open_router.get(
    "/health",
    summary="Whether the service and its servers answer",
    responses={503: {"model": Health, "description": "A server does not answer."}},
)
async def health(call: Call, response: Response, inside: Inside) -> Health:
    """Open to everybody, for those who watch over it."""
    seen: Health = await call.app.state.health.look(inside)
    response.status_code = 200 if seen.status == "ok" else 503
    return seen


@router.get("/status", summary="A summary of the whole system")
async def status(_: Operator, inside: Inside) -> SystemStatus:
    return SystemStatus(
        version=version("wms2"),
        database="ok",
        temporal=await _temporal(inside),
        requests={name: found.requests for name, found in (await inside.read(requests_by_status)).items()},
        bans=len(await inside.read(list_bans)),
        closed_sites=len(await inside.read(closed_sites)),
    )


@router.get("/lifecycle/status", summary="Whether requests are looked after, and which have waited too long")
async def lifecycle(_: Operator, inside: Inside) -> Lifecycle:
    workers = await _workers(inside)
    now, limits = datetime.now(UTC), limits_with(inside.settings.time_limits_hours)
    found = await inside.read(requests_by_status)
    return Lifecycle(
        workers=workers,
        healthy=workers > 0,
        statuses={
            name: StatusInNumbers(
                requests=one.requests,
                oldest_since=one.oldest_since,
                time_limit_sec=None if (limit := limits.get(name)) is None else int(limit.total_seconds()),
                too_long=limit is not None and now - one.oldest_since > limit,
            )
            for name, one in found.items()
        },
    )


@router.get("/audit", summary="Who did what, newest first")
async def audit(
    _: Operator, inside: Inside, request: OfRequest = None, limit: Limit = 100, offset: Offset = 0
) -> list[AuditEntry]:
    return await inside.read(audit_trail, request, limit, offset)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(call: Call, _: Requestor) -> dict[str, Any]:
    document: dict[str, Any] = call.app.openapi()
    return document


async def _database(inside: Service) -> Part:
    try:
        async with asyncio.timeout(LOOK_SEC):
            await inside.read(_answers)
    except (SQLAlchemyError, TimeoutError):
        return "silent"
    return "ok"


def _answers(session: Session) -> None:
    session.execute(text("SELECT 1"))


async def _temporal(inside: Service) -> Part:
    try:
        async with asyncio.timeout(LOOK_SEC):
            client = await inside.temporal()
            return "ok" if await client.service_client.check_health(retry=False) else "silent"
    except (RPCError, UserError, TimeoutError):
        return "silent"


async def _workers(inside: Service) -> int:
    client = await inside.temporal()
    try:
        async with asyncio.timeout(LOOK_SEC):
            described = await client.workflow_service.describe_task_queue(
                DescribeTaskQueueRequest(
                    namespace=client.namespace,
                    task_queue=TaskQueue(name=WORKFLOWS),
                    task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
                )
            )
    except RPCError as error:
        raise refusal(error, "a question about workers") from error
    return len(described.pollers)
