"""`wms2 admission ...`: who has a slot, who waits for one, and how many there are."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.request_actions import Reason, who_asks
from wms2.cli.screen import print_json, print_table, say
from wms2.config import load_settings
from wms2.errors import UserError
from wms2.models.admission import AdmissionSeen
from wms2.models.messages import AdmissionOrder

app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command()
def show(as_json: AsJson = False) -> None:
    """Show the limits, what each submit host carries, who has a slot, and who waits, in the order of their turn.

    Examples: [bold]wms2 admission show[/]
    [bold]wms2 admission show --json[/]
    """
    seen = waited(open_door(load_settings()).admission())
    if as_json:
        print_json(seen.model_dump(mode="json"))
        return
    print_table(
        ["SLOTS", "LENT", "WAITING", "IDLE BUDGET", "SHARED OUT", "STATE"],
        [
            (
                seen.limit,
                len(seen.slots),
                len(seen.waiting),
                seen.idle_budget,
                seen.idle_lent,
                _word(seen),
            )
        ],
    )
    print_table(
        ["HOST", "DAGMANS", "FREE"], [(escape(room.host), room.dagmans, room.free) for room in seen.hosts]
    )
    print_table(["TURN", "REQUEST", "ROUND", "PRIORITY", "HOST", "IDLE JOBS"], _lines(seen))


@app.command("set")
def set_(
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, max=100_000, help="How many slots there are.")
    ] = None,
    idle_budget: Annotated[
        int | None,
        typer.Option(
            "--idle-budget", metavar="N", min=1, max=10**9, help="How many idle jobs all slots share."
        ),
    ] = None,
    reason: Reason = "",
) -> None:
    """Change how many slots there are, or how many idle jobs they share. What is lent stays as it is.

    Each slot is lent with an equal share of the idle jobs, and never so many that their sum is above the budget.

    Examples: [bold]wms2 admission set --limit 200 --reason "the schedds are slow"[/]
    [bold]wms2 admission set --idle-budget 500000[/]
    """
    if limit is None and idle_budget is None:
        raise UserError("give --limit or --idle-budget; `wms2 admission show` shows what they are")
    _change("set", reason, limit=limit, idle_budget=idle_budget)


@app.command()
def drain(reason: Reason = "") -> None:
    """Lend no more slots. Rounds that have one run to their end, and no further one begins until `resume`.

    Example: [bold]wms2 admission drain --reason "upgrade tonight"[/]
    """
    _change("drain", reason)


@app.command()
def resume(reason: Reason = "") -> None:
    """Lend slots again after a drain.

    Example: [bold]wms2 admission resume --reason "the upgrade is done"[/]
    """
    _change("resume", reason)


def _change(action: Literal["set", "drain", "resume"], reason: str, **limits: int | None) -> None:
    order = AdmissionOrder.model_validate({"action": action, "reason": reason, **limits, **who_asks()})
    _say_limits(waited(open_door(load_settings()).change_admission(order)))


def _lines(seen: AdmissionSeen) -> list[tuple[object, ...]]:
    """Who has a slot, then who waits for one; of those, a host is named where the round can run on no other."""
    lent = [
        (
            "slot",
            slot.request,
            slot.round,
            "",
            escape(slot.host),
            "" if slot.idle_jobs is None else slot.idle_jobs,
        )
        for slot in seen.slots
    ]
    waiting = [
        (f"{place}.", asked.request, asked.round, asked.priority, escape(asked.host or ""), "")
        for place, asked in enumerate(seen.waiting, 1)
    ]
    return [*lent, *waiting]


def _word(seen: AdmissionSeen) -> str:
    if seen.draining:
        return "drains"
    return "lends" if seen.hosts else "no submit host can be used, see `wms2 host list`"


def _say_limits(seen: AdmissionSeen) -> None:
    say(
        f"{len(seen.slots)} of {seen.limit} slots are lent, {len(seen.waiting)} requests wait; "
        f"{seen.idle_lent} of {seen.idle_budget} idle jobs are shared out."
    )
    if seen.draining:
        say("It drains: nothing more is lent until `wms2 admission resume`.")
    if not seen.hosts:
        say("No submit host can be used; `wms2 host list` says why.")
