"""What people change in a round that is planned: its priority, what failures mean, and how it is rescued."""

from __future__ import annotations

import asyncio
from pathlib import Path

from temporalio import activity

from wms2.adapters.condor import Condor
from wms2.dagman.include import (
    ROUND_INCLUDE,
    base_priority,
    leave_out_sites,
    round_priority,
    set_memory,
    set_priorities,
)
from wms2.dagman.lock import submission_lock
from wms2.dagman.outputs import produced_units
from wms2.dagman.policy_file import POLICY_FILE, add_rules
from wms2.dagman.round_folder import read_round
from wms2.errors import UserError
from wms2.models.messages import RankOrder, RescueOrder, RulesOrder


async def settle_priority(condor: Condor, request: str, round_number: int, folder: Path) -> None:
    """Let the jobs in the queue have what `round.inc` says, also when that changes meanwhile."""
    settled = None
    while settled != (priority := round_priority(folder)):
        await condor.set_priority(request, round_number, priority)
        settled = priority


class RoundActivities:
    def __init__(self, condor: Condor) -> None:
        self._condor = condor

    @activity.defn
    async def rank_round(self, order: RankOrder) -> None:
        """Give the jobs of a round a priority, those in the queue and those to come; its last ones stay above it.

        A round whose folder is lost has no jobs to come.
        """
        if not (order.folder / ROUND_INCLUDE).exists():
            return
        before = base_priority(order.folder, read_round(order.folder).priority)
        raised = round_priority(order.folder) - before
        set_priorities(order.folder, order.priority, order.priority + raised)
        await settle_priority(self._condor, order.request, order.round, order.folder)

    @activity.defn
    async def apply_rules(self, order: RulesOrder) -> None:
        """Let the policy of a round have these rules and attempts: they hold for all that ends from now on.

        A round whose folder is lost has no attempts to come.
        """
        path = order.folder / POLICY_FILE
        if not path.exists():
            return
        async with submission_lock(order.folder):
            await asyncio.to_thread(add_rules, path, order.rules, order.attempts)

    @activity.defn
    async def prepare_rescue(self, order: RescueOrder) -> None:
        """Change what the next run of a round's DAG reads. Raises UserError when there is nothing it could run."""
        await asyncio.to_thread(_prepare_rescue, order)


def _prepare_rescue(order: RescueOrder) -> None:
    planned = read_round(order.folder)
    produced = {unit.number for unit, _ in produced_units(order.folder, planned)}
    left = [unit for unit in planned.work_units if unit.number not in produced]
    if not left:
        raise UserError(f"all work units of round {planned.round} are produced; release it without a rescue")
    if not leave_out_sites(order.folder, order.avoid_sites):
        raise UserError(
            f"round {planned.round} may run nowhere: all of its sites are avoided; release it without a rescue"
        )
    if order.memory_mb is not None:
        for unit in left:
            set_memory(order.folder / unit.name, order.memory_mb)
