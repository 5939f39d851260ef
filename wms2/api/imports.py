"""Requests of ReqMgr2: what became of those that were looked at, and what would become of one."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from pydantic import Field

from wms2.api.doorman import Operator
from wms2.api.requests import IMPORT_SEC
from wms2.api.service import Inside
from wms2.api.words import Limit, Name, Offset, next_offset
from wms2.db.imports import list_imports
from wms2.models.base import Model
from wms2.models.chain import LinkedRequest
from wms2.models.imports import ImportRecord

router = APIRouter(prefix="/imports", tags=["Imports"])


class ImportPage(Model):
    imports: list[ImportRecord]
    next: int | None = Field(description="the offset of the next page; null for the last one")


@router.get("", summary="The requests of ReqMgr2 that were looked at, newest first, and what they became")
async def list_all(_: Operator, inside: Inside, limit: Limit = 100, offset: Offset = 0) -> ImportPage:
    found = await inside.read(list_imports, limit, offset)
    return ImportPage(imports=found, next=next_offset(len(found), limit, offset))


@router.get("/{name}/preview", summary="What would become of a request of ReqMgr2; nothing is changed")
async def preview(name: Name, _: Operator, inside: Inside) -> list[LinkedRequest]:
    async with asyncio.timeout(IMPORT_SEC):
        return await inside.preview_import(name)
