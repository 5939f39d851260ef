"""The servers themselves, PostgreSQL and Temporal, and how they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Engine
from sqlalchemy.orm import Session
from temporalio.client import Client

from wms2.config import Settings
from wms2.db.session import transaction

P = ParamSpec("P")
R = TypeVar("R")


class Servers:
    """Reads the database, and reaches workflows."""

    tells_where = True
    """Whether people may hear the addresses of the servers."""

    def __init__(self, engine: Engine, temporal: Callable[[], Awaitable[Client]], settings: Settings) -> None:
        self.engine = engine
        self.temporal = temporal
        self.settings = settings

    async def read(
        self, question: Callable[Concatenate[Session, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """The answer of the database to one question."""

        def answer() -> R:
            with transaction(self.engine) as session:
                return question(session, *args, **kwargs)

        return await self.apart(answer)

    async def apart(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What takes its time, in a thread."""
        return await asyncio.to_thread(work, *args, **kwargs)

    async def of_files(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `apart`, for what reads files."""
        return await self.apart(work, *args, **kwargs)
