"""Whether the services of the experiment that the settings name answer, and know who we are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from wms2.adapters.connect import connect_cric, connect_dbs, connect_reqmgr2, connect_rucio
from wms2.config import Settings
from wms2.errors import Refused, Unavailable, UserError

LIMIT_SEC = 20.0
NOBODYS_DATASET = "/WMS2-Doctor/Nobody-v1/RAW"
NOBODYS_REQUEST = "wms2_doctor"
NOBODYS_RULE = "0" * 32


async def _ask_dbs(settings: Settings) -> None:
    async with connect_dbs(settings) as dbs:
        await dbs.dataset_access(NOBODYS_DATASET)


async def _ask_rucio(settings: Settings) -> None:
    async with connect_rucio(settings) as rucio:
        await rucio.rule(NOBODYS_RULE)


async def _ask_reqmgr2(settings: Settings) -> None:
    async with connect_reqmgr2(settings) as reqmgr2:
        await reqmgr2.request(NOBODYS_REQUEST)


async def _ask_cric(settings: Settings) -> None:
    async with connect_cric(settings) as cric:
        await cric.sites()


ASK: Mapping[str, Callable[[Settings], Awaitable[None]]] = {
    "dbs": _ask_dbs,
    "rucio": _ask_rucio,
    "reqmgr2": _ask_reqmgr2,
    "cric": _ask_cric,
}
"""A question to each that changes nothing, and that it answers only to one whom it knows."""


def asked(name: str, settings: Settings) -> str:
    """What became of the question to that service; a UserError where it did not answer."""
    url = getattr(settings, f"{name}_url")
    if url is None:
        return "the stand-in of the local stack"
    try:
        asyncio.run(_in_time(ASK[name](settings)))
    except Unavailable as error:
        raise UserError(f"{error}: see whether it runs, or correct WMS2_{name.upper()}_URL.") from None
    except TimeoutError:
        raise UserError(
            f"Nobody answers at {url} within {LIMIT_SEC:g} s: see WMS2_{name.upper()}_URL."
        ) from None
    except Refused as error:
        raise UserError(f"{error}.") from None
    return f"answers at {url}"


async def _in_time(question: Awaitable[None]) -> None:
    async with asyncio.timeout(LIMIT_SEC):
        await question
