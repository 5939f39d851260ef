"""Where requests run, through the REST service: sites, submit hosts and the slots of admission."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from wms2.door.rest_calls import RestCalls, read
from wms2.errors import Missing
from wms2.models.admission import AdmissionSeen
from wms2.models.audit import Action
from wms2.models.host import GivenUp, KnownHost
from wms2.models.messages import AdmissionOrder
from wms2.models.site import Site, SiteBan, SiteStatus


class SiteSeen(Site):
    """What the service adds to a site, it says as of its own clock; that is left out."""

    model_config = ConfigDict(extra="ignore")


class Lifted(BaseModel):
    lifted: int


class HostWord(BaseModel):
    known: KnownHost | None


class RestResources(RestCalls):
    async def list_sites(self) -> list[Site]:
        return list(await self.look(list[SiteSeen], "sites"))

    async def find_site(self, site: str) -> Site | None:
        try:
            return await self.look(SiteSeen, f"sites/{site}")
        except Missing:
            return None

    async def set_site_status(
        self, site: str, status: SiteStatus, until: datetime | None, by: Action
    ) -> Site:
        word = {"status": status, "until": until and until.isoformat(), "reason": by.reason}
        return read(SiteSeen, await self.act("PATCH", f"sites/{site}", by.action_id, json=word))

    async def list_bans(self, *, ended: bool = False) -> list[SiteBan]:
        return await self.look(list[SiteBan], "bans", ended=ended)

    async def ban_site(self, site: str, request: str | None, length: timedelta, by: Action) -> None:
        order = {"request": request, "days": length / timedelta(days=1), "reason": by.reason}
        await self.act("POST", f"sites/{site}/ban", by.action_id, json=order)

    async def unban_site(self, site: str, request: str | None, by: Action) -> int:
        asked = {"reason": by.reason} | ({} if request is None else {"request": request})
        answer = await self.act("DELETE", f"sites/{site}/ban", by.action_id, params=asked)
        return read(Lifted, answer).lifted

    async def list_hosts(self) -> list[KnownHost]:
        return await self.look(list[KnownHost], "hosts")

    async def vanished_hosts(self) -> list[str]:
        return await self.look(list[str], "hosts/vanished")

    async def set_host_disabled(self, host: str, disabled: bool, by: Action) -> KnownHost | None:
        path = f"hosts/{host}/{'disable' if disabled else 'enable'}"
        return read(HostWord, await self.act("POST", path, by.action_id, json={"reason": by.reason})).known

    async def give_up_host(self, host: str, by: Action) -> GivenUp:
        body = {"reason": by.reason}
        return read(GivenUp, await self.act("POST", f"hosts/{host}/lost", by.action_id, json=body))

    async def admission(self) -> AdmissionSeen:
        return await self.look(AdmissionSeen, "admission")

    async def change_admission(self, order: AdmissionOrder) -> AdmissionSeen:
        reason = {"reason": order.reason}
        if order.action == "set":
            limits = {"max_active_dags": order.limit, "idle_budget": order.idle_budget}
            await self.act("PATCH", "admission/config", order.action_id, json=reason | limits)
        else:
            await self.act("POST", f"admission/{order.action}", order.action_id, json=reason)
        return await self.admission()
