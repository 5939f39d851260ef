"""DAGMans that HTCondor put on hold: they are set going again, and where that does not help a person is called."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from wms2.adapters.condor import HELD_BY_A_PERSON, Condor, DagmanAd
from wms2.models.messages import Alert, SubmittedDag

log = logging.getLogger(__name__)

RELEASE_AFTER_SEC = (5, 60, 600)
"""How long the first hold of a DAGMan may last, the second and the third. A fourth one is a person's business."""


class HeldDagmans:
    """Those of one DAG, while somebody follows it. What it remembers is whom it has reported already."""

    def __init__(self, condor: Condor, dag: SubmittedDag, report: Callable[[Alert], Awaitable[None]]) -> None:
        self._condor, self._dag, self._report = condor, dag, report
        self._reported: set[int] = set()

    async def look(self) -> None:
        """Release those whose time is over. A DAGMan that goes on reads its logs, and runs no node twice."""
        order = self._dag.order
        for ad in await self._condor.dagmans(self._dag.cluster, order.dag_id):
            if not ad.held:
                continue
            until = released_at(ad)
            if until is None:
                await self._call_a_person(ad)
            elif time.time() >= until:
                log.warning(
                    "%s: DAGMan %d is held and released: %s", order.dag_id, ad.cluster, ad.hold_reason
                )
                await self._condor.release(ad.cluster, "WMS2 lets it try again")

    async def _call_a_person(self, ad: DagmanAd) -> None:
        if ad.cluster in self._reported:
            return
        self._reported.add(ad.cluster)
        who = f"of {ad.node}" if ad.node else "of the round"
        message = (
            f"the DAGMan {who} in {self._dag.order.dag_id} stays held ({ad.hold_reason}); "
            f"mend the cause and give `condor_release {ad.cluster}`"
        )
        await self._report(Alert(request=self._dag.order.request, kind="held_dagman", message=message))


def released_at(ad: DagmanAd) -> float | None:
    """When a held DAGMan is to be released; None when that is a person's business, as one that a person held is."""
    if ad.hold_code == HELD_BY_A_PERSON or ad.holds > len(RELEASE_AFTER_SEC):
        return None
    return ad.since + RELEASE_AFTER_SEC[max(ad.holds, 1) - 1]
