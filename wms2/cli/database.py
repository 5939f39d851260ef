"""`wms2 database ...`: the tables of this release."""

from __future__ import annotations

import typer

from wms2.cli.screen import say
from wms2.config import load_settings
from wms2.db.migrate import upgrade as upgrade_tables

app = typer.Typer(no_args_is_help=True)


@app.command()
def upgrade() -> None:
    """Bring the tables up to this release, before its workers start. Again: there is nothing to do.

    On the local stack `wms2 up` does it.

    Example: [bold]WMS2_DATABASE_URL=postgresql://wms2:secret@db.example/wms2 wms2 database upgrade[/]
    """
    upgrade_tables(load_settings().needed("database_url"))
    say("The database has the tables of this release.")
