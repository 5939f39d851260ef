"""The runtime of the Temporal SDK: its logs go through logging, its metrics to Prometheus on loopback."""

from __future__ import annotations

import logging
from functools import cache

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from wms2.errors import UserError

LOOPBACK = "127.0.0.1"


@cache
def sdk_runtime(metrics_port: int | None = None) -> Runtime:
    """One runtime for each port; without one, or with 0, no metrics are served.

    Without this the SDK writes its own logs on stdout, in the middle of what people asked for.
    """
    forwarded = LogForwardingConfig(
        logger=logging.getLogger("temporalio.core"),
        append_target_to_name=False,
        prepend_target_on_message=False,
    )
    logs = LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forwarded)
    metrics = None
    if metrics_port:
        metrics = PrometheusConfig(bind_address=f"{LOOPBACK}:{metrics_port}", durations_as_seconds=True)
    try:
        return Runtime(telemetry=TelemetryConfig(logging=logs, metrics=metrics))
    except (RuntimeError, ValueError) as error:
        if not metrics_port:
            raise
        raise UserError(
            f"metrics cannot be served on port {metrics_port}; choose another with --metrics-port"
        ) from error
