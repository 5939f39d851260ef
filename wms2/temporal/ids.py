"""Workflow ids: deterministic, so that whoever knows a request can find its workflows."""

from __future__ import annotations

import hashlib

ADMISSION = "admission"
RECONCILIATION = "reconciliation"


def request_id(request_name: str) -> str:
    return f"request-{request_name}"


def output_id(request_name: str, dataset: str) -> str:
    return f"output-{request_name}-{hashlib.sha256(dataset.encode()).hexdigest()[:12]}"
