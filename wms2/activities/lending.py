"""Slots of which admission and requests do not think the same.

Of one that a request has and admission does not know of, admission is told, and lends it to nobody else. One that it
has lent to a request that wants none is taken back: what a request said long ago may have come late.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection
from datetime import timedelta
from functools import partial

from sqlalchemy import Engine
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from wms2.activities.admission import AdmissionSignal, signal_admission
from wms2.activities.database import DatabaseActivities
from wms2.core.admission import AdmissionState
from wms2.db.admission import lent_slots, remembered_admission
from wms2.models.messages import Slot, SlotRequest
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState
from wms2.temporal.admission import admission_state
from wms2.temporal.ids import request_id

log = logging.getLogger(__name__)

ASKED_IN_A_RUN = 20
ANSWER_TIMEOUT = timedelta(seconds=10)


class Lending(DatabaseActivities):
    """Holds the record of slots against what admission has lent."""

    def __init__(self, engine: Engine, client: Client) -> None:
        super().__init__(engine)
        self._client = client

    async def settle(self, living: Collection[str]) -> None:
        """Tell admission of slots that it misses, and take back those that nobody wants, of living workflows both.

        It is asked before the record is read: as a slot is struck from that before it is given back, one that is in it
        now and was unknown then is really missed. And as a slot is in the record before its request is told of it, one
        that was told then and is not in it now may be wanted by nobody.
        """
        known = await self._known()
        if known is None:
            return
        recorded = [slot for slot in await self.record(lent_slots) if request_id(slot.request) in living]
        await self._remind([slot for slot in recorded if slot.request not in known.leases])
        with_slots = {slot.request for slot in recorded}
        doubtful = [
            lease.slot
            for name, lease in known.leases.items()
            if lease.told and name not in with_slots and request_id(name) in living
        ]
        # Some of many, and not always the same: those that do not answer keep nobody else waiting.
        chosen = random.sample(doubtful, min(len(doubtful), ASKED_IN_A_RUN))
        await asyncio.gather(*(self._take_back_unless_wanted(slot) for slot in chosen))

    async def _remind(self, missed: list[Slot]) -> None:
        """One that is given back while admission is told of it is taken back."""
        if not missed:
            return
        log.warning("admission did not know of slots of %s", ", ".join(slot.request for slot in missed))
        await self._tell("remember", missed)
        still = await self.record(lent_slots)
        for slot in missed:
            if slot not in still:
                await self._take_back(slot)

    async def _take_back_unless_wanted(self, slot: Slot) -> None:
        """The request itself knows. Should it ask just now, its question is newer, and stays."""
        try:
            state: RequestState = await self._client.get_workflow_handle(request_id(slot.request)).query(
                "state", result_type=RequestState, rpc_timeout=ANSWER_TIMEOUT
            )
        except (RPCError, WorkflowQueryFailedError) as error:
            log.info("%s does not say whether it wants its slot: %s", slot.request, error)
            return
        if state.slot_host is None and state.status is not RequestStatus.QUEUED:
            log.warning("%s is %s and wants no slot: it is taken back", slot.request, state.status)
            await self._take_back(slot)

    async def _take_back(self, slot: Slot) -> None:
        returned = SlotRequest(request=slot.request, round=slot.round, priority=0, said=slot.said)
        await self._tell("give_back", returned)

    async def _known(self) -> AdmissionState | None:
        """None when it does not say: one that does not run is started with all that is remembered."""
        try:
            return await admission_state(self._client, ANSWER_TIMEOUT)
        except (RPCError, WorkflowQueryFailedError) as error:
            log.info("admission does not say what it has lent: %s", error)
            return None

    async def _tell(self, signal: AdmissionSignal, content: SlotRequest | list[Slot]) -> None:
        await signal_admission(self._client, signal, content, partial(self.record, remembered_admission))
