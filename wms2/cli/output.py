"""`wms2 output ...`: the datasets that requests make, and how to take them back."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.request_actions import Name, Reason, Yes, recorded_request, who_asks
from wms2.cli.screen import ask_first, print_json, print_line, print_table, say, size_text
from wms2.config import load_settings
from wms2.errors import Missing
from wms2.models.output import OutputStanding, OutputStatus
from wms2.models.output_list import ListedOutput, OutputDetails, OutputProblem
from wms2.models.undo import UndoOrder

app = typer.Typer(no_args_is_help=True)

OfDataset = Annotated[
    str | None, typer.Option("--dataset", metavar="DATASET", help="One of them; else all of the request.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command("list")
def list_(
    request: Annotated[str | None, typer.Option("--request", metavar="NAME", help="Of one request.")] = None,
    status: Annotated[list[OutputStatus] | None, typer.Option(help="Only these; may be repeated.")] = None,
    standing: Annotated[
        list[OutputStanding] | None, typer.Option(help="Only these; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List output datasets, newest first: how far they are, and whether people should use them.

    Examples: [bold]wms2 output list --request NAME[/]
    [bold]wms2 output list --standing superseded --json[/]
    """
    settings = load_settings()
    if request is not None:
        recorded_request(settings, request)
    found = waited(open_door(settings).list_outputs(request, status or (), standing or ()))
    if as_json:
        print_json([output.model_dump(mode="json") for output in found])
        return
    columns = [
        "DATASET",
        "REQUEST",
        "STATUS",
        "STANDING",
        "BLOCKS",
        "PROTECTED",
        "REGISTERED",
        "EVENTS",
        "SIZE",
    ]
    print_table(columns, [_row(output) for output in found])


@app.command()
def show(name: Name, dataset: OfDataset = None, as_json: AsJson = False) -> None:
    """Show the output datasets of a request with their blocks: where each is, and which rules of Rucio hold it.

    Example: [bold]wms2 output show NAME[/]
    """
    settings = load_settings()
    makes = [output.dataset for output in recorded_request(settings, name).request.outputs]
    if dataset not in (None, *makes):
        raise Missing(f"{name} makes no dataset {dataset}; it makes {', '.join(makes)}")
    listed = waited(open_door(settings).outputs_of(name))
    found = [output for output in listed if dataset in (None, output.dataset)]
    if as_json:
        print_json(
            [
                {
                    **output.model_dump(mode="json", exclude={"blocks_of_it"}),
                    "blocks": [block.model_dump(mode="json") for block in output.blocks_of_it],
                }
                for output in found
            ]
        )
        return
    if not found:
        say(escape(f"{name} has made nothing{f' for {dataset}' if dataset else ''} yet."))
    for output in found:
        _print_output(output)


@app.command()
def invalidate(name: Name, dataset: OfDataset = None, reason: Reason = "", yes: Yes = False) -> None:
    """Take back what DBS and Rucio were told of a request's outputs: datasets become INVALID, rules are deleted.

    The request must have ended. Rucio removes the files when no rule of anybody holds them any more.

    Example: [bold]wms2 output invalidate NAME --reason "wrong conditions" --yes[/]
    """
    door = open_door(load_settings())
    found = waited(door.outputs_to_undo(name, dataset))
    files = sum(output.files for output in found)
    ask_first(f"Invalidate {len(found)} datasets with {files} files of {name}? This is final.", yes)
    waited(door.undo(UndoOrder(request=name, dataset=dataset, reason=reason, **who_asks())))
    say(escape(f"The outputs of {name} are being taken back; `wms2 output show {name}` tells how far it is."))


def _row(output: ListedOutput) -> tuple[object, ...]:
    return (
        output.dataset,
        output.request,
        output.status,
        output.standing,
        output.blocks,
        f"{output.protected} of {output.files}",
        output.registered,
        output.events,
        size_text(output.size_bytes),
    )


def _in_words(problem: OutputProblem) -> str:
    """What went wrong at which step, and what comes next."""
    said = f"{problem.step}: {problem.problem}"
    if problem.since is not None:
        said += f", since {problem.since:%Y-%m-%d %H:%M}"
    if problem.failures:
        following = f"the next time at {problem.again_at:%Y-%m-%d %H:%M}" if problem.again_at else "now again"
        said += f"; tried {problem.failures} times in vain, {following}"
    return said


def _print_output(output: OutputDetails) -> None:
    print_line(f"[bold]{escape(output.dataset)}[/] is {output.status}, {output.standing}")
    if output.invalidated_at is not None:
        why = f": {output.invalidation_reason}" if output.invalidation_reason else ""
        print_line(escape(f"  taken back {output.invalidated_at:%Y-%m-%d %H:%M}{why}"))
    elif output.cleanup_at is not None:
        print_line(f"  will be taken back {output.cleanup_at:%Y-%m-%d %H:%M}")
    for problem in output.problems or ():
        print_line(escape(f"  {_in_words(problem)}"))
    if output.problems is None:
        say(
            "  no worker answers, so nobody knows whether it gets on: `wms2 status` and `wms2 doctor` tell more"
        )
    rows = [
        (
            block.block_name.partition("#")[2],
            block.status,
            block.source_rse or block.source_site,
            block.files,
            block.events,
            size_text(block.size_bytes),
            f"{block.dbs_registered_at:%Y-%m-%d %H:%M}" if block.dbs_registered_at else "",
            "released" if block.source_released else block.source_rule_id or "",
            " ".join(block.transfer_rule_ids),
        )
        for block in output.blocks_of_it
    ]
    columns = [
        "BLOCK",
        "STATUS",
        "MADE AT",
        "FILES",
        "EVENTS",
        "SIZE",
        "IN DBS",
        "SOURCE RULE",
        "OTHER RULES",
    ]
    print_table(columns, rows)
