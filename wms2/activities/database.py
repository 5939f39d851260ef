"""What activities that use the database have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from wms2.db.session import transaction

P = ParamSpec("P")
R = TypeVar("R")


class DatabaseActivities:
    """Activities that read and write the database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def record(
        self, function: Callable[Concatenate[Session, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run a function of the database in a transaction of its own, off the event loop."""

        def run() -> R:
            with transaction(self._engine) as session:
                return function(session, *args, **kwargs)

        return await asyncio.to_thread(run)
