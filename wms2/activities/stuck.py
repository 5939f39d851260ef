"""Workflows that cannot go on and cannot say so: it is their own code that fails, and their alarms with it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.core.notices import stuck_happening
from wms2.core.time_limits import unattended_step
from wms2.db.notices import queue, queue_alert
from wms2.db.requests import unattended_requests
from wms2.models.messages import Alert
from wms2.models.request import RequestStatus
from wms2.temporal.ids import request_of

log = logging.getLogger(__name__)

STUMBLING = "ExecutionStatus = 'Running' AND TemporalReportedProblems IN ({})".format(
    ", ".join(f"'category=WorkflowTask{how}'" for how in ("Failed", "TimedOut"))
)
"""Temporal says so of a workflow whose last tasks all failed or were not answered in time; one that is done ends it."""
FAILS = "its code fails again and again, or takes too long: the worker's log says where"


class Stuck(DatabaseActivities):
    """Tells of them from outside."""

    def __init__(self, engine: Engine, client: Client, limits: Mapping[RequestStatus, timedelta]) -> None:
        super().__init__(engine)
        self._client = client
        self._limits = limits

    async def report(self) -> None:
        for workflow_id in await self._stumbling():
            name = request_of(workflow_id)
            if name is None:
                await self._report_of_all(workflow_id)
            else:
                message = f"cannot go on, {workflow_id} is stuck: {FAILS}"
                await self._report(Alert(request=name, kind="stuck_workflow", message=message))
        for standing in await self.record(unattended_requests, self._limits):
            step = unattended_step(standing)
            await self._report(Alert(request=standing.request_name, kind=step.alert, message=step.words))

    async def _stumbling(self) -> list[str]:
        try:
            return [found.id async for found in self._client.list_workflows(STUMBLING)]
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            # A server before 1.30 does not know of it; then the time limits alone tell.
            log.info("Temporal does not say which workflows fail: %s", error)
            return []

    async def _report(self, alert: Alert) -> None:
        sound(alert.kind, alert.request, alert.message)
        await self.record(queue_alert, alert)

    async def _report_of_all(self, workflow_id: str) -> None:
        """Of a workflow that serves all requests."""
        sound("stuck_workflow", workflow_id, FAILS)
        await self.record(queue, stuck_happening(workflow_id, FAILS, datetime.now(UTC)))
