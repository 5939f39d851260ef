"""Asking the admission workflow from a thread: Prometheus asks in one, Temporal answers in a loop."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError

from wms2.config import Settings
from wms2.core.admission import AdmissionState
from wms2.errors import UserError
from wms2.temporal.admission import admission_state
from wms2.temporal.connection import Connection

log = logging.getLogger(__name__)

PATIENCE = timedelta(seconds=3)
"""Prometheus itself waits ten seconds for everything."""


class AdmissionQuestion:
    """Called in another thread than the loop's, it gives the state of admission; None when there is no answer."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connection = Connection(settings)

    def __call__(self) -> AdmissionState | None:
        asked = asyncio.run_coroutine_threadsafe(self._ask(), self._loop)
        try:
            return asked.result(2 * PATIENCE.total_seconds())
        except (TimeoutError, RPCError, UserError, WorkflowQueryFailedError) as error:
            asked.cancel()
            log.warning("admission did not answer: %s", str(error) or "not in time")
            return None

    async def _ask(self) -> AdmissionState | None:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            client = await self._connection.client()
        return await admission_state(client, PATIENCE)
