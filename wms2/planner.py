"""Planning a round, in a process of its own: `python -m wms2.planner` reads its assignment from stdin.

A large dataset takes seconds of CPU and hundreds of megabytes; here they disturb no follower, and are given back.
The answer is a line of JSON on stdout: the report, or an error that the worker raises in its place.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from pydantic import ValidationError
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from wms2.adapters.connect import Turns, connect_dbs, connect_rucio
from wms2.adapters.dbs import Dbs
from wms2.adapters.rucio import Rucio
from wms2.config import Settings
from wms2.core.bans import remaining
from wms2.core.ledger import planned_round
from wms2.core.planning import allowed_sites, plan_round
from wms2.core.rounds import files_to_plan, pilot_plan
from wms2.core.sizing import events_per_job, sizing_of
from wms2.core.splitting.pilot import pilot_files
from wms2.core.splitting.selection import Selection
from wms2.dagman.lock import planning_lock
from wms2.dagman.round_folder import discard_round, write_round
from wms2.dagman.snapshot_file import Frozen, freeze, read_frozen
from wms2.db import ledger
from wms2.db.imports import pset_contents
from wms2.db.requests import next_first_event, request_record
from wms2.db.session import connect, transaction
from wms2.db.sites import avoided_sites
from wms2.errors import Refused, Unavailable, UserError
from wms2.models.base import Model
from wms2.models.ledger import InputFileState, PlannedFile
from wms2.models.messages import PlannedRoundReport, PlanOrder
from wms2.models.next_round import Need
from wms2.models.parameter_set import pset_files
from wms2.models.plan import InputFile, Limits, PileUp, PilotPlan, RoundPlan, Snapshot
from wms2.models.request import Request
from wms2.patterns import SiteName

P = ParamSpec("P")
R = TypeVar("R")

TOLD = (UserError, Unavailable, Refused, ValidationError, OperationalError)
"""Errors that have something to tell. Any other is a mistake of ours: its trace goes to the log."""
PR_SET_PDEATHSIG = 1


class PlanningSettings(Limits):
    """How rounds are planned on this host."""

    pilot_budget_sec: int = 28800
    target_job_sec: int = 28800


class Assignment(Model):
    """What a worker hands over. The settings hold secrets, so it travels through a pipe and nowhere else."""

    worker: int
    """The process that waits for the answer."""
    order: PlanOrder
    sites: tuple[SiteName, ...]
    """Those that the pool knows."""
    settings: Settings
    planning: PlanningSettings
    turns: Turns | None = None
    """What the worker and all its planners call of services together is limited; None where it plans alone."""


class Answer(Model):
    """The report; or, without one, the name and the sentence of an error, and when to try again if it says so."""

    report: PlannedRoundReport | None = None
    error: str = ""
    message: str = ""
    retry_after: float | None = None


class Planner:
    """Freezes what a round is planned from, then plans, writes and records it. Again gives the same round.

    Nothing is submitted before all of it is recorded.
    """

    def __init__(self, engine: Engine, dbs: Dbs, rucio: Rucio, assignment: Assignment) -> None:
        self._engine = engine
        self._dbs = dbs
        self._rucio = rucio
        self._order = assignment.order
        self._sites = list(assignment.sites)
        self._submit_root = assignment.settings.submit_root or assignment.settings.home / "submit"
        self._planning = assignment.planning

    async def plan(self) -> PlannedRoundReport:
        """Where an earlier try is still at it, which its worker lost sight of, this one waits for its end."""
        folder = self._submit_root / self._order.request / f"round_{self._order.round:02d}"
        async with planning_lock(folder):
            return await self._plan(folder)

    async def _plan(self, folder: Path) -> PlannedRoundReport:
        order = self._order
        frozen = await self._frozen_snapshot(folder)
        plan = plan_round(frozen.snapshot)
        psets = self.record(pset_contents, pset_files(frozen.snapshot.request.payload_config))
        described = write_round(plan, folder, frozen, psets)
        nodes = sum(described.nodes.values())
        self.record(ledger.record_plan, planned_round(plan, described.digest, nodes, order.host))
        return PlannedRoundReport(
            folder=folder,
            work_units=len(plan.work_units),
            jobs=plan.jobs,
            events=plan.events,
            next_lumi=_next_lumi(plan),
            problems=plan.problems,
        )

    async def _frozen_snapshot(self, folder: Path) -> Frozen:
        """What an earlier try froze and recorded a plan of, or a new snapshot: the world changes, a plan does not."""
        path = folder.with_suffix(".snapshot.jsonl")
        if not self._is_recorded():
            # That try ended early, or was withdrawn, and people may have mended what stood in its way.
            discard_round(folder)
            path.unlink(missing_ok=True)
        return read_frozen(path) or freeze(await self._snapshot(), path)

    def _is_recorded(self) -> bool:
        rounds = self.record(ledger.rounds_of, self._order.request)
        return any(round_.number == self._order.round for round_ in rounds)

    async def _snapshot(self) -> Snapshot:
        order = self._order
        request = self.record(request_record, order.request).request
        pileups = await self._pileups(request)
        self._leave_out_sites(request)
        sites = allowed_sites(request, self._sites, pileups)
        fresh, attempted = ((), ()) if request.is_simulation else await self._inputs(request)
        return Snapshot(
            request=request,
            round=order.round,
            first_work_unit=self.record(_next_work_unit, order.request),
            first_event=self.record(next_first_event, order.request),
            first_lumi=order.first_lumi,
            events=order.next.events,
            files=None if request.is_simulation else self._files(request),
            priority=request.priority if order.next.priority is None else order.next.priority,
            inputs=fresh,
            attempted=attempted,
            pileups=pileups,
            sites=sites,
            sizing=sizing_of(request, order.sizing),
            limits=Limits.model_validate(self._planning.model_dump(include=set(Limits.model_fields))),
            pilot=self._pilot(request),
        )

    def _leave_out_sites(self, request: Request) -> None:
        """Those that are closed, and those that the request is banned from."""
        avoided = self.record(avoided_sites, request.request_name)
        could = allowed_sites(request, self._sites)
        self._sites = list(remaining(self._sites, avoided))
        if could and not allowed_sites(request, self._sites):
            raise UserError(
                f"{request.request_name} may run nowhere: all of its {len(could)} sites are banned or closed, "
                f"{could[0]} {avoided[could[0]]}; `wms2 site list` shows them, `wms2 site unban` and "
                "`wms2 site enable` open them"
            )

    def _pilot(self, request: Request) -> PilotPlan | None:
        if self._order.next.need is not Need.PILOT:
            return None
        return pilot_plan(events_per_job(request, self._order.sizing), self._planning.pilot_budget_sec)

    def _files(self, request: Request) -> int | None:
        return files_to_plan(request, self.record(ledger.balance, request.request_name))

    async def _pileups(self, request: Request) -> tuple[PileUp, ...]:
        """All that the steps mix in. A file without events is none of it: CMSSW would end at it."""
        names = request.pileup_datasets
        sites = await self._rucio.dataset_sites(names)
        pileups = []
        for name in names:
            events = {lfn: count for lfn, count in (await self._dbs.events_of_files(name)).items() if count}
            if not events:
                raise UserError(
                    f"the pile-up dataset {name} has no valid files with events in DBS; check its name, or name another"
                )
            pileups.append(
                PileUp(dataset=name, sites=sites[name], events=sum(events.values()), files=tuple(events))
            )
        return tuple(pileups)

    async def _inputs(self, request: Request) -> tuple[tuple[InputFile, ...], tuple[InputFile, ...]]:
        """The files that were never tried, and those that were in vain; a pilot takes a few of the first.

        Files that hold nothing of what the request selects are no part of its ledger.
        """
        selection = Selection(request)
        found = self._dbs.input_files(
            request.input_dataset or "", self._rucio.block_sites, selection.takes_block
        )
        known = {file.lfn: file async for file in found if not selection.excludes(file)}
        self.record(ledger.record_input_files, request.request_name, _planned_files(known.values()))
        fresh = self._in_state(InputFileState.AVAILABLE, known)
        attempted = self._in_state(InputFileState.ATTEMPTED, known)
        if not fresh and not attempted:
            raise UserError(
                f"{request.input_dataset} has no files that could be processed; check it in DBS, and check the "
                "block lists, the run lists and the lumi mask"
            )
        if self._order.next.need is Need.PILOT:
            sites = allowed_sites(request, self._sites)
            return tuple(pilot_files(fresh, request, self._order.next.files, sites)), ()
        return tuple(fresh), tuple(attempted)

    def _in_state(self, state: InputFileState, known: Mapping[str, InputFile]) -> list[InputFile]:
        listed = self.record(ledger.input_files, self._order.request, state)
        return [known[file.lfn] for file in listed if file.lfn in known]

    def record(self, function: Callable[Concatenate[Session, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function of the database in a transaction of its own."""
        with transaction(self._engine) as session:
            return function(session, *args, **kwargs)


