"""Submit hosts: workers announce themselves, and admission learns which hosts it may lend slots on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from wms2.activities.admission import signal_admission
from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.adapters.condor import Condor
from wms2.db import hosts
from wms2.db.admission import remembered_admission
from wms2.errors import Unavailable
from wms2.models.host import HostReport, HostSurvey

log = logging.getLogger(__name__)

ANNOUNCE_EVERY_SEC = 60.0
ANNOUNCE_AGAIN_SEC = 15.0
LEAVE_SEC = 5.0


class HostActivities(DatabaseActivities):
    def __init__(self, engine: Engine, client: Client, condor: Condor, silence: timedelta) -> None:
        super().__init__(engine)
        self._client = client
        self._condor = condor
        self._silence = silence

    @activity.defn
    async def survey_hosts(self) -> HostSurvey:
        """Hold the known hosts against the schedds that the collector knows, and tell admission which can be used."""
        found = await self.record(hosts.survey_hosts, await self._schedds(), self._silence)
        for host in found.silent:
            sound("lost_host", host, "its worker is silent, and it gets no new work")
        for host in found.cut_off:
            sound("lost_host", host, "the collector does not know its schedd, and it gets no new work")
        for host in found.removed:
            log.warning("submit host %s has vanished: neither its worker nor its schedd is there", host)
        await self.tell_admission()
        return found

    async def tell_admission(self) -> None:
        """Which hosts it may lend slots on, as the database has them now. Where it does not run, it is started."""
        listed = await self.record(hosts.host_list, self._silence)
        await signal_admission(self._client, "know_hosts", listed, partial(self.record, remembered_admission))

    async def announce(self, report: HostReport) -> bool:
        """Whether it was news that this host is served."""
        return await self.record(hosts.announce_host, report, self._silence)

    async def leave(self, host: str) -> None:
        """Say that this host is served no more, so that nobody is lent a slot where it would wait in vain.

        Who does not get through leaves it at that: a host that is silent is used no more, either.
        """
        try:
            async with asyncio.timeout(LEAVE_SEC):
                await self.record(hosts.leave_host, host)
                await self.tell_admission()
        except (RPCError, SQLAlchemyError, TimeoutError) as error:
            log.warning("nobody heard that the worker of host %s stops: %s", host, str(error) or "no answer")

    async def _schedds(self) -> set[str] | None:
        try:
            return await self._condor.schedds()
        except Unavailable as error:
            log.warning("what the collector said of schedds before holds: %s", error)
            return None


async def keep_announced(
    activities: HostActivities,
    tidy: Callable[[], Awaitable[object]],
    describe: Callable[[str], Awaitable[HostReport]],
    host: str,
) -> None:
    """Until it is cancelled: announce this host, and have admission told at once when that is news.

    What closed rounds left in the queue goes first: a host that was given up may come back with it. A host whose schedd
    or whose database does not answer is not announced.
    """
    told = False
    while True:
        await tidy()
        try:
            news = await activities.announce(await describe(host))
            if news or not told:
                await activities.survey_hosts()
            told = True
        except (RPCError, Unavailable, SQLAlchemyError) as error:
            log.warning("nobody heard that host %s is ready: %s", host, error)
            told = False
            await asyncio.sleep(ANNOUNCE_AGAIN_SEC)
        else:
            await asyncio.sleep(ANNOUNCE_EVERY_SEC)
