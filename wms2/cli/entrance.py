"""Which door the command line takes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Engine

from wms2.adapters.messenger import contacts_of
from wms2.config import Settings
from wms2.db.notices import telling
from wms2.db.session import connect as connect_database
from wms2.door.direct import DirectDoor
from wms2.door.door import Door
from wms2.door.rest import RestDoor
from wms2.temporal.client import connect

R = TypeVar("R")


def open_door(settings: Settings) -> Door:
    """Through the REST service where one is named, else straight to the servers."""
    if settings.api_url is not None:
        return RestDoor(settings)
    return _straight(settings, _database(settings))


def telling_door(settings: Settings) -> Door:
    """The same, for deeds that others are told of, if notifications are on here."""
    if settings.api_url is not None:
        return RestDoor(settings)
    return _straight(settings, telling(_database(settings), contacts_of(settings)))


def _straight(settings: Settings, database: Engine) -> DirectDoor:
    return DirectDoor(database, partial(connect, settings), settings)


def _database(settings: Settings) -> Engine:
    # Not looked for yet: admission can be asked while it is away.
    return connect_database(settings.needed("database_url"))


def waited(answer: Coroutine[Any, Any, R]) -> R:
    """What comes of it. Whoever is in a loop already waits for another one, in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(answer)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, answer).result()
