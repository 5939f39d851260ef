"""Judging sites by what failed there, and keeping jobs away from bad ones."""

from __future__ import annotations

import asyncio

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.database import DatabaseActivities
from wms2.core.bans import USUAL, BanPolicy, bad_sites, remaining
from wms2.dagman.include import allowed_sites, leave_out_sites
from wms2.dagman.round_folder import read_round
from wms2.dagman.site_tally import tally_sites
from wms2.db import bans
from wms2.db.sites import avoided_sites
from wms2.models.messages import JudgedSites, SubmittedDag


class BanActivities(DatabaseActivities):
    """What is done about bad sites, on the submit host of the round."""

    def __init__(self, engine: Engine, policy: BanPolicy = USUAL) -> None:
        super().__init__(engine)
        self._policy = policy

    @activity.defn
    async def judge_sites(self, submitted: SubmittedDag) -> JudgedSites:
        """Ban the sites that failed most of what a DAG ran there, and let its rescue go elsewhere.

        The bans of other requests and of people count too, and sites that are closed. DAGs that run are left as
        they are: a site that is not allowed any more is left by a work unit when it is rescued.
        """
        order = submitted.order
        planned = await asyncio.to_thread(read_round, order.folder)
        tallies = await asyncio.to_thread(tally_sites, order.folder, planned, submitted.cluster)
        told = []
        for tally in bad_sites(tallies, self._policy):
            if await self.record(bans.ban_bad_site, order.request, tally, order.dag_id, self._policy):
                told.append(str(tally))
            if await self.record(bans.promote_ban, tally.site, self._policy):
                told.append(f"{tally.site} is banned for all")
        avoided = await self.record(avoided_sites, order.request)
        left = remaining(allowed_sites(order.folder), avoided)
        # Without any site nothing could be rescued; a person may lift a ban, and then the round is as it was.
        if left:
            leave_out_sites(order.folder, avoided)
        return JudgedSites(banned=tuple(told), left=left)
