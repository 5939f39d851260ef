"""`wms2 history ...`: histories of workflows that have ended, kept."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from temporalio.service import RPCError

from wms2.cli.screen import messages, print_json, say
from wms2.config import Settings, load_settings
from wms2.errors import UserError
from wms2.temporal.client import connect
from wms2.temporal.histories import Exported, export_closed

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

app = typer.Typer(no_args_is_help=True)


@app.command()
def export(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where to; a folder for each day is made.")],
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            help="Only what ended at this time (UTC) or later; else all that Temporal still has.",
        ),
    ] = None,
    scheduled: Annotated[
        bool, typer.Option("--scheduled", help="Also what runs by schedule, every few minutes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the histories of workflows that have ended as JSON files, before Temporal forgets them.

    What is there already is left alone, so it can be cut off, run again and run by a timer.

    Examples: [bold]wms2 history export --to /backup/histories[/]
    [bold]wms2 history export --to /backup/histories --since 2026-11-01[/]
    """
    begin = since.replace(tzinfo=UTC) if since else None
    done = asyncio.run(_export(load_settings(), to, begin, scheduled=scheduled))
    if as_json:
        print_json(done.model_dump())
        return
    gone = f", {done.gone} were gone before they were read" if done.gone else ""
    say(
        f"{done.written} histories written to {escape(str(to))}, {done.already_there} were there already{gone}."
    )


async def _export(settings: Settings, folder: Path, since: datetime | None, *, scheduled: bool) -> Exported:
    client, done = await connect(settings), Exported()
    try:
        with messages.status("exporting") as status:
            async for done in export_closed(client, folder, since, scheduled=scheduled):
                status.update(f"{done.written} histories written, {done.already_there} were there already")
    except RPCError as error:
        raise UserError(f"Temporal refused, after {done.written} were written: {error.message}") from error
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    return done
