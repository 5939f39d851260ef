"""The runtime of the Temporal SDK: its logs go through logging, its metrics to Prometheus on loopback."""

from __future__ import annotations

import logging
from functools import cache

from temporalio.common import MetricMeter
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
_meters: list[MetricMeter] = []


@cache
def sdk_runtime(metrics_port: int | None = None, metrics_address: str = LOOPBACK) -> Runtime:
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
        host = f"[{metrics_address}]" if ":" in metrics_address else metrics_address
        metrics = PrometheusConfig(bind_address=f"{host}:{metrics_port}", durations_as_seconds=True)
    try:
        runtime = Runtime(telemetry=TelemetryConfig(logging=logs, metrics=metrics))
    except (RuntimeError, ValueError) as error:
        if not metrics_port:
            raise
        raise UserError(
            f"metrics cannot be served on port {metrics_port}; choose another with --metrics-port"
        ) from error
    if metrics_port:
        _meters.append(runtime.metric_meter)
    return runtime


def meter() -> MetricMeter:
    """What this process counts goes where it serves its metrics, and nowhere if it serves none."""
    return _meters[-1] if _meters else MetricMeter.noop
