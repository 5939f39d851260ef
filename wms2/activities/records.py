"""What the request workflow asks of the database: its status recorded, and what comes next."""

from __future__ import annotations

import logging

from temporalio import activity

from wms2.activities.database import DatabaseActivities
from wms2.core.rounds import next_round
from wms2.core.sizing import events_per_job
from wms2.db.ledger import balance, rounds_of
from wms2.db.requests import record_status, request_record
from wms2.models.messages import Alert, StatusRecord
from wms2.models.next_round import NextRound
from wms2.models.sizing import MeasuredSizing

log = logging.getLogger(__name__)


class RecordActivities(DatabaseActivities):
    @activity.defn
    async def record_status(self, record: StatusRecord) -> bool:
        """Whether the status was news: one that comes late changes nothing."""
        return await self.record(
            record_status, record.request, record.status, record.sequence, record.actor, record.reason
        )

    @activity.defn
    async def next_round(self, request_name: str, sizing: MeasuredSizing | None) -> NextRound:
        """What the ledger says comes next."""
        request = (await self.record(request_record, request_name)).request
        ledger = await self.record(balance, request_name)
        rounds = await self.record(rounds_of, request_name)
        return next_round(request, ledger, len(rounds), events_per_job(request, sizing))

    @activity.defn
    async def raise_alert(self, alert: Alert) -> None:
        """Tell the operators."""
        log.error("ALERT [%s] %s: %s", alert.kind, alert.request, alert.message)
