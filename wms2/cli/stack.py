"""`wms2 up | down | status | doctor | logs`: the stack on one machine."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.screen import ask_first, print_json, print_line, print_table, say
from wms2.local.doctor import Check, Doctor
from wms2.local.logs import chosen_logs, new_lines
from wms2.local.process import last_lines
from wms2.local.stack import PartState, Stack

app = typer.Typer()

Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        help="The folder of the stack's state.",
        envvar="WMS2_HOME",
        show_default="~/.local/state/wms2",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


@app.command()
def up(
    home: Home = None,
    worker: Annotated[
        bool, typer.Option("--worker", help="Start a worker too, which runs the requests.")
    ] = False,
) -> None:
    """Start Temporal, PostgreSQL, an HTCondor pool of four sites and stand-in services, all on this machine.

    Running it again starts only what is dead. The first time it makes a private HTCondor, in about ten seconds.
    With --worker requests are worked on at once; without it start [bold]wms2 worker run[/] yourself.
    A part that is configured elsewhere (WMS2_DATABASE_URL, WMS2_TEMPORAL_ADDRESS, WMS2_CONDOR_CONFIG,
    WMS2_SERVICES_URL) is used and not started.

    Examples: [bold]wms2 up[/]   [bold]wms2 up --worker[/]   [bold]wms2 up --home /tmp/second[/]
    """
    stack = Stack(home, lambda text: say(escape(text)))
    stack.up(with_worker=worker)
    say(f"The stack in {escape(str(stack.home))} is up.")
    if stack.record.temporal_ui:
        say(f"Temporal's web pages: {stack.record.temporal_ui}")


@app.command()
def down(
    home: Home = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove all state too: database, queue, files.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before removing.")] = False,
) -> None:
    """Stop everything that [bold]wms2 up[/] started, and leave no process. What was stored stays stored.

    Examples: [bold]wms2 down[/]   [bold]wms2 down --purge --yes[/]
    """
    stack = Stack(home, lambda text: say(escape(text)))
    if purge:
        ask_first(f"Remove all state in {stack.home}?", yes)
    stack.down()
    if purge:
        stack.purge()
    say(f"The stack in {escape(str(stack.home))} is {'removed' if purge else 'down'}.")


@app.command()
def status(home: Home = None, json: Json = False) -> None:
    """Show which parts of the stack are running, and where. The exit code is 1 if one is not.

    Examples: [bold]wms2 status[/]   [bold]wms2 status --json[/]
    """
    stack = Stack(home)
    states = stack.states()
    if json:
        parts = [asdict(state) for state in states]
        print_json({"home": stack.home, "temporal_ui": stack.record.temporal_ui, "parts": parts})
    else:
        print_table(["PART", "STATE", "PID", "ADDRESS", "PROBLEM"], [_state_row(state) for state in states])
    if not all(state.is_well for state in states):
        raise typer.Exit(1)


def _state_row(state: PartState) -> list[object]:
    colour = "green" if state.is_well else "red"
    return [
        state.name,
        f"[{colour}]{state.state}[/]",
        state.pid or "",
        state.address,
        escape(state.problem or ""),
    ]


@app.command()
def doctor(home: Home = None, json: Json = False) -> None:
    """Check everything the stack needs; for each thing that is wrong, say how to mend it. The exit code is then 1.

    Examples: [bold]wms2 doctor[/]   [bold]wms2 doctor --json[/]
    """
    checks = list(Doctor(home).checks())
    if json:
        print_json([{"check": check.name, "ok": check.is_well, "message": check.message} for check in checks])
    else:
        print_table(["CHECK", "", "FOUND"], [_check_row(check) for check in checks])
    if not all(check.is_well for check in checks):
        raise typer.Exit(1)


def _check_row(check: Check) -> list[object]:
    mark = "[green]ok[/]" if check.is_well else "[red]wrong[/]"
    return [check.name, mark, escape(check.message)]


@app.command()
def logs(
    name: Annotated[str | None, typer.Argument(help="A part, or a log of HTCondor such as SchedLog.")] = None,
    home: Home = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what is added.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 20,
) -> None:
    """Show the logs of the stack's servers: of all, or of one.

    Examples: [bold]wms2 logs[/]   [bold]wms2 logs temporal --follow[/]   [bold]wms2 logs SchedLog -n 100[/]
    """
    files = chosen_logs(Stack(home).home, name)
    for part, file in files.items():
        for line in last_lines(file, lines):
            _show(part, line, len(files))
    if follow:
        for part, line in new_lines(files):
            _show(part, line, len(files))


def _show(part: str, line: str, files: int) -> None:
    label = f"[bold]{part}[/] " if files > 1 else ""
    print_line(f"{label}{escape(line)}")
