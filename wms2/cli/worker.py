"""`wms2 worker ...`"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from typing import Annotated

import typer
from sqlalchemy.exc import OperationalError

from wms2.adapters.dbs import DbsUnavailable
from wms2.config import load_settings
from wms2.errors import Unavailable, UserError
from wms2.temporal.queues import host_queue

app = typer.Typer(help="The process that does the work on a submit host.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The process that does the work on a submit host."""


@app.command()
def run(
    host: Annotated[
        str | None,
        typer.Option(
            help="The name of this submit host; keep it the same for as long as its folders live.",
            envvar="WMS2_HOST",
            show_default="the machine's name",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Serve Prometheus metrics on 127.0.0.1 at this port; 0 for none."
        ),
    ] = None,
) -> None:
    """Run requests on this submit host until it is stopped with Ctrl-C or SIGTERM.

    It can be stopped and started, or killed, at any time: what it was doing goes on when it is back.

    Examples: [bold]wms2 worker run[/]   [bold]wms2 worker run --host submit-1 --metrics-port 9464[/]
    """
    from wms2.worker import run_worker

    name = (host or socket.gethostname()).lower()
    try:
        host_queue(name)
    except ValueError:
        raise UserError(f"{name!r} is no host name; give one with --host") from None
    _log_everything()
    asyncio.run(run_worker(load_settings(), name, metrics_port))


def _log_everything() -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("temporalio.activity").addFilter(in_one_line)


def in_one_line(record: logging.LogRecord) -> bool:
    """Somebody else is away, or a person made a mistake: the sentence says it, and no stack trace tells more."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, (OperationalError, DbsUnavailable, Unavailable, UserError)):
        record.msg, record.args = f"{record.getMessage()}: {str(error).splitlines()[0]}", ()
        record.exc_info = None
    return True
