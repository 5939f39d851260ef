"""Serving the metrics of the whole system, where the REST service does not run."""

from __future__ import annotations

import asyncio
import logging
import signal

from prometheus_client import CollectorRegistry, start_http_server

from wms2.config import Settings
from wms2.core.time_limits import limits_with
from wms2.db.session import connect
from wms2.errors import UserError
from wms2.metrics.admission import AdmissionQuestion
from wms2.metrics.collector import SystemCollector
from wms2.watchdog import watched

log = logging.getLogger(__name__)


async def serve_metrics(settings: Settings, port: int) -> None:
    """Until SIGTERM or SIGINT. A database or a Temporal that is away is told of, and no reason to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wanted, stop.set)
    engine = connect(settings.needed("database_url"))
    settings.needed("temporal_address")
    registry = CollectorRegistry()
    limits = limits_with(settings.time_limits_hours)
    registry.register(SystemCollector(engine, AdmissionQuestion(settings, loop), limits))
    address = str(settings.metrics_address)
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        raise UserError(
            f"metrics cannot be served at {address}:{port}: {error.strerror}; choose another port with --port"
        ) from error
    log.info("metrics are at http://%s:%s/metrics", address, server.server_port)
    async with watched():
        await stop.wait()
    # In a thread: a scrape that is being answered still needs this loop.
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    thread.join()
    engine.dispose()
