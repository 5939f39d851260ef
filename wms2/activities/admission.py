"""Talking to the admission workflow, which is started by the first who needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal

from sqlalchemy import Engine
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from wms2.activities.database import DatabaseActivities
from wms2.core.admission import AdmissionState
from wms2.db.admission import record_slots, remembered_admission, strike_slots
from wms2.db.requests import created
from wms2.models.messages import HostList, Slot, SlotRequest
from wms2.temporal.client import START_TIMEOUT
from wms2.temporal.ids import ADMISSION
from wms2.temporal.launch import request_lives
from wms2.temporal.queues import WORKFLOWS

CALLS_AT_ONCE = 20

AdmissionSignal = Literal["ask", "give_back", "forget", "remember", "know_hosts"]


async def signal_admission(
    client: Client,
    signal: AdmissionSignal,
    content: SlotRequest | HostList | list[str] | list[Slot],
    remembered: Callable[[], Awaitable[AdmissionState]],
) -> None:
    """Signal the admission workflow. Where it does not run, it is started with what is remembered of it."""
    try:
        await client.get_workflow_handle(ADMISSION).signal(signal, content, rpc_timeout=START_TIMEOUT)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        await _start_admission(client, signal, content, await remembered())


async def _start_admission(
    client: Client,
    signal: AdmissionSignal,
    content: SlotRequest | HostList | list[str] | list[Slot],
    state: AdmissionState,
) -> None:
    """One that somebody else has started since hears the signal and keeps what it knows."""
    await client.start_workflow(
        "AdmissionWorkflow",
        state,
        id=ADMISSION,
        task_queue=WORKFLOWS,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=signal,
        start_signal_args=[content],
        static_summary="lends slots to requests, highest priority first",
        rpc_timeout=START_TIMEOUT,
    )


class AdmissionActivities(DatabaseActivities):
    def __init__(self, engine: Engine, client: Client) -> None:
        super().__init__(engine)
        self._client = client

    @activity.defn
    async def ask_admission(self, asked: SlotRequest) -> None:
        """Get in line for a slot. The answer comes as the signal `slot_granted`."""
        created_at = await self.record(created, asked.request)
        await self._tell("ask", asked.model_copy(update={"created_at": created_at}))

    @activity.defn
    async def give_back_slot(self, returned: SlotRequest) -> None:
        """Give a slot back, or leave the line. It is struck from the record first, else it might be lent back.

        And once more afterwards: until admission heard of it, it may have been about to lend a slot.
        """
        await self.record(strike_slots, [returned.request])
        await self._tell("give_back", returned)
        await self.record(strike_slots, [returned.request])

    @activity.defn
    async def record_slots(self, slots: list[Slot]) -> None:
        """What admission has lent, before anybody is told of it."""
        await self.record(record_slots, slots)

    @activity.defn
    async def strike_slots(self, names: list[str]) -> None:
        """Slots of requests that gave them back before they were told of them."""
        await self.record(strike_slots, names)

    async def _tell(self, signal: AdmissionSignal, content: SlotRequest) -> None:
        await signal_admission(self._client, signal, content, partial(self.record, remembered_admission))

    @activity.defn
    async def closed_requests(self, names: list[str]) -> list[str]:
        """Those of the requests whose workflow has ended or is unknown."""
        calls = asyncio.Semaphore(CALLS_AT_ONCE)

        async def closed(name: str) -> bool:
            async with calls:
                return not await request_lives(self._client, name)

        verdicts = await asyncio.gather(*(closed(name) for name in names))
        return [name for name, gone in zip(names, verdicts, strict=True) if gone]
