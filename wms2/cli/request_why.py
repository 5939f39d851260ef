"""`wms2 request why`"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.request_show import moment
from wms2.cli.screen import print_json, print_table
from wms2.config import load_settings
from wms2.core.plain import plain_line

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

REASON_LENGTH = 1000


@app.command()
def why(name: Name, as_json: AsJson = False) -> None:
    """Tell everything that happened to a request and everything that was decided, with the rule and its inputs.

    Examples: [bold]wms2 request why demo_simulation[/]   [bold]wms2 request why demo_simulation --json[/]
    """
    story = waited(open_door(load_settings()).story(name))
    if as_json:
        print_json([event.model_dump(mode="json") for event in story])
        return
    print_table(
        ["AT", "WHAT", "", "BY", "WHY"],
        [
            (
                moment(event.at),
                event.kind,
                escape(plain_line(event.what)),
                escape(plain_line(event.actor, 100)),
                escape(plain_line(event.why, REASON_LENGTH)),
            )
            for event in story
        ],
    )
