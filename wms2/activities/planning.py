"""Planning a round: handed over to a process of its own, because it may take long and much memory."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from datetime import timedelta

from sqlalchemy import Engine
from temporalio import activity
from temporalio.exceptions import ApplicationError

from wms2.activities.database import DatabaseActivities
from wms2.adapters.condor import Condor
from wms2.adapters.connect import Turns
from wms2.config import Settings
from wms2.db.admission import record_slot
from wms2.models.messages import PlannedRoundReport, PlanOrder
from wms2.planner import Answer, Assignment, PlanningSettings

PLANNER = (sys.executable, "-P", "-m", "wms2.planner")


class PlanningActivities(DatabaseActivities):
    def __init__(
        self,
        engine: Engine,
        condor: Condor,
        settings: Settings,
        planning: PlanningSettings,
        turns: Turns | None = None,
    ) -> None:
        super().__init__(engine)
        self._condor = condor
        self._settings = settings
        self._planning = planning
        self._turns = turns

    @activity.defn
    async def plan_round(self, order: PlanOrder) -> PlannedRoundReport:
        """Plan, write and record a round. Again gives the same round, whatever has changed in the meantime."""
        await self.record(record_slot, order.request, order.round, order.idle_jobs, order.host)
        assignment = Assignment(
            worker=os.getpid(),
            order=order,
            sites=tuple(await self._condor.sites()),
            settings=self._settings,
            planning=self._planning,
            turns=self._turns,
        )
        answer = await run_planner(assignment)
        if answer.report is None:
            later = None if answer.retry_after is None else timedelta(seconds=answer.retry_after)
            raise ApplicationError(answer.message, type=answer.error, next_retry_delay=later)
        return answer.report


async def run_planner(assignment: Assignment) -> Answer:
    """What the planner says. It ends with its caller, also when that is cancelled or killed."""
    turns = assignment.turns
    inherited = (turns.dbs, turns.rucio) if turns else ()
    planner = await asyncio.create_subprocess_exec(*PLANNER, stdin=PIPE, stdout=PIPE, pass_fds=inherited)
    try:
        said, _ = await planner.communicate(assignment.model_dump_json().encode())
    finally:
        if planner.returncode is None:
            planner.kill()
            await planner.wait()
    if planner.returncode != 0:
        raise ApplicationError(
            f"the planner of round {assignment.order.round} of {assignment.order.request} ended with "
            f"{planner.returncode}; the worker's log says more",
            type="PlannerDied",
        )
    return Answer.model_validate_json(said)
