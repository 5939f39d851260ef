"""Prometheus metrics: how long the service takes to answer, and whatever else the process counts."""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Histogram, generate_latest
from starlette.requests import Request as Call
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wms2.api.doorman import Operator
from wms2.api.service import Inside, Service
from wms2.core.time_limits import limits_with
from wms2.metrics.admission import AdmissionQuestion
from wms2.metrics.collector import SystemCollector

router = APIRouter(tags=["Monitoring"])

LATENCY = Histogram(
    "wms2_api_request_seconds",
    "How long the REST service took to answer",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
NO_ROUTE = "none"


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "description": "In its own text format.",
        }
    },
)
async def metrics(_: Operator, call: Call, inside: Inside) -> Response:
    """Of this process, and of the whole system: no other one need serve those."""
    system: CollectorRegistry = call.app.state.system_metrics
    parts = [await inside.apart(generate_latest, registry) for registry in (REGISTRY, system)]
    return Response(b"".join(parts), media_type=CONTENT_TYPE_LATEST)


def system_metrics(service: Service) -> CollectorRegistry:
    """To be made in the loop that the service runs in."""
    settings, registry = service.settings, CollectorRegistry()
    question = AdmissionQuestion(settings, asyncio.get_running_loop())
    registry.register(SystemCollector(service.engine, question, limits_with(settings.time_limits_hours)))
    return registry


class Measured:
    """Counts every call, by the route that it took: names of requests would be labels without end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = getattr(scope.get("route"), "path", NO_ROUTE).removeprefix("/api/v1")
            taken = time.perf_counter() - began
            LATENCY.labels(_method(scope["method"]), route, str(status)).observe(taken)


def _method(method: str) -> str:
    return method if method in ("GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "PUT") else "other"
