"""The client: how everything in WMS2 reaches Temporal."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime

from wms2.config import Settings
from wms2.errors import UserError
from wms2.temporal.runtime import sdk_runtime

CONNECT_TIMEOUT = timedelta(seconds=10)


async def connect(settings: Settings, runtime: Runtime | None = None) -> Client:
    """A client that is connected; a UserError when the server does not answer."""
    address = settings.needed("temporal_address")
    try:
        return await Client.connect(
            address,
            namespace=settings.temporal_namespace,
            data_converter=pydantic_data_converter,
            connect_timeout=CONNECT_TIMEOUT,
            runtime=runtime or sdk_runtime(),
        )
    except RuntimeError as error:
        raise UserError(
            f"Temporal does not answer at {address}; `wms2 status` shows the stack, `wms2 up` starts it"
        ) from error
