"""The DAGMans in the queue of this host, asked for once for all who follow one."""

from __future__ import annotations

import asyncio
import time

from wms2.adapters.condor import Condor, DagmanAd


class Queue:
    """One question to the schedd answers all followers: hundreds of them would else ask all the time."""

    def __init__(self, condor: Condor) -> None:
        self._condor = condor
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._dagmans: dict[int, list[DagmanAd]] = {}

    async def dagmans(self, cluster: int, dag_id: str, since: float) -> list[DagmanAd]:
        """Those of a DAG, as they were at some moment after `since`, by the monotonic clock.

        Whoever looks at files after that has the order right: the queue first, then the disk.
        """
        async with self._asking:
            if self._asked_at < since:
                asked_at = time.monotonic()
                self._dagmans = await self._condor.queued_dagmans()
                self._asked_at = asked_at
        return [ad for ad in self._dagmans.get(cluster, ()) if ad.node is not None or ad.tag == dag_id]
