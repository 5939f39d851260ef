"""Telling ReqMgr2 how far its requests are."""

from __future__ import annotations

import logging

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.adapters.reqmgr2 import ReqMgr2
from wms2.core.reporting import wanted, way
from wms2.db.imports import record_report, unfinished_imports
from wms2.db.silences import end_silence
from wms2.errors import Refused, Unavailable
from wms2.models.imports import Report, Reported, Standing

log = logging.getLogger(__name__)


class ReportActivities(DatabaseActivities):
    def __init__(self, engine: Engine, reqmgr2: ReqMgr2) -> None:
        super().__init__(engine)
        self._reqmgr2 = reqmgr2

    @activity.defn
    async def report_statuses(self) -> Reported:
        """Bring ReqMgr2 up to date with the record, step by step along its transitions.

        Where people changed a request there so that no way leads on, the operators are told, once. So they are of what
        ReqMgr2 refuses, and that is tried again.
        """
        told, problems, troubles = [], [], []
        standings = await self.record(unfinished_imports)
        changed = await self._changed_there([one for one in standings if one.settled])
        for standing in standings:
            to = wanted(standing.members)
            if to == standing.settled and standing.name not in changed:
                continue
            activity.heartbeat(standing.name)
            try:
                report = await self._tell(standing, to)
            except Unavailable as error:
                troubles.append(error)
                continue
            if await self.record(record_report, standing.name, report):
                sound("reqmgr2", standing.name, report.problem)
            if report.problem:
                problems.append(report.problem)
            else:
                told.append(f"{standing.name} is {to}")
        if troubles:
            raise troubles[0]
        await self.record(end_silence, "report_statuses")
        return Reported(told=tuple(told), problems=tuple(problems))

    async def _changed_there(self, standings: list[Standing]) -> set[str]:
        """Those that are not in ReqMgr2 what WMS2 last found them to be, because somebody changed them there."""
        try:
            there = await self._reqmgr2.statuses([one.name for one in standings])
        except Refused as error:
            # Whichever of them it refuses to show, the others can be told.
            log.warning("it is not known what was changed in ReqMgr2: %s", error)
            return set()
        return {one.name for one in standings if there.get(one.name, "") != one.reported}

    async def _tell(self, standing: Standing, to: str) -> Report:
        found = standing.reported
        try:
            document = await self._reqmgr2.request(standing.name)
            found = str(document.get("RequestStatus")) if document else ""
            steps = way(found, to)
            for step in steps or ():
                await self._reqmgr2.set_status(standing.name, step)
                found = step
        except Refused as error:
            problem = f"{standing.name} is {to} here and ReqMgr2 does not take that: {error}"
            return Report(wanted=to, found=found, problem=problem, refused=True)
        problem = _contradiction(standing.name, to, found) if steps is None else ""
        return Report(wanted=to, found=found, problem=problem)


def _contradiction(name: str, here: str, there: str) -> str:
    if not there:
        return f"{name} is {here} here and no longer in ReqMgr2"
    return (
        f"{name} is {here} here and {there} in ReqMgr2, where somebody changed it: settle which holds; "
        "`wms2 request imports` names its requests, to be aborted here or let end"
    )
