"""`wms2 demo`: one round on the real engines, every event counted at the end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer

from wms2.cli.by_hand import ByHand
from wms2.cli.follow import follow, report_end
from wms2.cli.screen import duration_text, print_table, say, size_text
from wms2.config import Settings, configured_settings
from wms2.dagman.round_folder import write_round
from wms2.local.stack import start_stack, stop_stack
from wms2.models.progress import DagOutcome


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running afterwards.")] = False,
    home: Annotated[Path | None, typer.Option(help="State folder of a stack for the demo alone.")] = None,
) -> None:
    """Start the local stack, run one round on it, and check every event in the merged files.

    One job fails once on purpose, and is retried.

    Example: wms2 demo --keep
    """
    began = time.monotonic()
    folder = (home or configured_settings().home / "demo").absolute()
    say("[bold]1.[/] Starting the local stack: Temporal, PostgreSQL, an HTCondor pool of four sites.")
    try:
        settings = start_stack(folder, say=lambda text: say(f"   {text}"))
        exact = _run_round(settings, began)
    finally:
        if not keep:
            say("[bold]5.[/] Stopping the stack.")
            stop_stack(folder)
    if keep:
        say(f"The stack is running; stop it with: wms2 down --home {folder}")
    if not exact:
        raise typer.Exit(1)


def _run_round(settings: Settings, began: float) -> bool:
    # Imported here: reading ROOT files costs a second, which no other command should pay.
    from wms2.local.demo import count_events, demo_plan, demo_request, sites_and_retries

    request = demo_request(settings.home / "submit" / "demo_faults")
    plan = demo_plan(request)
    folder = settings.home / "submit" / request.request_name / "round_00"
    write_round(plan, folder)
    say(
        f"[bold]2.[/] Planned {request.request_name}: {plan.events} events in {plan.jobs} jobs, "
        f"{len(plan.work_units)} work units, in {folder}"
    )
    say("[bold]3.[/] Running it on the pool.")
    by_hand = ByHand(settings)
    dag = asyncio.run(by_hand.start_round(folder))
    progress = asyncio.run(follow(by_hand.activities, dag))
    report_end(dag, progress, asyncio.run(by_hand.activities.explain_dag(dag)), as_json=False)
    say("[bold]4.[/] Opening the merged ROOT files and looking for every event number.")
    count = count_events(settings.home, folder)
    sites, retries = sites_and_retries(folder)
    print_table(
        ["", ""],
        [
            ("events planned", count.planned),
            ("events found in merged files", count.found),
            ("event numbers missing", count.missing),
            ("event numbers twice", count.twice),
            ("events with wrong values", count.wrong_values),
            ("merged files", f"{count.files} ({size_text(count.size_bytes)})"),
            ("sites", ", ".join(sites)),
            ("attempts repeated", retries),
            ("time", duration_text(time.monotonic() - began)),
        ],
    )
    exact = count.exact and progress.outcome is DagOutcome.COMPLETED
    say("[bold green]Every event is accounted for.[/]" if exact else "[bold red]The events do not add up.[/]")
    return exact
