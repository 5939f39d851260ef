"""How far the DAGs of a host are, written into the database for all of them together."""

from __future__ import annotations

import asyncio

from wms2.activities.database import DatabaseActivities
from wms2.db.dags import record_running_dags
from wms2.models.dag import NodeCounts

GATHER_SEC = 0.5
"""How long others are waited for: hundreds of DAGs that each write for themselves keep a core busy."""


class Standings(DatabaseActivities):
    """Gathers for a moment what followers have to record, and records it in one statement."""

    _waiting: dict[str, NodeCounts] | None = None
    _written: asyncio.Task[None]

    async def put(self, dag_id: str, nodes: NodeCounts) -> None:
        """Returns when it is recorded, and raises what kept it from being so. It must be a DAG that runs."""
        if self._waiting is None:
            self._waiting = {}
            self._written = asyncio.create_task(self._write(self._waiting))
        self._waiting[dag_id] = nodes
        # One follower that is cancelled takes nothing from the others.
        await asyncio.shield(self._written)

    async def _write(self, gathered: dict[str, NodeCounts]) -> None:
        await asyncio.sleep(GATHER_SEC)
        self._waiting = None
        await self.record(record_running_dags, gathered)
