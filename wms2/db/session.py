"""Connections to the database, and what goes wrong in a way that a person should read."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from wms2.errors import UserError

DRIVER = "postgresql+psycopg"


class RecordConflict(UserError):
    """What is to be recorded contradicts what is recorded already."""


def connect(database_url: str) -> Engine:
    """An engine for a URL such as postgresql://user@host/database, with or without the driver's name."""
    try:
        url = make_url(database_url)
    except ArgumentError:
        raise UserError(
            "the database URL is none; expected one such as postgresql://user@host/database"
        ) from None
    if url.get_backend_name() != "postgresql":
        raise UserError(f"the database must be PostgreSQL, not {url.get_backend_name()}")
    return create_engine(url.set(drivername=DRIVER), pool_pre_ping=True)


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """All that is done with the session is recorded, or nothing of it."""
    with Session(engine) as session, session.begin():
        yield session
