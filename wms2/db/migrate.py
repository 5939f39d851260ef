"""Bringing a database up to the tables of this release."""

from importlib.resources import as_file, files
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from wms2.db.session import connect
from wms2.errors import UserError

# Any number will do that nothing else in the database uses.
_LOCK = 7_395_262_918_046_117


def upgrade(database_url: str) -> None:
    """Apply the migrations that are missing; several processes may call it at once."""
    engine = connect(database_url)
    try:
        with engine.begin() as connection, as_file(files("wms2.db") / "migrations") as scripts:
            # Whoever is at it already may take long, and so may a change of a large table.
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            command.upgrade(_configuration(connection, scripts), "head")
    except OperationalError as error:
        reason = " ".join(str(error.orig).split())
        raise UserError(f"the database cannot be reached: {reason}") from None
    finally:
        engine.dispose()


def _configuration(connection: Connection, scripts: Path) -> Config:
    configuration = Config()
    # A '%' would be taken for an interpolation.
    configuration.set_main_option("script_location", str(scripts).replace("%", "%%"))
    configuration.attributes["connection"] = connection
    return configuration
