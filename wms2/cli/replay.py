"""`wms2 replay`: whether this version could have made the histories of workflows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
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
from wms2.temporal.histories import history_files, open_histories

app = typer.Typer()

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
DOES_NOT_REPLAY = 1
REASON_LENGTH = 300
_SAID = re.compile(r'message: "((?:[^"\\]|\\.)+)"')


@app.command()
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
    try:
        async for found in open_histories(await connect(settings)):
            yield found
    except RPCError as error:
        raise UserError(f"Temporal refused to tell of what is open: {error.message}") from error
