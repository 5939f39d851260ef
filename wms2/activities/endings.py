"""What comes after a request: the list of what it registered, or the request that replaces it."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path

from sqlalchemy import Engine
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError

from wms2.activities.database import DatabaseActivities
from wms2.db.invalidation import invalidation_manifest, record_manifest
from wms2.db.requests import request_record
from wms2.db.versions import supersede
from wms2.models.audit import Action as AuditedAction
from wms2.models.invalidation import InvalidationManifest
from wms2.temporal.launch import start_request

MANIFEST_FILE = "invalidation.json"


class EndingActivities(DatabaseActivities):
    def __init__(self, engine: Engine, client: Client, submit_root: Path, most_versions: int) -> None:
        super().__init__(engine)
        self._client = client
        self._submit_root = submit_root
        self._most_versions = most_versions

    @activity.defn
    async def write_invalidation(self, action: AuditedAction) -> None:
        """List what a failed request registered, in its folder on this host; the record says where that is."""
        manifest = await self.record(invalidation_manifest, action)
        path = self._submit_root / manifest.request / MANIFEST_FILE
        await asyncio.to_thread(_place, manifest, path)
        written = {"path": str(path), "host": platform.node(), **manifest.counts}
        await self.record(record_manifest, action, written)

    @activity.defn
    async def supersede(self, action: AuditedAction) -> str:
        """The name of the request that replaces this one; it is recorded, and not yet started."""
        return await self.record(supersede, action, self._most_versions)

    @activity.defn
    async def start_clone(self, name: str) -> None:
        """Start a request that replaces another one, once."""
        record = await self.record(request_record, name)
        try:
            await start_request(self._client, record.request)
        except WorkflowAlreadyStartedError:
            return


def _place(manifest: InvalidationManifest, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(manifest.model_dump_json(indent=1) + "\n")
    partial.rename(path)
