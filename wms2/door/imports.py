"""Taking on a request of ReqMgr2 because a person asks for it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from temporalio.client import Client

from wms2.activities.imports import ImportActivities
from wms2.adapters.connect import connect_reqmgr2
from wms2.adapters.reqmgr2 import ReqMgr2
from wms2.config import Settings
from wms2.errors import Missing
from wms2.models.imports import ImportRecord, document_digest


async def take_on(settings: Settings, engine: Engine, client: Client, name: str) -> tuple[ImportRecord, bool]:
    """What it became, and whether the document is still the one that was taken on."""
    async with connect_reqmgr2(settings) as reqmgr2:
        document = await reqmgr2_document(reqmgr2, name)
        activities = ImportActivities(engine, client, reqmgr2, policy=settings.failure_policy)
        taken = await activities.take_on(document)
    return taken, taken.digest == document_digest(document)


async def reqmgr2_document(reqmgr2: ReqMgr2, name: str) -> dict[str, Any]:
    document = await reqmgr2.request(name)
    if document is None:
        raise Missing(f"ReqMgr2 has no request named {name}; check the name, and WMS2_REQMGR2_URL")
    return document
