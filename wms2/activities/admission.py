"""Talking to the admission workflow, which is started by the first who needs it."""

from __future__ import annotations

import asyncio
from typing import Literal

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy

from wms2.core.admission import AdmissionState
from wms2.models.messages import HostList, SlotRequest
from wms2.temporal.client import START_TIMEOUT
from wms2.temporal.ids import ADMISSION
from wms2.temporal.launch import request_lives
from wms2.temporal.queues import WORKFLOWS

CALLS_AT_ONCE = 20

AdmissionSignal = Literal["ask", "give_back", "forget", "know_hosts"]


async def signal_admission(
    client: Client, signal: AdmissionSignal, content: SlotRequest | HostList | list[str]
) -> None:
    """Signal the admission workflow, and start it where it does not run."""
    await client.start_workflow(
        "AdmissionWorkflow",
        AdmissionState(),
        id=ADMISSION,
        task_queue=WORKFLOWS,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=signal,
        start_signal_args=[content],
        static_summary="lends slots to requests, highest priority first",
        rpc_timeout=START_TIMEOUT,
    )


class AdmissionActivities:
    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn
    async def ask_admission(self, asked: SlotRequest) -> None:
        """Get in line for a slot. The answer comes as the signal `slot_granted`."""
        await signal_admission(self._client, "ask", asked)

    @activity.defn
    async def give_back_slot(self, returned: SlotRequest) -> None:
        """Give a slot back, or leave the line."""
        await signal_admission(self._client, "give_back", returned)

    @activity.defn
    async def closed_requests(self, names: list[str]) -> list[str]:
        """Those of the requests whose workflow has ended or is unknown."""
        calls = asyncio.Semaphore(CALLS_AT_ONCE)

        async def closed(name: str) -> bool:
            async with calls:
                return not await request_lives(self._client, name)

        verdicts = await asyncio.gather(*(closed(name) for name in names))
        return [name for name, gone in zip(names, verdicts, strict=True) if gone]
