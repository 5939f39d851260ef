"""Traces of OpenTelemetry, where a collector for them is configured.

A request lives for weeks, so its spans are sent when they begin and end, not when the request does: that is why the
SDK's older interceptor is used and not its newer plugin, which tells of a workflow when it is over.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from wms2.errors import UserError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from temporalio.contrib.opentelemetry import TracingInterceptor

FLUSH_MS = 2000
"""How long a command that has done its work waits for a collector."""

_providers: list[TracerProvider] = []


@cache
def tracing(traces_url: str) -> TracingInterceptor:
    """What a client needs to tell of its calls, and its workers of workflows and activities; once for each URL.

    Who calls a workflow leaves its trace in the workflow's history: all that the request ever does belongs to it.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from temporalio.contrib.opentelemetry import TracingInterceptor
    except ImportError as error:
        raise UserError(
            "WMS2_TRACES_URL is set and OpenTelemetry is not installed: `pip install wms2[tracing]`, or unset it"
        ) from error
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "wms2"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=traces_url)))
    _providers.append(provider)
    return TracingInterceptor(provider.get_tracer("wms2"))


def flush_traces() -> None:
    """Send what was not sent yet. Without tracing there is nothing."""
    for provider in _providers:
        provider.force_flush(FLUSH_MS)
