"""Where requests run, straight from the servers: sites, submit hosts and the slots of admission."""

from __future__ import annotations

from datetime import datetime, timedelta

from wms2.core.admission import seen
from wms2.db.bans import ban_by_hand, lift_bans, list_bans
from wms2.db.hosts import list_vanished
from wms2.db.sites import find_site, list_sites, set_site_status
from wms2.door.admission import NOT_YET, admission_state, change_admission
from wms2.door.direct_requests import DirectRequests
from wms2.door.hosts import give_up_host, known_hosts, set_disabled
from wms2.errors import Contradiction
from wms2.models.admission import AdmissionSeen
from wms2.models.audit import Action
from wms2.models.host import GivenUp, KnownHost
from wms2.models.messages import AdmissionOrder
from wms2.models.site import Site, SiteBan, SiteStatus


class DirectResources(DirectRequests):
    @property
    def host_silence(self) -> timedelta:
        """After so long without a word of its worker a submit host counts as silent."""
        return timedelta(minutes=self.settings.host_silence_min)

    async def list_sites(self) -> list[Site]:
        return await self.read(list_sites)

    async def find_site(self, site: str) -> Site | None:
        return await self.read(find_site, site)

    async def set_site_status(
        self, site: str, status: SiteStatus, until: datetime | None, by: Action
    ) -> Site:
        return await self.read(set_site_status, site, status, until, by)

    async def list_bans(self, *, ended: bool = False) -> list[SiteBan]:
        return await self.read(list_bans, ended=ended)

    async def ban_site(self, site: str, request: str | None, length: timedelta, by: Action) -> None:
        await self.read(ban_by_hand, site, request, length, by)

    async def unban_site(self, site: str, request: str | None, by: Action) -> int:
        return await self.read(lift_bans, site, request, by)

    async def list_hosts(self) -> list[KnownHost]:
        return await self.read(known_hosts, self.host_silence)

    async def vanished_hosts(self) -> list[str]:
        return await self.read(list_vanished)

    async def set_host_disabled(self, host: str, disabled: bool, by: Action) -> KnownHost | None:
        await set_disabled(self, host, disabled, by, self.host_silence)
        return next((one for one in await self.list_hosts() if one.name == host), None)

    async def give_up_host(self, host: str, by: Action) -> GivenUp:
        return await give_up_host(self, host, by, self.host_silence)

    async def admission(self) -> AdmissionSeen:
        state = await admission_state(await self.temporal())
        if state is None:
            raise Contradiction(NOT_YET)
        return seen(state)

    async def change_admission(self, order: AdmissionOrder) -> AdmissionSeen:
        return seen(await change_admission(await self.temporal(), order))
