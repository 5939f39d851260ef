"""`wms2 replay` and `wms2 history ...`: histories of workflows, and whether this version could have made them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from temporalio.client import WorkflowHistory
from temporalio.service import RPCError

from wms2.cli.screen import messages, print_json, say
from wms2.config import Settings, load_settings
from wms2.core.plain import plain_line
from wms2.errors import UserError
from wms2.temporal.client import connect
from wms2.temporal.histories import Exported, export_closed, history_files, open_histories

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
DOES_NOT_REPLAY = 1
REASON_LENGTH = 300
_SAID = re.compile(r'message: "((?:[^"\\]|\\.)+)"')

app = typer.Typer(help="Histories of workflows: keep those that have ended.", no_args_is_help=True)


def register(whole: typer.Typer) -> None:
    """Add the verb to `wms2`."""
    whole.command()(replay)


@app.callback()
def history() -> None:
    """Histories of workflows: keep those that have ended."""


def replay(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...", help="Files of histories, or folders of them.", show_default=False
        ),
    ] = None,
    all_open: Annotated[
        bool, typer.Option("--all-open", help="Those of all workflows that have not ended, from Temporal.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replay histories with the code of this installation: before it is deployed, where requests are alive.

    It changes nothing. A history that this version would not have made is told in a sentence, and the exit code is 1.

    Examples: [bold]wms2 replay --all-open[/]   [bold]wms2 replay /backup/histories[/]
    """
    if all_open == bool(files):
        raise UserError("say what is to be replayed: either files, or --all-open")
    replayed, failures = asyncio.run(_replay(files or [], load_settings() if all_open else None))
    if as_json:
        print_json(
            {"replayed": replayed, "failed": [{"history": name, "why": why} for name, why in failures]}
        )
    else:
        for name, why in failures:
            say(f"[bold red]{escape(name)}[/] does not replay: {escape(why)}")
        say(f"{replayed} histories replayed, {len(failures)} of them do not fit this version.")
    if failures:
        raise typer.Exit(DOES_NOT_REPLAY)


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


async def _replay(files: list[Path], settings: Settings | None) -> tuple[int, list[tuple[str, str]]]:
    """How many there were, and of those that do not replay, name and reason."""
    # What the worker loads takes a second, and only this verb needs it.
    from wms2.worker import make_replayer

    histories = history_files(files) if settings is None else _of_temporal(settings)
    replayed, failures = 0, list[tuple[str, str]]()
    with messages.status("replaying") as status:
        async with make_replayer().workflow_replay_iterator(histories) as results:
            async for result in results:
                replayed += 1
                if result.replay_failure is not None:
                    name = result.history.workflow_id
                    failures.append((name, sentence(result.replay_failure)))
                status.update(f"{replayed} histories replayed, {len(failures)} do not fit")
    return replayed, failures


def sentence(failure: Exception) -> str:
    """What the SDK says of it, without the structure around it."""
    said = _SAID.search(str(failure))
    return plain_line(said[1].replace('\\"', '"') if said else str(failure), REASON_LENGTH)


async def _of_temporal(settings: Settings) -> AsyncIterator[WorkflowHistory]:
    async for found in open_histories(await connect(settings)):
        yield found


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
