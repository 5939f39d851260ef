"""Workflow ids: deterministic, so that whoever knows a request can find its workflows."""

from __future__ import annotations

import hashlib

from wms2.models.nodes import NodesOrder

ADMISSION = "admission"
RECONCILIATION = "reconciliation"
NOTIFICATION = "notification"
CHAINS = "chains"
REQMGR2 = "reqmgr2"
SITES = "sites"
HOSTS = "hosts"


def request_id(request_name: str) -> str:
    return f"request-{request_name}"


def output_id(request_name: str, dataset: str) -> str:
    return f"output-{request_name}-{_short(dataset)}"


def undo_id(request_name: str, dataset: str | None) -> str:
    return f"undo-{request_name}-{_short(dataset) if dataset else 'all'}"


def nodes_id(order: NodesOrder) -> str:
    """Who asks for the same at the same time gets the same answer."""
    which = "failed" if order.failed else "all"
    return f"nodes-{order.dag_id}-{which}-{order.offset}-{order.limit}"


def _short(dataset: str) -> str:
    return hashlib.sha256(dataset.encode()).hexdigest()[:12]


def request_of(workflow_id: str) -> str | None:
    """The request whose workflow, or one of whose workflows, has this id; None for those that serve all."""
    kind, _, rest = workflow_id.partition("-")
    if kind == "request":
        return rest or None
    return rest.rpartition("-")[0] or None if kind in ("output", "undo") else None
