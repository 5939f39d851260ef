"""Submit hosts: the word of operators on them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy.orm import Session
from temporalio.service import RPCError

from wms2.activities.admission import signal_admission
from wms2.core.hosts import why_unused
from wms2.db import hosts
from wms2.db.admission import remembered_admission
from wms2.db.ledger import requests_on_host
from wms2.door.asking import refusal
from wms2.door.direct_requests import DirectRequests
from wms2.errors import Silent, UserError
from wms2.models.audit import Action
from wms2.models.host import GivenUp, KnownHost
from wms2.models.messages import HostLostAction

ASKED_AT_ONCE = 20


def known_hosts(session: Session, silence: timedelta) -> list[KnownHost]:
    """Those that announced themselves, each with why it is not used."""
    now = hosts.database_time(session)
    return [
        KnownHost(
            **dict(host),
            open_rounds=len(requests_on_host(session, host.name)),
            unused_because=why_unused(host, now, silence),
        )
        for host in hosts.list_hosts(session)
    ]


async def set_disabled(
    door: DirectRequests, host: str, disabled: bool, by: Action, silence: timedelta
) -> None:
    """Let a host get no more slots, or some again. It may not be there yet, or no more: the word waits for it."""
    await door.read(hosts.set_disabled, host, disabled, by)
    await _tell_admission(door, silence)


async def give_up_host(door: DirectRequests, host: str, by: Action, silence: timedelta) -> GivenUp:
    """Nothing is lent on it before it is heard of again; requests with a round there are held until their release."""

    def order_for(name: str) -> HostLostAction:
        # A deed of its own for each request, and the same one when the whole is asked for again.
        its_own = f"{by.action_id}:{hashlib.sha256(name.encode()).hexdigest()[:40]}"
        return HostLostAction(host=host, reason=by.reason, actor=by.actor, action_id=its_own)

    names = await door.read(requests_on_host, host)
    await door.read(hosts.give_up_host, host, by)
    await _tell_admission(door, silence)
    refusals = await ask_all(door, names, order_for)
    return GivenUp(
        host=host,
        held=tuple(name for name in names if name not in refusals),
        refused=tuple(refusals.values()),
    )


async def ask_all(
    door: DirectRequests, names: Sequence[str], order_for: Callable[[str], HostLostAction]
) -> dict[str, str]:
    """What those said that refused. After the first silence nobody else is asked: all would be silent as long."""
    refusals: dict[str, str] = {}
    silences: list[Silent] = []
    gate = asyncio.Semaphore(ASKED_AT_ONCE)

    async def ask(name: str) -> None:
        async with gate:
            if silences:
                refusals[name] = f"{name} was not asked: {silences[0]}"
                return
            try:
                await door.ask(await door.record(name), order_for(name))
            except UserError as error:
                refusals[name] = str(error)
                silences.extend([error] if isinstance(error, Silent) else [])

    await asyncio.gather(*(ask(name) for name in names))
    return refusals


async def _tell_admission(door: DirectRequests, silence: timedelta) -> None:
    listed = await door.read(hosts.host_list, silence)
    try:
        await signal_admission(
            await door.temporal(), "know_hosts", listed, partial(door.read, remembered_admission)
        )
    except RPCError as error:
        raise refusal(
            error, "which hosts are left; that is recorded, and admission hears of it later"
        ) from error
