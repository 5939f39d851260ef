"""Telling ReqMgr2 how far its requests are."""

from __future__ import annotations

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.adapters.reqmgr2 import ReqMgr2
from wms2.core.reporting import wanted, way
from wms2.db.imports import record_report, unfinished_imports
from wms2.errors import Refused, Unavailable
from wms2.models.imports import Reported, Standing


class ReportActivities(DatabaseActivities):
    def __init__(self, engine: Engine, reqmgr2: ReqMgr2) -> None:
        super().__init__(engine)
        self._reqmgr2 = reqmgr2

    @activity.defn
    async def report_statuses(self) -> Reported:
        """Bring ReqMgr2 up to date with the record, step by step along its transitions.

        Where people changed a request there so that no way leads on, the operators are told, once.
        """
        told, problems, troubles = [], [], []
        for standing in await self.record(unfinished_imports):
            to = wanted(standing.members)
            if to == standing.reported:
                continue
            activity.heartbeat(standing.name)
            try:
                problem = await self._move(standing, to)
            except Unavailable as error:
                troubles.append(error)
                continue
            if await self.record(record_report, standing.name, to, problem):
                sound("reqmgr2", standing.name, problem)
            if problem:
                problems.append(problem)
            else:
                told.append(f"{standing.name} is {to}")
        if troubles:
            raise troubles[0]
        return Reported(told=tuple(told), problems=tuple(problems))

    async def _move(self, standing: Standing, to: str) -> str:
        """Why it cannot be moved there; empty when it is there."""
        name = standing.name
        document = await self._reqmgr2.request(name)
        if document is None:
            return f"{name} is {to} here and no longer in ReqMgr2"
        now = str(document.get("RequestStatus"))
        steps = way(now, to)
        if steps is None:
            return f"{name} is {to} here and {now} in ReqMgr2, where somebody changed it: settle which holds"
        try:
            for step in steps:
                await self._reqmgr2.set_status(name, step)
        except Refused as error:
            return f"{name} is {to} here and ReqMgr2 does not take that: {error}"
        return ""
