"""The request that replaces another one after a restart: the same, with the next version."""

from __future__ import annotations

import re

from wms2.errors import UserError
from wms2.models.request import Request
from wms2.patterns import REQUEST_NAME

_DATASET_VERSION = re.compile(r"-v([0-9]+)(?=/)")


def next_version(request: Request) -> Request:
    """Under a name that follows from the old one alone; its outputs are datasets of their own."""
    version = request.processing_version + 1
    outputs = [
        output.model_dump(mode="json") | {"dataset": _next_dataset(output.dataset)}
        for output in request.outputs
    ]
    return Request.model_validate(
        request.model_dump(mode="json")
        | {
            "request_name": version_name(request, version),
            "processing_version": version,
            "outputs": outputs,
            "previous_version_request": request.request_name,
        }
    )


def version_name(request: Request, version: int) -> str:
    """`name_v2` after `name`, and `name_v3` after that."""
    name = request.request_name
    if request.previous_version_request is not None:
        name = name.removesuffix(f"_v{request.processing_version}")
    name = f"{name}_v{version}"
    if not REQUEST_NAME.fullmatch(name):
        raise UserError(f"{request.request_name} cannot be restarted: the name {name} would be too long")
    return name


def _next_dataset(name: str) -> str:
    return _DATASET_VERSION.sub(lambda found: f"-v{int(found[1]) + 1}", name)
