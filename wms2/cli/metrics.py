"""`wms2 metrics ...`"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from wms2.cli.log import LogFormatOption, log_everything
from wms2.config import load_settings

app = typer.Typer(no_args_is_help=True)


@app.command()
def run(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where it listens; 0 for a free port, which the log names.")
    ] = 9465,
    log_format: LogFormatOption = None,
) -> None:
    """Serve what the database and admission know, until it is stopped with Ctrl-C or SIGTERM.

    One such process is enough for the whole system, and none is needed where `wms2 api run` serves the same.
    Each worker serves its own metrics: [bold]wms2 worker run --metrics-port[/].

    Examples: [bold]wms2 metrics run[/]   [bold]wms2 metrics run --port 9000[/]
    """
    from wms2.metrics.server import serve_metrics

    settings = load_settings()
    log_everything(settings, log_format)
    asyncio.run(serve_metrics(settings, port))
