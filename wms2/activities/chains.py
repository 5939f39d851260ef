"""Letting go the requests whose input is there."""

from __future__ import annotations

import logging

from sqlalchemy import Engine
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wms2.activities.database import DatabaseActivities
from wms2.core.chains import input_words, may_start, waiting_words
from wms2.db.chains import waiting_requests
from wms2.models.chain import Advanced, Waiting
from wms2.models.messages import ReleaseAction
from wms2.temporal.ids import request_id

log = logging.getLogger(__name__)

WMS2 = "wms2"


class ChainActivities(DatabaseActivities):
    def __init__(self, engine: Engine, client: Client) -> None:
        super().__init__(engine)
        self._client = client

    @activity.defn
    async def advance_chains(self) -> Advanced:
        """Release each request whose input is there, once, and tell the others what they wait for.

        A request that was told twice heeds the first time only: the words carry an id of their own.
        """
        waiting = await self.record(waiting_requests)
        let_go = []
        for one in waiting:
            if may_start(one):
                await self._signal(one, "release", _release(one))
                let_go.append(one.request)
            elif (words := waiting_words(one)) != one.reason:
                await self._signal(one, "waits_for", words)
        return Advanced(waiting=len(waiting) - len(let_go), let_go=tuple(let_go))

    async def _signal(self, waiting: Waiting, name: str, word: str | ReleaseAction) -> None:
        """One that is not started yet hears it the next time."""
        try:
            await self._client.get_workflow_handle(request_id(waiting.request)).signal(name, word)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            log.warning("%s has no workflow yet and was not told %s", waiting.request, name)


def _release(waiting: Waiting) -> ReleaseAction:
    return ReleaseAction(
        actor=WMS2,
        reason=input_words(waiting),
        action_id=f"input-of-{waiting.request}-{waiting.parent}"[:200],
    )
