"""Connections to the database, and what goes wrong in a way that a person should read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.orm import Session

from wms2.core.plain import plain_line
from wms2.errors import Contradiction, UserError

DRIVER = "postgresql+psycopg"
LIMITS = "-c lock_timeout=20s -c idle_in_transaction_session_timeout=60s"
"""Who waits for a lock gives up and is tried again, instead of keeping a thread from others; who holds locks and does
nothing, because it hangs, loses them."""


SILENT = "the database does not answer; `wms2 status` shows the stack, `wms2 up` starts it"
_NO_SUCH_TABLE, _NO_SUCH_COLUMN = "42P01", "42703"


class RecordConflict(Contradiction):
    """What is to be recorded contradicts what is recorded already."""


def connect(database_url: str, *, answer_sec: float | None = None, connections: int = 5) -> Engine:
    """An engine for a URL such as postgresql://user@host/database, with or without the driver's name.

    With `answer_sec` it gives up on a server that does not connect, or does not answer, for so long.
    """
    try:
        url = make_url(database_url)
    except ArgumentError:
        raise UserError(
            "the database URL is none; expected one such as postgresql://user@host/database"
        ) from None
    if url.get_backend_name() != "postgresql":
        raise UserError(f"the database must be PostgreSQL, not {url.get_backend_name()}")
    url, own = url.set(drivername=DRIVER), "options" in url.query
    if answer_sec is None:
        # Ours, unless the URL has options of its own.
        return create_engine(url, pool_pre_ping=True, connect_args={} if own else {"options": LIMITS})
    limits = {
        "connect_timeout": max(2, round(answer_sec / 2)),
        "options": f"-c statement_timeout={round(1000 * answer_sec)}",
        "tcp_user_timeout": round(1000 * answer_sec),
    }
    return create_engine(
        url, pool_pre_ping=True, pool_size=connections, pool_timeout=answer_sec, connect_args=limits
    )


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """All that is done with the session is recorded, or nothing of it."""
    with Session(engine) as session, session.begin():
        yield session


def trouble(error: DBAPIError) -> str | None:
    """A sentence on a database that is away, lets nobody in, or is of another release; None for a mistake of ours."""
    if getattr(error.orig, "sqlstate", None) in (_NO_SUCH_TABLE, _NO_SUCH_COLUMN):
        return "the database does not have the tables of this release; `wms2 database upgrade` makes them"
    if not isinstance(error, (OperationalError, InterfaceError)):
        return None
    if refused := re.search(r"FATAL:\s+(.+)", str(error.orig)):
        return f"the database says no: {plain_line(refused[1])}; look at its server, and at WMS2_DATABASE_URL"
    return SILENT
