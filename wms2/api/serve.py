"""Serving the application with uvicorn."""

from __future__ import annotations

import asyncio
import gc
import sys

import uvicorn

from wms2.api.app import make_app
from wms2.api.config import ApiConfig
from wms2.api.tls import PeerProtocol, server_context
from wms2.config import Settings
from wms2.errors import UserError
from wms2.watchdog import watched

CALLS_AT_ONCE = 200
KEEP_ALIVE_SEC = 20
GRACE_SEC = 10
TURN_SEC = 0.0005
"""How long a thread computes while another waits for its turn. A call asks the database up to twenty times, and waits
for a turn after each answer: with Python's own 5 ms, a few callers at once would make each other late."""


def server(settings: Settings, config: ApiConfig) -> uvicorn.Server:
    """Ready to serve. Headers that name another client are not believed."""
    context = server_context(config.tls) if config.tls else None
    return uvicorn.Server(
        uvicorn.Config(
            make_app(settings, config),
            host=config.host,
            port=config.port,
            http=PeerProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")],
            limit_concurrency=CALLS_AT_ONCE,
            timeout_keep_alive=KEEP_ALIVE_SEC,
            timeout_graceful_shutdown=GRACE_SEC,
            ssl_context_factory=(lambda _, __: context) if context else None,
        )
    )


def serve(settings: Settings, config: ApiConfig) -> None:
    """Until it is told to stop."""
    running = server(settings, config)
    sys.setswitchinterval(TURN_SEC)
    # What is there by now stays for good; looking through it for garbage would stop everybody for a tenth of a second.
    gc.freeze()
    try:
        asyncio.run(_serve(running))
    except SystemExit:
        raise UserError(
            f"{config.host}:{config.port} cannot be listened on; is another service there? choose another port"
        ) from None


async def _serve(running: uvicorn.Server) -> None:
    async with watched():
        await running.serve()
