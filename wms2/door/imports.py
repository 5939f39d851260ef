"""Taking on a request of ReqMgr2 because a person asks for it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from temporalio.client import Client

from wms2.activities.imports import ImportActivities, understand
from wms2.adapters.connect import connect_reqmgr2
from wms2.adapters.reqmgr2 import ReqMgr2
from wms2.config import Settings
from wms2.errors import Missing
from wms2.models.chain import LinkedRequest
from wms2.models.imports import Taken, document_digest


async def take_on(settings: Settings, engine: Engine, client: Client, name: str) -> Taken:
    async with connect_reqmgr2(settings) as reqmgr2:
        document = await reqmgr2_document(reqmgr2, name)
        activities = ImportActivities(engine, client, reqmgr2, policy=settings.failure_policy)
        taken = await activities.take_on(document)
    return Taken(record=taken, is_same=taken.digest == document_digest(document))


async def preview(settings: Settings, name: str) -> list[LinkedRequest]:
    """What would become of it; nothing is changed."""
    async with connect_reqmgr2(settings) as reqmgr2:
        return (await understand(reqmgr2, await reqmgr2_document(reqmgr2, name))).linked


async def reqmgr2_document(reqmgr2: ReqMgr2, name: str) -> dict[str, Any]:
    document = await reqmgr2.request(name)
    if document is None:
        raise Missing(f"ReqMgr2 has no request named {name}; check the name, and WMS2_REQMGR2_URL")
    return document
