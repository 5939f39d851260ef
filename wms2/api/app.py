"""The application: the routes, and what every call passes through before them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from wms2.api import (
    actions,
    admission,
    dags,
    hosts,
    imports,
    metrics,
    outputs,
    problems,
    requests,
    sites,
    system,
    workflows,
)
from wms2.api.callers import Doorkeeper
from wms2.api.config import ApiConfig, Role
from wms2.api.doorman import Doorman, Needs
from wms2.api.limits import BodyLimit
from wms2.api.metrics import Measured
from wms2.api.problems import Problem
from wms2.api.service import Service
from wms2.api.words import ALWAYS
from wms2.config import Settings

PREFIX = "/api/v1"
PARTS = (requests, actions, imports, workflows, dags, outputs, admission, sites, hosts, system, metrics)
DESCRIPTION = """
The door to WMS2 for programs. What is asked of a request is an update of its workflow, which refuses what does not
fit where the request stands.

**Who calls** is told by a client certificate or by a bearer token (WLCG or OIDC), never by anything else in the call.
*Requestors* see, submit and cancel their own requests; *operators* act on all; *admins* also change admission and
submit hosts. `x-role` says what an operation needs.

**Listings** come in pages: `limit` and `offset`, and `next` in the answer.

**Actions** may carry an `Idempotency-Key`: sent again with the same key and body by the same caller, they have
one effect.

**A no** is `application/problem+json` (RFC 9457): `detail` says in a sentence what is wrong and what to do. 503 with
`Retry-After` means that a server is silent: ask again.
"""


def make_app(settings: Settings, config: ApiConfig) -> FastAPI:
    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        app.state.service = Service(settings, config)
        app.state.system_metrics = metrics.system_metrics(app.state.service)
        app.state.health = system.HealthCheck()
        yield
        await app.state.service.close()

    app = FastAPI(
        title="WMS2",
        version=version("wms2"),
        description=DESCRIPTION,
        lifespan=life,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A slash too much is an address that does not exist, and nobody is sent elsewhere.
        redirect_slashes=False,
    )
    app.include_router(system.open_router, prefix=PREFIX)
    for part in PARTS:
        app.include_router(part.router, prefix=PREFIX, responses=ALWAYS)
    problems.register(app)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    # The last one that is added comes first.
    app.add_middleware(BodyLimit, largest=config.largest_body)
    app.add_middleware(Doorman, keeper=Doorkeeper(config), config=config)
    app.add_middleware(Measured)
    return app


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the role that each operation needs."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        parts = made.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema(
            ref_template="#/components/schemas/{model}"
        )
        parts["schemas"] |= parts["schemas"]["Problem"].pop("$defs", {})
        parts["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "certificate": {"type": "mutualTLS"},
        }
        for method, path, role in operations():
            made["paths"][path][method.lower()] |= {
                "security": [{"token": []}, {"certificate": []}],
                "x-role": role,
            }
        app.openapi_schema = made
    return app.openapi_schema


def operations() -> Iterator[tuple[str, str, Role]]:
    """Every operation of the document that is not open: its method, its path, and the role that it needs."""
    for part in PARTS:
        for route in part.router.routes:
            assert isinstance(route, APIRoute)
            (role,) = [one.call.role for one in route.dependant.dependencies if isinstance(one.call, Needs)]
            for method in sorted(route.methods or ()) if route.include_in_schema else ():
                yield method, PREFIX + route.path, role