def _planned_files(files: Iterable[InputFile]) -> Iterable[PlannedFile]:
    return (PlannedFile(lfn=file.lfn, events=file.events, size_bytes=file.size_bytes) for file in files)


def _next_lumi(plan: RoundPlan) -> int:
    last = max((job.last_lumi or 0 for unit in plan.work_units for job in unit.jobs), default=0)
    return max(last + 1, plan.snapshot.first_lumi)


def _next_work_unit(session: Session, request_name: str) -> int:
    """Work units are numbered through the whole request, so names never repeat."""
    return sum(round_.work_units for round_ in ledger.rounds_of(session, request_name))


async def plan(assignment: Assignment) -> PlannedRoundReport:
    """Carry an assignment out, here."""
    settings = assignment.settings
    engine = connect(settings.needed("database_url"))
    turns = assignment.turns
    async with connect_dbs(settings, turns) as dbs, connect_rucio(settings, turns) as rucio:
        return await Planner(engine, dbs, rucio, assignment).plan()


def main() -> None:
    # A worker that was killed plans the round again; this process would only be in its way.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    assignment = Assignment.model_validate_json(sys.stdin.buffer.read())
    if os.getppid() != assignment.worker:
        sys.exit("the worker that wanted this round planned is gone")
    try:
        answer = Answer(report=asyncio.run(plan(assignment)))
    except TOLD as error:
        later = error.retry_after if isinstance(error, Unavailable) else None
        answer = Answer(error=type(error).__name__, message=str(error), retry_after=later)
    sys.stdout.write(answer.model_dump_json())


if __name__ == "__main__":
    main()
