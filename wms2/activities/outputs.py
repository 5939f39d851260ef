"""Registering and announcing output datasets."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.database import DatabaseActivities
from wms2.adapters.dbs import Dbs
from wms2.db import outputs
from wms2.db.outputs import PendingUnit
from wms2.db.requests import request_record
from wms2.models.block import NewBlock, Provenance, block_name, provenance
from wms2.models.messages import OutputAnnounced, OutputOrder
from wms2.models.output import OutputStatus

UNITS_AT_ONCE = 100
T = TypeVar("T")


class OutputActivities(DatabaseActivities):
    """What is done with the files that work units produced."""

    def __init__(self, engine: Engine, dbs: Dbs) -> None:
        super().__init__(engine)
        self._dbs = dbs

    @activity.defn
    async def register_outputs(self, order: OutputOrder) -> int:
        """Register all files that wait for it, a block per work unit; how many files that were.

        DBS comes first, then the database: after a crash in between, the block is found in DBS and recorded.
        """
        request = (await self.record(request_record, order.request)).request
        made = provenance(request, order.dataset)
        files = 0
        while units := await self.record(
            outputs.pending_files, order.request, order.dataset, limit=UNITS_AT_ONCE
        ):
            for unit in units:
                files += await _undivided(self._register(order, unit, made))
                activity.heartbeat(files)
        return files

    async def _register(self, order: OutputOrder, unit: PendingUnit, made: Provenance) -> int:
        block = NewBlock(
            name=block_name(order.request, order.dataset, unit.work_unit),
            dataset=order.dataset,
            site=unit.site,
            files=unit.files,
            provenance=made,
        )
        await self._dbs.insert_block(block)
        lfns = [file.lfn for file in unit.files]
        return await self.record(
            outputs.mark_registered, order.request, order.dataset, block.name, block.site, lfns
        )

    @activity.defn
    async def announce_output(self, order: OutputOrder) -> OutputAnnounced:
        """Make the dataset visible to its readers. One without files is not in DBS: there is nothing to show."""
        files, events = await self.record(outputs.registered_totals, order.request, order.dataset)
        if files:
            await _undivided(self._announce(order))
        return OutputAnnounced(dataset=order.dataset, files=files, events=events)

    async def _announce(self, order: OutputOrder) -> None:
        await self._dbs.set_dataset_access(order.dataset, "VALID")
        await self.record(outputs.record_output_status, order.request, order.dataset, OutputStatus.ANNOUNCED)


async def _undivided(step: Coroutine[Any, Any, T]) -> T:
    """Do a step to its end, also when the activity is cancelled meanwhile: no call is left in flight."""
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
