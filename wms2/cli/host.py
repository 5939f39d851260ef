"""`wms2 host ...`: submit hosts, which of them are used, and which are gone."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.request_actions import Reason, Yes, who_asks
from wms2.cli.screen import ask_first, print_json, print_table, say
from wms2.config import load_settings
from wms2.errors import UserError
from wms2.models.audit import Action
from wms2.models.host import KnownHost
from wms2.temporal.queues import host_queue

app = typer.Typer(no_args_is_help=True)

Host = Annotated[str, typer.Argument(metavar="HOST", help="The name that its worker has.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the submit hosts that are known: what they can carry, when they were heard of, and why one is not used.

    Examples: [bold]wms2 host list[/]
    [bold]wms2 host list --json[/]
    """
    door = open_door(load_settings())
    known, away = waited(door.list_hosts()), waited(door.vanished_hosts())
    if as_json:
        print_json([host.model_dump(mode="json") for host in known])
        return
    print_table(
        ["HOST", "SCHEDD", "DAGMANS", "OPEN ROUNDS", "VERSION", "HEARD OF", "NOT USED BECAUSE"],
        [_line(host) for host in known],
    )
    if away:
        say(f"Not there, and disabled when they return: {escape(', '.join(away))}.")


@app.command()
def disable(host: Host, reason: Reason = "") -> None:
    """Lend no more slots on a submit host, until somebody enables it; also when it vanishes and returns.

    Rounds that run there go on to their end. Those that are stopped wait for it: they can run nowhere else.

    Example: [bold]wms2 host disable submit2 --reason "new disks on Monday"[/]
    """
    _say(host, "disable", reason)


@app.command()
def enable(host: Host, reason: Reason = "") -> None:
    """Lend slots on a submit host again.

    Example: [bold]wms2 host enable submit2 --reason "the disks are in"[/]
    """
    _say(host, "enable", reason)


@app.command()
def lost(host: Host, reason: Reason = "", yes: Yes = False) -> None:
    """Say that a submit host does not come back. Requests with a round there are held until they are released.

    A release then closes the round from what was credited, and plans another one elsewhere. Should the host come back
    all the same, its worker first removes the DAGs of closed rounds: nothing counts twice.

    Example: [bold]wms2 host lost submit2 --reason "its disk is broken" --yes[/]
    """
    _check(host)
    door = open_door(load_settings())
    known = next((one for one in waited(door.list_hosts()) if one.name == host), None)
    ask_first(
        f"Give up {host}, and what {known.open_rounds if known else 0} requests have not credited of their "
        "rounds there? It cannot be taken back.",
        yes,
    )
    given_up = waited(door.give_up_host(host, _deed("lost", host, reason)))
    held, refused = given_up.held, given_up.refused
    if refused:
        raise UserError(
            f"{len(refused)} of {len(held) + len(refused)} requests refused: " + "; ".join(refused)
        )
    say(
        escape(
            f"{host} is given up; {len(held)} requests are held. `wms2 request release NAME` lets one go on elsewhere."
        )
    )
    _wonder(host, known)


def _say(host: str, verb: str, reason: str) -> None:
    _check(host)
    door = open_door(load_settings())
    known = waited(door.set_host_disabled(host, verb == "disable", _deed(verb, host, reason)))
    say(f"{escape(host)} is {verb}d.")
    _wonder(host, known)
    if known and verb == "enable" and known.unused_because:
        say(f"It is not used all the same: {escape(known.unused_because)}.")


def _deed(verb: str, host: str, reason: str) -> Action:
    return Action(action=f"host_{verb}", reason=reason, detail={"host": host}, **who_asks())


def _wonder(host: str, known: KnownHost | None) -> None:
    """A host may be spoken of before its worker comes; a name with a slip in it looks the same."""
    if known is None:
        say(f"No worker has announced {escape(host)}: check its name if that surprises you.")


def _line(host: KnownHost) -> tuple[object, ...]:
    heard = f"{host.last_seen_at.astimezone(UTC):%Y-%m-%d %H:%M}"
    why = host.unused_because or ""
    columns = (
        host.name, host.schedd_name, host.max_dagmans, host.open_rounds, host.version, heard, why,
    )  # fmt: skip
    return tuple(escape(str(column)) for column in columns)


def _check(host: str) -> None:
    try:
        host_queue(host)
    except ValueError:
        raise UserError(
            f"{host!r} is no name of a host; `wms2 host list` shows those that are known"
        ) from None
