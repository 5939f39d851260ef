"""`wms2 demo`: two requests on the real engines, every event counted at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from sqlalchemy.exc import OperationalError

from wms2.cli.by_hand import connect_database
from wms2.cli.entrance import open_door
from wms2.cli.request_actions import act
from wms2.cli.request_watch import watch_requests
from wms2.cli.screen import print_table, say, size_text
from wms2.config import Settings, StackRecord, configured_settings
from wms2.db.requests import list_requests
from wms2.db.session import transaction
from wms2.errors import Unavailable, UserError
from wms2.local.stack import start_stack, stop_stack
from wms2.models.actions import Action
from wms2.models.overview import RequestOverview
from wms2.models.request import Request, RequestStatus

app = typer.Typer()

if TYPE_CHECKING:
    from wms2.local.tally import RequestReport

LIMIT_SEC = 600


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running afterwards.")] = False,
    home: Annotated[Path | None, typer.Option(help="State folder of a stack for the demo alone.")] = None,
) -> None:
    """Start the local stack, run two requests on it, and check every event in their merged files.

    One makes events, the other reads a dataset; one job fails once on purpose. The exit code is 1 if anything went
    wrong. Ctrl-C stops everything.

    Examples: [bold]wms2 demo[/]   [bold]wms2 demo --keep[/]
    """
    began = time.monotonic()
    folder = _folder(home)
    # Whoever ends the demo, its stack ends with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stays = False
    try:
        flaws = _run(folder)
        stays = keep
    except (UserError, Unavailable) as error:
        flaws, stays = [str(error)], keep
    except OperationalError:
        flaws, stays = ["the database does not answer"], keep
    except KeyboardInterrupt:
        say("Interrupted.")
        raise
    finally:
        if not stays:
            say("[bold]5.[/] Stopping the stack.")
            stop_stack(folder, _step)
    _tell_the_end(folder, flaws, time.monotonic() - began, stays=stays)
    if flaws:
        raise typer.Exit(1)


def _folder(home: Path | None) -> Path:
    """The demo's own state folder; from here on everything in this process uses the stack in it."""
    usual = configured_settings().home
    folder = configured_settings(home or usual.with_name(f"{usual.name}-demo")).home
    os.environ["WMS2_HOME"] = str(folder)
    return folder


def _run(folder: Path) -> list[str]:
    """All of it but the end; what is wrong, in words."""
    say("[bold]1.[/] Starting the local stack: Temporal, PostgreSQL, an HTCondor pool and a worker.")
    settings = start_stack(folder, say=_step, with_worker=True)
    # Imported here: reading ROOT files costs a second, which no other command should pay.
    from wms2.local.demo import CAMPAIGN, read_requests, report_request

    _abort_earlier_ones(settings, CAMPAIGN)
    say("[bold]2.[/] Making an input dataset, and submitting two requests.")
    requests = asyncio.run(read_requests(settings, datetime.now(UTC)))
    asyncio.run(_submit(settings, requests))
    say("[bold]3.[/] Both requests run; one job is going to fail once.")
    overviews = asyncio.run(_watch(folder, [request.request_name for request in requests]))
    say("[bold]4.[/] Opening the merged ROOT files and looking for every event number.")
    reports = [report_request(settings, overview) for overview in overviews]
    print_report(reports)
    return [f"{report.name}: {flaw}" for report in reports for flaw in report.flaws()]


def _step(text: str) -> None:
    say(f"   {escape(text)}")


def _abort_earlier_ones(settings: Settings, campaign: str) -> None:
    """What an interrupted run left behind would go on beside this one; what is held waits for a person."""
    with transaction(connect_database(settings)) as session:
        left = list_requests(session, [status for status in RequestStatus if not _is_over(status)], campaign)
    for request in left:
        try:
            act(Action.ABORT, request.request_name, "a new demo begins")
        except UserError as error:
            _step(str(error))


async def _submit(settings: Settings, requests: Sequence[Request]) -> None:
    for request in requests:
        await open_door(settings).submit(request)
        work = (
            f"{request.total_events} events" if request.is_simulation else f"all of {request.input_dataset}"
        )
        _step(f"{request.request_name}: {work}")


async def _watch(folder: Path, names: Sequence[str]) -> list[RequestOverview]:
    try:
        async with asyncio.timeout(LIMIT_SEC):
            return await watch_requests(folder, names, _is_over)
    except TimeoutError:
        raise UserError(f"{' and '.join(names)} did not end within {LIMIT_SEC // 60} minutes") from None


def _is_over(status: RequestStatus) -> bool:
    return status.is_final or status is RequestStatus.HELD


def print_report(reports: Sequence[RequestReport]) -> None:
    """A column for each request."""
    columns = [_column(report) for report in reports]
    print_table(
        ["", *(report.name for report in reports)],
        [(row, *(column[row] for column in columns)) for row in columns[0]],
    )


def _column(report: RequestReport) -> dict[str, object]:
    return {
        "events requested": report.requested,
        "events produced": report.produced,
        "found in merged ROOT files": report.events.found,
        "event numbers missing": report.events.missing,
        "event numbers twice": report.events.twice,
        "event numbers unexpected": report.events.unexpected,
        "events with wrong values": report.wrong_values,
        "merged files": f"{report.files} ({size_text(report.size_bytes)})",
        "sites": "\n".join(report.sites),
        "attempts repeated": report.repeated,
        "rounds": report.rounds,
        "time": f"{report.seconds:.0f} s",
    }


def _tell_the_end(folder: Path, flaws: Sequence[str], seconds: float, *, stays: bool) -> None:
    for flaw in flaws:
        say(f"[bold red]Wrong:[/] {escape(flaw)}")
    if flaws and not stays:
        say(f"Its logs are in {folder / 'logs'}; wms2 up --worker --home {folder} starts the stack again.")
    elif not flaws:
        say(f"[bold green]Every event is accounted for.[/] All of it took {seconds:.0f} s.")
    if stays:
        say(
            f"The stack is running. Web UI:    {StackRecord.read(folder).temporal_ui or 'the configured one'}"
        )
    if stays or flaws:
        say(f"To look: WMS2_HOME={folder} wms2 request list")
    if stays:
        say(f"To stop: wms2 down --home {folder}")
