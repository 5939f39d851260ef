"""Submit hosts."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Path

from wms2.api.doorman import Operator
from wms2.api.service import Inside, Service
from wms2.api.words import NO_REASON, AdminHand, Hand, MaybeWhy
from wms2.door.hosts import GivenUp, give_up_host, known_hosts, set_disabled
from wms2.models.base import Model
from wms2.models.host import KnownHost
from wms2.models.messages import HostLostAction
from wms2.patterns import HOST_NAME

router = APIRouter(prefix="/hosts", tags=["Submit hosts"])

HostInPath = Annotated[
    str, Path(pattern=f"^{HOST_NAME.pattern}$", description="The name that its worker has.")
]


class HostWord(Model):
    """The word on a host, and what is known of it; null for one that no worker has announced."""

    host: str
    disabled: bool
    known: KnownHost | None


@router.get("", summary="The submit hosts that have announced themselves, and why one is not used")
async def list_all(_: Operator, inside: Inside) -> list[KnownHost]:
    return await inside.read(known_hosts, inside.host_silence)


@router.post("/{host}/disable", summary="Lend no more slots on a submit host")
async def disable(host: HostInPath, hand: AdminHand, inside: Inside, why: MaybeWhy = NO_REASON) -> HostWord:
    """Until somebody enables it, also when it vanishes and returns. Rounds that run there go on to their end."""
    return await _say(host, hand, inside, why.reason, disabled=True)


@router.post("/{host}/enable", summary="Lend slots on a submit host again")
async def enable(host: HostInPath, hand: AdminHand, inside: Inside, why: MaybeWhy = NO_REASON) -> HostWord:
    return await _say(host, hand, inside, why.reason, disabled=False)


async def _say(host: str, hand: Hand, inside: Service, reason: str, *, disabled: bool) -> HostWord:
    deed = hand.deed("host_disable" if disabled else "host_enable", reason, host=host)
    await set_disabled(inside, host, disabled, deed, inside.host_silence)
    listed = await inside.read(known_hosts, inside.host_silence)
    known = next((one for one in listed if one.name == host), None)
    return HostWord(host=host, disabled=known.disabled if known else disabled, known=known)


@router.post("/{host}/lost", status_code=202, summary="Say that a submit host does not come back")
async def lost(host: HostInPath, hand: AdminHand, inside: Inside, why: MaybeWhy = NO_REASON) -> GivenUp:
    """Requests with a round there are held. A release then closes the round from what was credited, and goes on
    elsewhere. It cannot be taken back.
    """

    def order_for(name: str) -> HostLostAction:
        return HostLostAction(
            host=host,
            reason=why.reason,
            actor=hand.caller.identity,
            action_id=f"{hand.action_id}:{hashlib.sha256(name.encode()).hexdigest()[:40]}",
        )

    deed = hand.deed("host_lost", why.reason, host=host)
    return await give_up_host(inside, host, deed, order_for, inside.host_silence)
