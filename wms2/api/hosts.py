"""Submit hosts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from wms2.api.doorman import Operator
from wms2.api.service import Inside, Service
from wms2.api.words import NO_REASON, AdminHand, Hand, MaybeWhy
from wms2.models.base import Model
from wms2.models.host import GivenUp, KnownHost
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
    return await inside.list_hosts()


@router.get("/vanished", summary="Hosts that are not there, and are disabled when they return")
async def list_vanished(_: Operator, inside: Inside) -> list[str]:
    return await inside.vanished_hosts()


@router.post("/{host}/disable", summary="Lend no more slots on a submit host")
async def disable(host: HostInPath, hand: AdminHand, inside: Inside, why: MaybeWhy = NO_REASON) -> HostWord:
    """Until somebody enables it, also when it vanishes and returns. Rounds that run there go on to their end."""
    return await _say(host, hand, inside, why.reason, disabled=True)


@router.post("/{host}/enable", summary="Lend slots on a submit host again")
async def enable(host: HostInPath, hand: AdminHand, inside: Inside, why: MaybeWhy = NO_REASON) -> HostWord:
    return await _say(host, hand, inside, why.reason, disabled=False)


async def _say(host: str, hand: Hand, inside: Service, reason: str, *, disabled: bool) -> HostWord:
    deed = hand.deed("host_disable" if disabled else "host_enable", reason, host=host)
    known = await inside.set_host_disabled(host, disabled, deed)
    return HostWord(host=host, disabled=known.disabled if known else disabled, known=known)


@router.post("/{host}/lost", status_code=202, summary="Say that a submit host does not come back")
async def lost(host: HostInPath, hand: AdminHand, inside: Inside, why: MaybeWhy = NO_REASON) -> GivenUp:
    """Requests with a round there are held. A release then closes the round from what was credited, and goes on
    elsewhere. It cannot be taken back.
    """
    return await inside.give_up_host(host, hand.deed("host_lost", why.reason, host=host))
