"""`wms2 api ...`: the REST service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wms2.cli.log import LogFormatOption, log_everything
from wms2.cli.screen import print_json, say
from wms2.config import Settings, load_settings

app = typer.Typer(no_args_is_help=True)

Port = Annotated[
    int | None, typer.Option("--port", min=0, max=65535, help="Another port than the file says.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Instead of what WMS2_API_CONFIG names.")
]


@app.command()
def run(config: ConfigFile = None, port: Port = None, log_format: LogFormatOption = None) -> None:
    """Run the REST service until it is stopped with Ctrl-C or SIGTERM.

    Who is let in, and where it listens, is in the file that WMS2_API_CONFIG names; without one it listens on loopback
    and lets nobody in.

    Examples: [bold]wms2 api run[/]   [bold]wms2 api run --config /etc/wms2/api.yaml --port 8461[/]
    """
    from wms2.api.config import ApiConfig, read_config
    from wms2.api.serve import serve

    settings = load_settings()
    settings.needed("temporal_address")
    settings.needed("database_url")
    path = config or settings.api_config
    chosen = read_config(path) if path else ApiConfig()
    if port is not None:
        chosen = chosen.model_copy(update={"port": port})
    log_everything(settings, log_format)
    if not chosen.grants:
        say("Nobody has a role: all but /api/v1/health is closed. Grants in the configuration file open it.")
    serve(settings, chosen)


@app.command()
def schema() -> None:
    """Print the OpenAPI document. It needs no server.

    Example: [bold]wms2 api schema > openapi.json[/]
    """
    from wms2.api.app import make_app
    from wms2.api.config import ApiConfig

    print_json(make_app(Settings(), ApiConfig()).openapi())
