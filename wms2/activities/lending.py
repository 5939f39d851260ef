"""Slots that requests have and admission does not know of: it is told, and lends them to nobody else."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from sqlalchemy import Engine
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from wms2.activities.admission import AdmissionSignal, signal_admission
from wms2.activities.database import DatabaseActivities
from wms2.core.admission import AdmissionState
from wms2.db.admission import lent_slots, remembered_admission
from wms2.models.messages import Slot, SlotRequest
from wms2.temporal.ids import ADMISSION, request_id

log = logging.getLogger(__name__)


class Lending(DatabaseActivities):
    """Holds the record of slots against what admission has lent."""

    def __init__(self, engine: Engine, client: Client) -> None:
        super().__init__(engine)
        self._client = client

    async def remind(self, living: Collection[str]) -> None:
        """Tell admission of the slots that it misses, of requests whose workflow is among the living.

        It is asked before the record is read: as a slot is struck from that before it is given back, one that is in it
        now and was unknown then is really missed. One that was given back while admission was told is taken back.
        """
        known = await self._known()
        if known is None:
            return
        missed = [
            slot
            for slot in await self.record(lent_slots)
            if slot.request not in known.leases and request_id(slot.request) in living
        ]
        if missed:
            log.warning("admission did not know of slots of %s", ", ".join(slot.request for slot in missed))
            await self._tell("remember", missed)
            await self._take_back(missed)

    async def _take_back(self, told: list[Slot]) -> None:
        still = await self.record(lent_slots)
        for slot in told:
            if slot not in still:
                await self._tell(
                    "give_back",
                    SlotRequest(request=slot.request, round=slot.round, priority=0, said=slot.said),
                )

    async def _known(self) -> AdmissionState | None:
        """None when it does not say: one that does not run is started with all that is remembered."""
        try:
            state: AdmissionState = await self._client.get_workflow_handle(ADMISSION).query(
                "state", result_type=AdmissionState
            )
        except (RPCError, WorkflowQueryFailedError) as error:
            log.info("admission does not say what it has lent: %s", error)
            return None
        return state

    async def _tell(self, signal: AdmissionSignal, content: SlotRequest | list[Slot]) -> None:
        await signal_admission(self._client, signal, content, partial(self.record, remembered_admission))
