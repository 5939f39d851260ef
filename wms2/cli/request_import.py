"""`wms2 request import | imports`"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.screen import print_json, print_table, say
from wms2.config import load_settings
from wms2.errors import Refused, UserError
from wms2.models.chain import LinkedRequest
from wms2.models.imports import Taken
from wms2.models.parameter_set import pset_files

app = typer.Typer()

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command("import")
def import_one(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The request's name in ReqMgr2.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would become of it, and change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take on a request of ReqMgr2. A chain of tasks becomes several requests, each starts when its input is there.

    Importing it again finds the same requests. ReqMgr2 is told how far they are.

    Examples: [bold]wms2 request import NAME --dry-run[/]   [bold]wms2 request import NAME[/]
    """
    door = open_door(load_settings())
    try:
        if dry_run:
            _show(waited(door.preview_import(name)), as_json)
        else:
            _tell(waited(door.take_on(name)), as_json)
    except Refused as error:
        raise UserError(f"{name} was not imported: {error}") from error


@app.command("imports")
def list_all(
    problems: Annotated[
        bool, typer.Option("--problems", help="Only those that a person should look at.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the requests of ReqMgr2 that were looked at, the newest first: what they became, or why they could not.

    One that could not be taken on is tried again when its document changes, or with `wms2 request import`.

    Examples: [bold]wms2 request imports[/]   [bold]wms2 request imports --problems --json[/]
    """
    found = waited(open_door(load_settings()).list_imports())
    if problems:
        found = [one for one in found if one.problem or one.report_problem]
    if as_json:
        print_json([one.model_dump(mode="json") for one in found])
        return
    rows = [
        (
            escape(one.name),
            "taken" if one.is_taken else "refused",
            one.reported or "-",
            escape(", ".join(one.requests)),
            f"{one.updated_at:%Y-%m-%d %H:%M}",
            escape(one.problem or one.report_problem),
        )
        for one in found
    ]
    print_table(["NAME", "IMPORT", "IN REQMGR2", "REQUESTS", "SINCE", "PROBLEM"], rows)


def _tell(taken: Taken, as_json: bool) -> None:
    record = taken.record
    if not taken.is_same:
        say(
            f"[yellow]Note:[/] the document of {escape(record.name)} has changed since; what was taken on holds."
        )
    if as_json:
        print_json(record.model_dump(mode="json"))
        return
    for name in record.requests:
        say(f"Request [bold]{name}[/] is imported; [bold]wms2 request show {name}[/] shows where it stands.")


def _show(linked: list[LinkedRequest], as_json: bool) -> None:
    if as_json:
        print_json([link.model_dump(mode="json") for link in linked])
        return
    for note in dict.fromkeys(note for link in linked for note in link.request.notes):
        say(f"[yellow]Note:[/] {escape(note)}")
    print_table(["REQUEST", "WORK", "STARTS", "OUTPUTS", "CONFIGURATIONS"], [_row(link) for link in linked])


def _row(link: LinkedRequest) -> tuple[str, ...]:
    request = link.request
    work = f"{request.total_events} events" if request.is_simulation else str(request.input_dataset)
    return (
        request.request_name,
        work,
        f"after {link.parent}" if link.parent else "at once",
        ", ".join(request.output_datasets),
        ", ".join(file.name for file in pset_files(request.payload_config)),
    )
