"""`wms2`: the hand of operators and requestors."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

import typer
from rich.markup import escape
from sqlalchemy.exc import OperationalError

from wms2.cli import (
    admission,
    api,
    dag,
    database,
    demo,
    history,
    host,
    metrics,
    notice,
    output,
    policy,
    request,
    site,
    stack,
    worker,
)
from wms2.cli.screen import say
from wms2.errors import Unavailable, UserError
from wms2.temporal.tracing import flush_traces

app = typer.Typer(
    name="wms2",
    help="Run the production work of an experiment: requests become HTCondor DAGs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(request.app, name="request")
app.add_typer(dag.app, name="dag")
app.add_typer(output.app, name="output")
app.add_typer(policy.app, name="policy")
app.add_typer(site.app, name="site")
app.add_typer(notice.app, name="notice")
app.add_typer(host.app, name="host")
app.add_typer(admission.app, name="admission")
app.add_typer(history.app, name="history")
app.add_typer(worker.app, name="worker")
app.add_typer(metrics.app, name="metrics")
app.add_typer(database.app, name="database")
app.add_typer(api.app, name="api")
stack.register(app)
demo.register(app)
history.register(app)


def program() -> NoReturn:
    """What the `wms2` command runs: `main`, and then an end without Python's own tidying up.

    Threads of Temporal's SDK may still be at work, and Python now and then aborts over them while it tidies up.
    """
    code = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    flush_traces()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        # Whoever read it may be gone.
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def main() -> None:
    """Do what the command line says: a person's mistake is one sentence on stderr, and exit code 2."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    try:
        app()
    except (UserError, Unavailable) as error:
        _refuse(str(error))
    except OperationalError:
        _refuse("the database does not answer; `wms2 status` shows the stack, `wms2 up` starts it")
    except KeyboardInterrupt:
        say("Interrupted.")
        sys.exit(130)


def _refuse(sentence: str) -> NoReturn:
    say(f"[bold red]Error:[/] {escape(sentence)}")
    sys.exit(2)
