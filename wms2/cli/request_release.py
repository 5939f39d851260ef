"""`wms2 request release | drop`: a held request goes on, with changes, or without a part of what was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from wms2.cli.entrance import open_door, waited
from wms2.cli.request_actions import Name, NoWait, Reason, Yes, deliver, recorded_request, who_asks
from wms2.cli.screen import ask_first
from wms2.config import load_settings
from wms2.errors import UserError
from wms2.models.messages import Changes, DropAction, ReleaseAction
from wms2.models.mistakes import mistakes_of

app = typer.Typer()

M = TypeVar("M", Changes, DropAction)
UNIT = re.compile(r"(?:mg_)?(\d{1,6})")

Rescue = Annotated[
    bool,
    typer.Option("--rescue", help="Run what the open round has left once more, its rescues counted anew."),
]
ExcludeFile = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude-file", metavar="LFN", help="An input file to leave out for good; again for more."
    ),
]
AvoidSite = Annotated[
    list[str] | None,
    typer.Option("--avoid-site", metavar="SITE", help="A site to stay away from for 7 days; again for more."),
]
Memory = Annotated[int | None, typer.Option("--memory-mb", metavar="N", help="Memory of a job.")]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", metavar="F", help="The failed part of a round that holds the request."),
]
Rescues = Annotated[
    int | None, typer.Option("--max-rescues", metavar="N", help="How often a round is rescued by itself.")
]
Attempts = Annotated[
    int | None,
    typer.Option("--attempts", metavar="N", help="How often a job is tried in one run of its DAG."),
]
Files = Annotated[
    list[str] | None, typer.Option("--files", metavar="LFN", help="An input file; again for more.")
]
FilesLeft = Annotated[bool, typer.Option("--files-left", help="All input files that are not processed.")]
Units = Annotated[
    list[str] | None,
    typer.Option("--units", metavar="UNIT", help="A work unit such as mg_000003; again for more."),
]
EventsLeft = Annotated[bool, typer.Option("--events-left", help="All events that are not produced.")]


@app.command()
def release(
    name: Name,
    rescue: Rescue = False,
    exclude_file: ExcludeFile = None,
    avoid_site: AvoidSite = None,
    memory_mb: Memory = None,
    threshold: Threshold = None,
    max_rescues: Rescues = None,
    attempts: Attempts = None,
    reason: Reason = "",
    no_wait: NoWait = False,
) -> None:
    """Let a request go on that is held, or that was submitted with --hold.

    Held because work units failed: the round is closed and new rounds make up for it, or, with --rescue, the same
    DAG runs what is left. Changes are in force before it goes on, and for all rounds to come. With --exclude-file an
    open round is closed in any case.

    Examples: [bold]wms2 request release NAME --reason "site is back"[/]   [bold]wms2 request release NAME --rescue[/]
    [bold]wms2 request release NAME --avoid-site T2_US_Purdue --memory-mb 4000[/]
    """
    given = {
        "exclude_files": exclude_file,
        "avoid_sites": avoid_site,
        "memory_mb": memory_mb,
        "hold_threshold": threshold,
        "max_rescues": max_rescues,
        "attempts": attempts,
    }
    changes = _checked(name, Changes, {field: value for field, value in given.items() if value is not None})
    settings = load_settings()
    order = ReleaseAction(rescue=rescue, changes=changes, reason=reason, **who_asks())
    deliver(settings, recorded_request(settings, name), order, wait=not no_wait)


@app.command()
def drop(
    name: Name,
    files: Files = None,
    files_left: FilesLeft = False,
    units: Units = None,
    events_left: EventsLeft = False,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Do without a part of what was asked for. The request stays held; released, it completes without that part.

    An open round is closed first. Work units: their input files, or the events that they were to make.

    Examples: [bold]wms2 request drop NAME --files-left --reason "no site has them" --yes[/]
    [bold]wms2 request drop NAME --units mg_000003 --units mg_000007[/]
    """
    settings = load_settings()
    record = recorded_request(settings, name)
    given = {
        "files": files or [],
        "units": _numbers(units or []),
        "files_left": files_left,
        "events_left": events_left,
    }
    order = _checked(name, DropAction, {**given, "reason": reason, **who_asks()})
    waited(open_door(settings).check(record, order))
    ask_first(f"Drop that part of {name}? It cannot be taken back.", yes)
    deliver(settings, record, order)


def _checked(name: str, model: type[M], fields: dict[str, Any]) -> M:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise UserError(f"{name}: {'; '.join(map(str, mistakes_of(error)))}") from error


def _numbers(units: Iterable[str]) -> list[int]:
    found = {unit: UNIT.fullmatch(unit) for unit in units}
    if wrong := [unit for unit, match in found.items() if match is None]:
        raise UserError(f"{wrong[0]} is no work unit; they are named as mg_000003")
    return [int(match[1]) for match in found.values() if match]
