"""Which door the command line takes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from wms2.adapters.messenger import contacts_of
from wms2.cli.by_hand import connect_database
from wms2.config import Settings
from wms2.db.notices import telling
from wms2.door.direct import DirectDoor
from wms2.door.door import Door
from wms2.door.rest import RestDoor
from wms2.temporal.client import connect

R = TypeVar("R")


def open_door(settings: Settings) -> Door:
    """Through the REST service where one is named, else straight to the servers."""
    if settings.api_url is not None:
        return RestDoor(settings)
    return DirectDoor(connect_database(settings), partial(connect, settings), settings)


def telling_door(settings: Settings) -> Door:
    """The same, for deeds that others are told of, if notifications are on here."""
    if settings.api_url is not None:
        return RestDoor(settings)
    engine = telling(connect_database(settings), contacts_of(settings))
    return DirectDoor(engine, partial(connect, settings), settings)


def waited(answer: Coroutine[Any, Any, R]) -> R:
    """What comes of it. Whoever is in a loop already waits for another one, in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(answer)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, answer).result()
