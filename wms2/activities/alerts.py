"""Alerts: what operators should look at is in the log at once, and counted for Prometheus."""

from __future__ import annotations

import logging

from wms2.core.plain import plain_line
from wms2.temporal.runtime import meter

log = logging.getLogger(__name__)


def sound(kind: str, about: str, message: str) -> None:
    """Say it once. Whether people are told too is for the caller, in the transaction of what happened."""
    log.error("ALERT [%s] %s: %s", kind, about, plain_line(message))
    meter().create_counter("wms2_alerts_total", "Alerts that this worker raised").add(1, {"kind": kind})
