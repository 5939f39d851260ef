"""`wms2 request submit | list | show`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.request_show import print_ledger, print_overview
from wms2.cli.screen import print_json, print_table, say
from wms2.config import load_settings
from wms2.models.request import Request, RequestStatus
from wms2.models.request_file import validate_request_file
from wms2.models.site import Site

app = typer.Typer()

File = Annotated[Path, typer.Argument(metavar="FILE", help="A request file, YAML or JSON.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command()
def submit(
    file: File,
    hold: Annotated[bool, typer.Option("--hold", help="Keep it in status new until it is released.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a request. It is recorded first, and then lives on its own.

    Submitting the same file again is refused, unless an interruption left it recorded but not started.

    Examples: [bold]wms2 request submit examples/simulation.yaml[/]   [bold]wms2 request submit FILE --hold[/]
    """
    request, door = validate_request_file(file), open_door(load_settings())
    for site in _unknown_sites(request, waited(door.list_sites())):
        say(f"[yellow]Note:[/] CRIC does not list {site}: check its name if that surprises you.")
    waited(door.submit(request, hold=hold))
    name = request.request_name
    if as_json:
        status = RequestStatus.NEW if hold else RequestStatus.SUBMITTED
        print_json({"request_name": name, "status": status})
    elif hold:
        say(f"Request [bold]{name}[/] is recorded; [bold]wms2 request release {name}[/] starts it.")
    else:
        say(f"Request [bold]{name}[/] is submitted; [bold]wms2 request watch {name}[/] follows it.")


def _unknown_sites(request: Request, known: Sequence[Site]) -> list[str]:
    """Those of its site lists that look like a slip; none while nobody knows which sites there are."""
    listed = {site.name for site in known if site.cric_seen_at is not None}
    named = (*request.site_whitelist, *request.site_blacklist)
    return [site for site in named if site not in listed] if listed else []


@app.command("list")
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
    requests = waited(open_door(load_settings()).list_requests(status or (), campaign))
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


@app.command()
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
    door = open_door(load_settings())
    overview = waited(door.overview(name))
    differences = waited(door.discrepancies(name)) if ledger else None
    if as_json:
        print_json(overview.model_dump(mode="json") | ({"discrepancies": differences} if ledger else {}))
    elif ledger:
        print_ledger(overview, differences)
    else:
        print_overview(overview)
