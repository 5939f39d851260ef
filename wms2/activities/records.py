"""What the request workflow asks of the database: its status recorded, and what comes next."""

from __future__ import annotations

import logging

from sqlalchemy.orm import Session
from temporalio import activity

from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.core.plain import plain_line
from wms2.core.rounds import next_round
from wms2.core.sizing import events_per_job
from wms2.db import admission, drops
from wms2.db.audit import record_action
from wms2.db.ledger import balance, rounds_of
from wms2.db.notices import queue_alert
from wms2.db.requests import record_priority, record_status, request_record
from wms2.db.withdrawal import withdraw_plan
from wms2.models.audit import Action as AuditedAction
from wms2.models.messages import Alert, Changes, DropAction, Dropped, StatusRecord
from wms2.models.next_round import NextRound
from wms2.models.sizing import KnownSizing

log = logging.getLogger(__name__)


class RecordActivities(DatabaseActivities):
    @activity.defn
    async def record_status(self, record: StatusRecord) -> bool:
        """Whether the status was news: one that comes late changes nothing."""
        is_news = await self.record(
            record_status, record.request, record.status, record.sequence, record.actor, record.reason
        )
        if is_news:
            log.info(
                "%s is %s: %s", record.request, record.status, plain_line(record.reason) or "no reason given"
            )
        if record.status.is_final:
            await self._withdraw_an_unheard_plan(record.request)
        return is_news

    @activity.defn
    async def next_round(self, request_name: str, sizing: KnownSizing) -> NextRound:
        """What the ledger says comes next, for a request that knows of no open round."""
        await self._withdraw_an_unheard_plan(request_name)
        request = (await self.record(request_record, request_name)).request
        ledger = await self.record(balance, request_name)
        rounds = await self.record(rounds_of, request_name)
        found = next_round(request, ledger, rounds, events_per_job(request, sizing))
        return found.model_copy(update={"from_catalogues": request.reads_catalogues})

    async def _withdraw_an_unheard_plan(self, request_name: str) -> None:
        """Else its events and files would count as planned for ever, in a round that nobody runs."""
        number = await self.record(withdraw_plan, request_name)
        if number is not None:
            log.warning(
                "%s: the plan of round %d was recorded, never answered, and is withdrawn",
                request_name,
                number,
            )

    @activity.defn
    async def record_action(self, action: AuditedAction) -> bool:
        """Whether the action was news to the audit trail. A word on admission is kept for it as well."""
        said_to_admission = action.action in admission.WORDS
        return await self.record(admission.record_word if said_to_admission else record_action, action)

    @activity.defn
    async def record_priority(self, action: AuditedAction) -> None:
        """A person's word on the priority, in the request's row and in the audit trail."""
        await self.record(_record_priority, action)

    @activity.defn
    async def apply_changes(self, action: AuditedAction, changes: Changes) -> None:
        """What a person changed with a release, and who did."""
        await self.record(drops.apply_changes, action, changes)

    @activity.defn
    async def drop_work(self, action: AuditedAction, asked: DropAction) -> Dropped:
        """What a person decided to do without."""
        return await self.record(drops.drop_work, action, asked)

    @activity.defn
    async def raise_alert(self, alert: Alert) -> None:
        """Tell the operators: in the log at once, and in their next digest."""
        sound(alert.kind, alert.request, alert.message)
        await self.record(queue_alert, alert)


def _record_priority(session: Session, action: AuditedAction) -> None:
    if record_action(session, action):
        record_priority(session, action.request_name or "", action.detail["priority"])
