"""The nouns of `wms2`, its verbs without a noun, and how it starts and ends."""

from __future__ import annotations

import errno
import logging
import sys
import traceback
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer
from rich.markup import escape

from wms2.cli import ctrl_c
from wms2.cli.deferred import Noun, Verb, listing
from wms2.cli.screen import say
from wms2.errors import Unavailable, UserError
from wms2.temporal.tracing import flush_traces

STACK = "The stack on this machine"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Told by a write, which does not know the name of its file."""

app = typer.Typer(
    name="wms2",
    help="Run the production work of an experiment: requests become HTCondor DAGs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    cls=listing(
        Verb(
            "up",
            "stack",
            "Start Temporal, PostgreSQL, an HTCondor pool of four sites and stand-in services, all on this machine.",
            STACK,
        ),
        Verb(
            "down",
            "stack",
            "Stop everything that [bold]wms2 up[/] started, and leave no process. What was stored stays stored.",
            STACK,
        ),
        Verb(
            "status",
            "stack",
            "Show which parts of the stack are running, and where. The exit code is 1 if one is not.",
            STACK,
        ),
        Verb(
            "doctor",
            "stack",
            "Check everything the stack needs; for each thing that is wrong, say how to mend it. "
            "The exit code is then 1.",
            STACK,
        ),
        Verb("logs", "stack", "Show the logs of the stack's servers: of all, or of one.", STACK),
        Verb(
            "demo",
            "demo",
            "Start the local stack, run two requests on it, and check every event in their merged files.",
        ),
        Verb(
            "replay",
            "replay",
            "Replay histories with the code of this installation: before it is deployed, "
            "where requests are alive.",
        ),
        Noun("request", "What was asked: check, plan, submit, watch and steer requests."),
        Noun("dag", "Rounds on the pool: run one by hand, look at all."),
        Noun("output", "Outputs: where datasets are, and how to take them back."),
        Noun("policy", "What failures mean: show, check and explain the rules."),
        Noun("site", "Sites: which there are, keep jobs away from them, and let them come back."),
        Noun("notice", "Notices: what requestors, operators and sites are told, by mail and by webhook."),
        Noun("host", "Submit hosts: which there are, use them no more, and say that one is gone."),
        Noun("admission", "Admission: who has a slot, who waits, and how many there are."),
        Noun("history", "Histories of workflows: keep those that have ended."),
        Noun("worker", "The process that does the work on a submit host."),
        Noun("metrics", "Metrics of the whole system, for Prometheus."),
        Noun("database", "The database: its tables."),
        Noun("api", "The REST service."),
    ),
)


def _tell_version(asked: bool) -> None:
    if asked:
        print(f"wms2 {version('wms2')}")  # noqa: T201
        raise typer.Exit


@app.callback()
def wms2(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Typer makes a group only of what has commands or this."""


def whole_run() -> int:
    """Do what the command line says and send and write what is still to be; the exit code."""
    code = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    ctrl_c.leaves_at_once()
    flush_traces()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            # Whoever read it may be gone; whoever wrote it into a file must not take half of it for all.
            if error.errno in NO_ROOM and not code:
                _say_error(_no_room(error))
                code = 2
    return code


def main() -> None:
    """Do what the command line says: a person's mistake is one sentence on stderr, and exit code 2."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    try:
        app()
    except (UserError, Unavailable) as error:
        _refuse(str(error))
    except OSError as error:
        # A full disk, no right to write, a file in the place of a folder: what a person named and can mend.
        if error.errno in NO_ROOM:
            _refuse(_no_room(error))
        if error.filename is None:
            raise
        _refuse(
            f"cannot use {error.filename}: {str(error.strerror).lower()}; "
            "see that it is there, and that you may use it"
        )
    except KeyboardInterrupt:
        say("Interrupted.")
        sys.exit(ctrl_c.INTERRUPTED)
    except Exception as error:
        sentence = _of_the_database(error)
        if sentence is None:
            raise
        _refuse(sentence)


def _no_room(error: OSError) -> str:
    return f"there is no room left{f' for {error.filename}' if error.filename else ''}; make room, then try again"


def _of_the_database(error: Exception) -> str | None:
    # Not imported for those who meet no error.
    from sqlalchemy.exc import DBAPIError

    from wms2.db.session import trouble

    return trouble(error) if isinstance(error, DBAPIError) else None


def _refuse(sentence: str) -> NoReturn:
    _say_error(sentence)
    sys.exit(2)


def _say_error(sentence: str) -> None:
    say(f"[bold red]Error:[/] {escape(sentence)}")
