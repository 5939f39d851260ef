"""`wms2 request submit | list | show`"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from sqlalchemy import Engine
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from wms2.cli.by_hand import connect_database
from wms2.cli.request_show import print_ledger, print_overview
from wms2.cli.screen import print_json, print_table, say
from wms2.config import Settings, load_settings
from wms2.core.ledger import discrepancies
from wms2.db.crosscheck import cross_check
from wms2.db.ledger import rounds_of
from wms2.db.overview import request_overview
from wms2.db.requests import find_request, insert_request, list_requests
from wms2.db.session import RecordConflict, transaction
from wms2.errors import UserError
from wms2.models.request import Request, RequestStatus
from wms2.models.request_file import validate_request_file
from wms2.temporal.client import connect
from wms2.temporal.launch import start_request

File = Annotated[Path, typer.Argument(metavar="FILE", help="A request file, YAML or JSON.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to `wms2 request`."""
    app.command()(submit)
    app.command("list")(list_all)
    app.command()(show)


def submit(
    file: File,
    hold: Annotated[bool, typer.Option("--hold", help="Keep it in status new until it is released.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a request. It is recorded first, and then lives on its own.

    Submitting the same file again is refused, unless an interruption left it recorded but not started.

    Examples: [bold]wms2 request submit examples/simulation.yaml[/]   [bold]wms2 request submit FILE --hold[/]
    """
    request = validate_request_file(file)
    asyncio.run(submit_request(load_settings(), request, hold=hold))
    name = request.request_name
    if as_json:
        status = RequestStatus.NEW if hold else RequestStatus.SUBMITTED
        print_json({"request_name": name, "status": status})
    elif hold:
        say(f"Request [bold]{name}[/] is recorded; [bold]wms2 request release {name}[/] starts it.")
    else:
        say(f"Request [bold]{name}[/] is submitted; [bold]wms2 request watch {name}[/] follows it.")


async def submit_request(settings: Settings, request: Request, *, hold: bool = False) -> None:
    """The row first, then the workflow: the row guards the name for good, and a restart finds what is missing."""
    engine = connect_database(settings)
    client = await connect(settings)
    _record(engine, request, RequestStatus.NEW if hold else RequestStatus.SUBMITTED)
    try:
        await start_request(client, request, hold=hold)
    except WorkflowAlreadyStartedError:
        raise _name_is_taken(request) from None
    except RPCError as error:
        raise UserError(
            f"{request.request_name} is recorded, but Temporal did not start it ({error.message}); "
            "start a worker, which prepares Temporal, and submit it again"
        ) from error


def _record(engine: Engine, request: Request, status: RequestStatus) -> None:
    """Insert the request; one that is known is taken only if nothing was ever done with it."""
    name = request.request_name
    with transaction(engine) as session:
        known = find_request(session, name)
        if known is None:
            insert_request(session, request, status)
        elif known.request != request or known.status_sequence > 0 or rounds_of(session, name):
            raise _name_is_taken(request)


def _name_is_taken(request: Request) -> RecordConflict:
    return RecordConflict(
        f"a request named {request.request_name} exists already; `wms2 request show {request.request_name}` shows it, "
        "and another name makes this one new"
    )


def list_all(
    status: Annotated[
        list[RequestStatus] | None, typer.Option("--status", help="Only in this status; again for more.")
    ] = None,
    campaign: Annotated[str | None, typer.Option("--campaign", help="Only of this campaign.")] = None,
    as_json: AsJson = False,
) -> None:
    """List requests, highest priority first, then oldest.

    Examples: [bold]wms2 request list --status held[/]   [bold]wms2 request list --campaign Demo2024 --json[/]
    """
    with transaction(connect_database(load_settings())) as session:
        requests = list_requests(session, status or (), campaign)
    if as_json:
        print_json([request.model_dump(mode="json") for request in requests])
        return
    print_table(
        ["REQUEST", "STATUS", "PRIORITY", "CAMPAIGN", "REQUESTOR", "SINCE", "REASON"],
        [
            (
                request.request_name,
                request.status,
                f"{request.priority}{' urgent' if request.urgent else ''}",
                request.campaign,
                request.requestor,
                f"{request.updated_at:%Y-%m-%d %H:%M}",
                escape(request.status_reason),
            )
            for request in requests
        ],
    )


def show(
    name: Name,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Show what became of every event and file that was planned.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one request: its status and how it came there, its rounds, DAGs and outputs.

    Examples: [bold]wms2 request show demo_simulation[/]   [bold]wms2 request show demo_simulation --ledger[/]
    """
    with transaction(connect_database(load_settings())) as session:
        overview = request_overview(session, name)
        # A round that is open has loose ends, as it should.
        check = cross_check(session, name) if ledger and overview.open_round is None else None
    differences = None if check is None else discrepancies(check)
    if as_json:
        print_json(overview.model_dump(mode="json") | ({"discrepancies": differences} if ledger else {}))
    elif ledger:
        print_ledger(overview, differences)
    else:
        print_overview(overview)
