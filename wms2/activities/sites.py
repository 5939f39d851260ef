"""Learning which sites there are."""

from __future__ import annotations

import logging

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.adapters.condor import Condor
from wms2.adapters.cric import Cric
from wms2.db import sites
from wms2.errors import Unavailable
from wms2.models.site import Cores, SyncedSites

log = logging.getLogger(__name__)


class SiteActivities(DatabaseActivities):
    def __init__(self, engine: Engine, cric: Cric, condor: Condor) -> None:
        super().__init__(engine)
        self._cric = cric
        self._condor = condor

    @activity.defn
    async def sync_sites(self) -> SyncedSites:
        """Take over what CRIC says of sites and their storage, and how many cores the pool has there."""
        listed = await self._cric.sites()
        synced = await self.record(sites.take_sites, listed, await self._cores())
        if synced.new or synced.gone or synced.back:
            log.info("%s", synced)
        return synced

    @activity.defn
    async def report_silence(self) -> str:
        """Tell the operators that CRIC is silent, if it has been so for long; what was told."""
        told = await self.record(sites.report_silence)
        if told:
            sound("silent_service", "CRIC", told)
        return told

    async def _cores(self) -> dict[str, Cores]:
        try:
            return await self._condor.cores()
        except Unavailable as error:
            # Sites are worth more than the number of their cores.
            log.warning("the cores of the sites stay as they were: %s", error)
            return {}
