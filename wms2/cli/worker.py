"""`wms2 worker ...`"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Annotated

import typer

from wms2.cli.log import LogFormatOption, log_everything
from wms2.config import load_settings
from wms2.errors import UserError
from wms2.temporal.queues import host_queue

app = typer.Typer(no_args_is_help=True)


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
            min=0,
            max=65535,
            help="Serve Prometheus metrics at this port of WMS2_METRICS_ADDRESS, 127.0.0.1; 0 for none.",
        ),
    ] = None,
    central: Annotated[
        bool,
        typer.Option(
            "--central",
            help="Serve no submit host: only workflows, records and outside services, which need none.",
        ),
    ] = False,
    log_format: LogFormatOption = None,
) -> None:
    """Run requests on this submit host until it is stopped with Ctrl-C or SIGTERM.

    It can be stopped and started, or killed, at any time: what it was doing goes on when it is back. With credentials
    for Temporal that were renewed in their files it begins anew by itself.

    Examples: [bold]wms2 worker run[/]   [bold]wms2 worker run --host submit-1 --metrics-port 9464[/]
    """
    from wms2.worker import run_worker

    name = None if central else _host_name(host)
    settings = load_settings()
    log_everything(settings, log_format)
    if asyncio.run(run_worker(settings, name, metrics_port)):
        # As a whole: whatever holds a connection to Temporal is made with the new credentials.
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606


def _host_name(given: str | None) -> str:
    name = (given or socket.gethostname()).lower()
    try:
        host_queue(name)
    except ValueError:
        raise UserError(f"{name!r} is no host name; give one with --host") from None
    return name
