"""Holding the record of requests against the workflows that live."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Engine
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError

from wms2.activities.admission import signal_admission
from wms2.activities.alerts import sound
from wms2.activities.callbacks import Callbacks
from wms2.activities.database import DatabaseActivities
from wms2.activities.lending import Lending
from wms2.activities.stuck import Stuck
from wms2.core.time_limits import TIME_LIMITS
from wms2.db.admission import remembered_admission
from wms2.db.bans import expire_bans
from wms2.db.notices import queue_alert
from wms2.db.requests import request_record, unended_requests
from wms2.models.messages import Alert
from wms2.models.reconciliation import Reconciled
from wms2.models.request import RequestRecord, RequestStatus
from wms2.temporal.ids import request_id
from wms2.temporal.launch import living_requests, request_lives, revival, start_request

log = logging.getLogger(__name__)

SUBMITTING = timedelta(minutes=1)
"""Whoever submits a request writes its record first; for this long its workflow may still be on its way."""


class ReconciliationActivities(DatabaseActivities):
    def __init__(
        self, engine: Engine, client: Client, limits: Mapping[RequestStatus, timedelta] = TIME_LIMITS
    ) -> None:
        super().__init__(engine)
        self._client = client
        self._limits = limits

    @activity.defn
    async def reconcile_requests(self) -> Reconciled:
        """Start requests that were recorded and never started, and report those whose workflow is gone.

        Of what those had of admission others wait for, so it is told at once. Requests that wait for a word of another
        workflow which was said already hear it again, and admission hears of slots that it does not know of.
        Of workflows that cannot go on people are told.
        """
        living = await living_requests(self._client)
        started, lost = [], []
        await Callbacks(self._engine, self._client).repeat(datetime.now(UTC) - SUBMITTING)
        for name in await self.record(unended_requests, datetime.now(UTC) - SUBMITTING):
            if request_id(name) in living or await request_lives(self._client, name):
                continue
            # Read only now: it may have ended in the meantime, as it should.
            record = await self.record(request_record, name)
            if record.status.is_final:
                continue
            if record.status_sequence == 0 and await self._start(record):
                started.append(name)
            else:
                lost.append(name)
                await self._report(
                    name, f"is {record.status}, and its workflow is gone; {revival(name, self._client)}"
                )
        if lost:
            await signal_admission(self._client, "forget", lost, partial(self.record, remembered_admission))
        await Lending(self._engine, self._client).settle(living)
        await Stuck(self._engine, self._client, self._limits).report()
        return Reconciled(living=len(living), started=tuple(started), lost=tuple(lost))

    @activity.defn
    async def expire_bans(self) -> int:
        """How many bans of sites have ended now."""
        ended = await self.record(expire_bans)
        for ban in ended:
            log.info("%s is no longer banned for %s", ban.site_name, ban.request_name or "all")
        return len(ended)

    async def _report(self, name: str, message: str) -> None:
        alert = Alert(request=name, kind="lost_workflow", message=message)
        sound(alert.kind, name, message)
        await self.record(queue_alert, alert)

    async def _start(self, record: RequestRecord) -> bool:
        try:
            await start_request(self._client, record.request, hold=record.status is RequestStatus.NEW)
        except WorkflowAlreadyStartedError:
            return False
        log.warning("%s was recorded and never started: started now", record.request.request_name)
        return True
