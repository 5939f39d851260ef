"""Outputs that a later version of their request has replaced."""

from __future__ import annotations

from sqlalchemy import Engine
from temporalio import activity
from temporalio.client import Client

from wms2.activities.database import DatabaseActivities
from wms2.db import undo
from wms2.temporal.launch import start_undo


class CleanupActivities(DatabaseActivities):
    def __init__(self, engine: Engine, client: Client) -> None:
        super().__init__(engine)
        self._client = client

    @activity.defn
    async def supersede_outputs(self, request: str) -> None:
        """A request that replaces another one is complete: its outputs take the place of those of that one."""
        if await self.record(undo.supersede_outputs, request):
            await self.start_cleanups()

    @activity.defn
    async def start_cleanups(self) -> int:
        """Begin to take back the outputs that were replaced and whose time is over; how many requests that are."""
        orders = await self.record(undo.due_cleanups)
        for order in orders:
            await start_undo(self._client, order)
        return len(orders)
