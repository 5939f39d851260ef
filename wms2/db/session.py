"""Connections to the database, and what goes wrong in a way that a person should read."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from wms2.errors import Contradiction, UserError

DRIVER = "postgresql+psycopg"
LIMITS = "-c lock_timeout=20s -c idle_in_transaction_session_timeout=60s"
"""Who waits for a lock gives up and is tried again, instead of keeping a thread from others; who holds locks and does
nothing, because it hangs, loses them."""


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
