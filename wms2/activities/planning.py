"""Planning and closing rounds on a submit host."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.orm import Session
from temporalio import activity

from wms2.activities.database import DatabaseActivities
from wms2.adapters.condor import Condor
from wms2.adapters.dbs import Dbs
from wms2.core.ledger import discrepancies, planned_round, produced_unit
from wms2.core.planning import allowed_sites, plan_round
from wms2.core.rounds import pilot_plan
from wms2.core.sizing import events_per_job, measured_by_pilot, measured_by_round, sizing_of
from wms2.core.splitting.pilot import pilot_files
from wms2.core.splitting.selection import Selection
from wms2.dagman.outputs import produced_units
from wms2.dagman.round_folder import ROUND_FILE, read_round, write_round
from wms2.db import credit, ledger
from wms2.db.crosscheck import cross_check
from wms2.db.requests import next_first_event, request_record
from wms2.errors import UserError
from wms2.models.ledger import InputFileState, PlannedFile, WorkUnitStatus
from wms2.models.merge_output import MergeOutput
from wms2.models.messages import ClosedRound, PlannedRoundReport, PlanOrder, RoundOrder
from wms2.models.next_round import Need
from wms2.models.plan import InputFile, Limits, RoundPlan, Snapshot, unit_name
from wms2.models.request import Request
from wms2.models.sizing import MeasuredSizing
from wms2.models.workflow import RoundStatus


class PlanningSettings(Limits):
    """How rounds are planned on this host."""

    pilot_budget_sec: int = 28800
    target_job_sec: int = 28800


class PlanningActivities(DatabaseActivities):
    def __init__(
        self, engine: Engine, condor: Condor, dbs: Dbs, submit_root: Path, settings: PlanningSettings
    ) -> None:
        super().__init__(engine)
        self._condor = condor
        self._dbs = dbs
        self._submit_root = submit_root
        self._settings = settings

    @activity.defn
    async def plan_round(self, order: PlanOrder) -> PlannedRoundReport:
        """Freeze what the round is planned from, then plan, write and record it. Again gives the same round.

        Nothing is submitted before all of it is recorded.
        """
        folder = self._submit_root / order.request / f"round_{order.round:02d}"
        snapshot = await self._frozen_snapshot(order, folder.with_suffix(".snapshot.json"))
        plan = await asyncio.to_thread(plan_round, snapshot)
        described = await asyncio.to_thread(write_round, plan, folder)
        nodes = sum(described.nodes.values())
        await self.record(ledger.record_plan, planned_round(plan, nodes, order.host))
        return PlannedRoundReport(
            folder=folder,
            work_units=len(plan.work_units),
            jobs=plan.jobs,
            events=plan.events,
            next_lumi=_next_lumi(plan),
            problems=plan.problems,
        )

    async def _frozen_snapshot(self, order: PlanOrder, path: Path) -> Snapshot:
        """What an earlier try froze, or a new snapshot: sites, files and ledger change, a plan does not."""
        frozen = await asyncio.to_thread(_read_snapshot, path)
        if frozen is None:
            frozen = await self._snapshot(order)
            await asyncio.to_thread(_freeze, frozen, path)
        return frozen

    async def _snapshot(self, order: PlanOrder) -> Snapshot:
        request = (await self.record(request_record, order.request)).request
        sites = allowed_sites(request, await self._condor.sites())
        length = events_per_job(request, order.sizing)
        pilot = order.next.need is Need.PILOT
        return Snapshot(
            request=request,
            round=order.round,
            first_work_unit=await self.record(_next_work_unit, order.request),
            first_event=await self.record(next_first_event, order.request),
            first_lumi=order.first_lumi,
            events=order.next.events,
            inputs=() if request.is_simulation else await self._inputs(request, order),
            sites=sites,
            sizing=sizing_of(request, order.sizing),
            limits=Limits.model_validate(self._settings.model_dump(include=set(Limits.model_fields))),
            pilot=pilot_plan(length, self._settings.pilot_budget_sec, self._settings.target_job_sec)
            if pilot
            else None,
        )

    async def _inputs(self, request: Request, order: PlanOrder) -> tuple[InputFile, ...]:
        """Fresh files first, attempted ones only when no fresh one is left; a pilot takes a few at one place.

        Files that hold nothing of what the request selects are no part of its ledger.
        """
        selection = Selection(request)
        in_dbs = await self._dbs.dataset_files(request.input_dataset or "", selection.takes_block)
        known = {file.lfn: file for file in in_dbs if not selection.excludes(file)}
        listed = [
            PlannedFile(lfn=file.lfn, events=file.events, size_bytes=file.size_bytes)
            for file in known.values()
        ]
        await self.record(ledger.record_input_files, request.request_name, listed)
        fresh = await self.record(ledger.input_files, request.request_name, InputFileState.AVAILABLE)
        chosen = fresh or await self.record(
            ledger.input_files, request.request_name, InputFileState.ATTEMPTED
        )
        files = [known[file.lfn] for file in chosen if file.lfn in known]
        if not files:
            raise UserError(
                f"{request.input_dataset} has no files that could be processed; check it in DBS, and check the "
                "block lists, the run lists and the lumi mask"
            )
        if order.next.need is Need.PILOT:
            files = await asyncio.to_thread(pilot_files, files, request, order.next.files)
        return tuple(files)

    @activity.defn
    async def close_round(self, order: RoundOrder) -> ClosedRound:
        """Credit what is complete on disk once more, give up the rest with the reason, and close the round.

        The ledger says which work units there are, so a round whose folder was lost can be closed as well.
        """
        outputs = await asyncio.to_thread(_outputs_on_disk, order.folder)
        for output in outputs:
            await self.record(credit.credit_work_unit, order.request, produced_unit(output))
        await self._abandon_the_rest(order)
        units = await self.record(credit.units_of_round, order.request, order.round)
        abandoned = len(units[WorkUnitStatus.ABANDONED])
        status = RoundStatus.CLOSED if abandoned else RoundStatus.COMPLETED
        await self.record(ledger.record_round_status, order.request, order.round, status)
        request = (await self.record(request_record, order.request)).request
        return ClosedRound(
            units_produced=len(units[WorkUnitStatus.PRODUCED]),
            units_abandoned=abandoned,
            sizing=self._measured(request, order, outputs),
            discrepancies=discrepancies(await self.record(cross_check, order.request)),
        )

    async def _abandon_the_rest(self, order: RoundOrder) -> None:
        units = await self.record(credit.units_of_round, order.request, order.round)
        for number in units[WorkUnitStatus.PLANNED]:
            bad = await asyncio.to_thread(_bad_files, order.folder / unit_name(number))
            await self.record(
                credit.abandon_work_unit, order.request, number, order.reason or "not produced", bad
            )

    def _measured(
        self, request: Request, order: RoundOrder, outputs: list[MergeOutput]
    ) -> MeasuredSizing | None:
        if order.sizing is None:
            return next((found for output in outputs if (found := measured_by_pilot(output, request))), None)
        return measured_by_round(outputs, order.sizing, self._settings.target_job_sec)


def _outputs_on_disk(folder: Path) -> list[MergeOutput]:
    if not (folder / ROUND_FILE).exists():
        return []
    return [output for _, output in produced_units(folder, read_round(folder))]


def _read_snapshot(path: Path) -> Snapshot | None:
    return Snapshot.model_validate_json(path.read_bytes()) if path.exists() else None


def _freeze(snapshot: Snapshot, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(snapshot.model_dump_json())
    partial.rename(path)


def _next_lumi(plan: RoundPlan) -> int:
    last = max((job.last_lumi or 0 for unit in plan.work_units for job in unit.jobs), default=0)
    return max(last + 1, plan.snapshot.first_lumi)


def _next_work_unit(session: Session, request_name: str) -> int:
    """Work units are numbered through the whole request, so names never repeat."""
    return sum(round_.work_units for round_ in ledger.rounds_of(session, request_name))


def _bad_files(folder: Path) -> list[str]:
    """Input files that the unit's own nodes found to be bad."""
    found: set[str] = set()
    for path in folder.glob("proc_*.post.json"):
        try:
            post = json.loads(path.read_bytes())
            if post["classification"]["category"] == "data":
                found.update(post["classification"]["bad_input_files"])
        except (OSError, ValueError, KeyError):
            continue
    return sorted(found)
