"""What must exist in Temporal before work can begin. Doing it again changes nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wms2.config import Settings
from wms2.temporal.attributes import INTEGERS, KEYWORDS
from wms2.temporal.schedules import make_schedules

RETENTION = timedelta(days=30)
"""How long Temporal keeps what has ended; the database keeps its record for good."""
NAMESPACE_KNOWN_SEC = 60.0
NAMESPACE_LOOK_SEC = 0.2


async def bootstrap(client: Client, settings: Settings) -> None:
    """Make the namespace, the search attributes and the schedules where they are missing.

    Admission is started by the first announcement of a host, see `wms2.activities.admission`.
    """
    namespace = settings.temporal_namespace
    await _make_namespace(client, namespace)
    async with asyncio.timeout(NAMESPACE_KNOWN_SEC):
        # Each part of the server reads the list of namespaces in its own time; only asking tells.
        while not await _prepare(client, settings):
            await asyncio.sleep(NAMESPACE_LOOK_SEC)


async def _make_namespace(client: Client, namespace: str) -> None:
    if await _exists(client, namespace):
        return
    retention = Duration()
    retention.FromTimedelta(RETENTION)
    request = RegisterNamespaceRequest(
        namespace=namespace,
        description="WMS2: requests and what serves them",
        workflow_execution_retention_period=retention,
    )
    try:
        await client.workflow_service.register_namespace(request)
    except RPCError as error:
        # Another worker that starts at the same moment was quicker.
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise


async def _exists(client: Client, namespace: str) -> bool:
    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def _prepare(client: Client, settings: Settings) -> bool:
    """Whether all is there that the namespace needs; False while a part of the server does not know of it."""
    try:
        await client.count_workflows()
        await _add_search_attributes(client, settings.temporal_namespace)
        await make_schedules(client, settings)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def _add_search_attributes(client: Client, namespace: str) -> None:
    known = await _search_attributes(client, namespace)
    kinds = {key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for key in KEYWORDS}
    kinds |= {key.name: IndexedValueType.INDEXED_VALUE_TYPE_INT for key in INTEGERS}
    missing = {name: kind for name, kind in kinds.items() if name not in known}
    if not missing:
        return
    request = AddSearchAttributesRequest(namespace=namespace, search_attributes=missing)
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise


async def _search_attributes(client: Client, namespace: str) -> set[str]:
    request = ListSearchAttributesRequest(namespace=namespace)
    listed = await client.operator_service.list_search_attributes(request)
    return set(listed.custom_attributes)
