"""Words from workflow to workflow that got lost, as when a request was terminated and reset: they are said again."""

from __future__ import annotations

import logging
from datetime import datetime

from sqlalchemy import Engine
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from wms2.activities.database import DatabaseActivities
from wms2.db.outputs import announced_and_unheard
from wms2.db.requests import queued_requests
from wms2.models.messages import OutputAnnounced
from wms2.temporal.admission import admission_state
from wms2.temporal.client import START_TIMEOUT
from wms2.temporal.ids import request_id

log = logging.getLogger(__name__)


class Callbacks(DatabaseActivities):
    """Finds requests that wait for a word which was said already. To hear one twice changes nothing."""

    def __init__(self, engine: Engine, client: Client) -> None:
        super().__init__(engine)
        self._client = client

    async def repeat(self, waited_since: datetime) -> None:
        """For all that wait since then or longer: a word on its way is given the time to arrive."""
        for name in await self._unanswered(waited_since):
            await self._signal(name, "ask_again")
        for name, announced in await self.record(announced_and_unheard, waited_since):
            await self._signal(name, "output_announced", announced)

    async def _unanswered(self, waited_since: datetime) -> list[str]:
        """Requests that wait for a slot and have one, or are not even in line for it."""
        queued = await self.record(queued_requests, waited_since)
        if not queued:
            return []
        try:
            state = await admission_state(self._client, START_TIMEOUT)
        except (RPCError, WorkflowQueryFailedError) as error:
            # Whatever ails admission, the rest of reconciliation must go on.
            log.warning("admission does not say whom it has answered: %s", error)
            return []
        return queued if state is None else [name for name in queued if name not in state.waiting]

    async def _signal(self, name: str, signal: str, *content: OutputAnnounced) -> None:
        log.info("%s may not have heard %s, and is told again", name, signal)
        try:
            await self._client.get_workflow_handle(request_id(name)).signal(signal, args=content)
        except RPCError as error:
            # One that is gone is reported by whoever looks for those.
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
