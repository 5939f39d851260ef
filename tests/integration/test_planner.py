"""Planning from what DBS, Rucio and the ledger say: which files each round takes, in the real database."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.factories import reprocessing
from tests.integration.rounds import unique
from wms2.activities.records import RecordActivities
from wms2.config import Settings
from wms2.dagman.round_folder import read_snapshot
from wms2.db import credit, ledger
from wms2.db.bans import ban_sites
from wms2.db.drops import apply_changes, drop_work
from wms2.db.requests import insert_request
from wms2.db.session import connect, transaction
from wms2.db.withdrawal import withdraw_plan
from wms2.errors import UserError
from wms2.local.inputs import make_dataset, place_block
from wms2.models.audit import Action
from wms2.models.block import block_name
from wms2.models.ledger import InputFileState
from wms2.models.messages import Changes, DropAction, PlannedRoundReport, PlanOrder
from wms2.models.next_round import Need, NextRound
from wms2.models.request import Request
from wms2.models.sizing import KnownSizing
from wms2.models.workflow import RoundStatus
from wms2.planner import Assignment, PlanningSettings, plan

pytestmark = pytest.mark.pool

SITE, OTHER = "T2_DE_DESY", "T1_US_FNAL"


class Plans:
    """The rounds of a request, planned one after the other. None is run: each is closed without any output."""

    def __init__(self, settings: Settings, **fields: object) -> None:
        name = unique("plans")
        self.settings = settings
        self.request: Request = reprocessing(
            request_name=name,
            input_dataset=f"/MinBias/Run2024A-{name}-v1/RAW",
            splitting_params={"files_per_job": 1},
            merge_target_bytes=1000,
            **fields,
        )
        self.engine = connect(settings.needed("database_url"))
        self.rounds = 0
        with transaction(self.engine) as session:
            insert_request(session, self.request)

    async def plan(self, sites: Sequence[str] = (SITE, OTHER), **limits: int) -> list[str]:
        """The input files of the next round, by the end of their names."""
        report = await self.report(sites, **limits)
        with transaction(self.engine) as session:
            planned = ledger.input_files(session, self.request.request_name, InputFileState.PLANNED)
        self.close(report)
        return [file.lfn[-8:-5] for file in planned]

    async def report(self, sites: Sequence[str], **limits: int) -> PlannedRoundReport:
        assignment = self.assignment(sites, **limits)
        report = await plan(assignment)
        assert await plan(assignment) == report, "again gives the same"
        self.rounds += 1
        return report

    def assignment(self, sites: Sequence[str] = (SITE, OTHER), **limits: int) -> Assignment:
        order = PlanOrder(
            request=self.request.request_name, round=self.rounds, host="here", first_lumi=1,
            next=NextRound(need=Need.ROUND),
        )  # fmt: skip
        return Assignment(
            worker=os.getpid(), order=order, sites=tuple(sites), settings=self.settings,
            planning=PlanningSettings(**limits),
        )  # fmt: skip

    async def need(self) -> Need:
        """What the request is told to do next when it knows of no open round."""
        return (await RecordActivities(self.engine).next_round(self.request.request_name, KnownSizing())).need

    def files(self) -> dict[InputFileState, int]:
        with transaction(self.engine) as session:
            return ledger.balance(session, self.request.request_name).files

    def close(self, report: PlannedRoundReport) -> None:
        name, number = self.request.request_name, self.rounds - 1
        with transaction(self.engine) as session:
            for unit in range(report.work_units):
                first = read_snapshot(report.folder).snapshot.first_work_unit
                credit.abandon_work_unit(session, name, first + unit, "the test says so")
            ledger.record_round_status(session, name, number, RoundStatus.CLOSED)


async def test_rounds_take_fresh_files_first_as_many_as_fit_and_then_those_tried_before(
    stack: Settings,
) -> None:
    plans = Plans(stack)
    await make_dataset(stack, plans.request.input_dataset or "", files=5, events_per_file=1, sites=[SITE])
    taken = [await plans.plan(nodes_per_round=8) for _ in range(4)]
    everything = sorted(lfn for lfns in taken[:3] for lfn in lfns)
    assert [len(lfns) for lfns in taken] == [2, 2, 1, 2]
    assert len(set(everything)) == 5
    assert taken[3] == taken[0], "what was tried first is tried again first"


async def test_banned_sites_are_left_out_and_when_all_are_banned_a_person_is_told(stack: Settings) -> None:
    plans = Plans(stack, site_whitelist=[SITE, OTHER])
    name = plans.request.request_name
    await make_dataset(
        stack, plans.request.input_dataset or "", files=2, events_per_file=1, sites=[SITE, OTHER]
    )
    told = Action(action_id=f"{name}-1", actor="operator", action="release", request_name=name)
    with transaction(plans.engine) as session:
        ban_sites(session, name, [SITE], told)
    report = await plans.report([SITE, OTHER])
    assert read_snapshot(report.folder).snapshot.sites == (OTHER,)
    plans.close(report)
    with transaction(plans.engine) as session:
        ban_sites(session, name, [OTHER], told)
    with pytest.raises(UserError, match="all of its 2 sites are banned or closed"):
        await plans.plan([SITE, OTHER])


async def test_files_that_a_person_excluded_or_dropped_are_not_planned_again(stack: Settings) -> None:
    plans = Plans(stack)
    name = plans.request.request_name
    await make_dataset(stack, plans.request.input_dataset or "", files=4, events_per_file=1, sites=[SITE])
    assert len(await plans.plan()) == 4
    with transaction(plans.engine) as session:
        first, second, *rest = ledger.input_files(session, name, InputFileState.ATTEMPTED)
        told = Action(action_id=f"{name}-1", actor="operator", action="release", request_name=name)
        apply_changes(session, told, Changes(exclude_files=(first.lfn,)))
        dropping = told.model_copy(update={"action_id": f"{name}-2", "action": "drop"})
        drop_work(session, dropping, DropAction(actor="operator", action_id=f"{name}-2", files=(second.lfn,)))
    assert await plans.plan() == [file.lfn[-8:-5] for file in rest]


async def test_a_step_of_production_ends_a_round(stack: Settings) -> None:
    plans = Plans(stack, production_steps=[{"fraction": 0.4, "priority": 200_000}])
    await make_dataset(stack, plans.request.input_dataset or "", files=5, events_per_file=1, sites=[SITE])
    assert len(await plans.plan()) == 2


async def test_what_could_not_be_planned_is_planned_once_the_cause_is_mended(stack: Settings) -> None:
    plans = Plans(stack)
    dataset = plans.request.input_dataset or ""
    await make_dataset(stack, dataset, files=2, events_per_file=1, sites=[SITE])
    with pytest.raises(UserError, match="2 files are at no allowed site"):
        await plans.plan([OTHER])
    block = block_name("inputs", dataset, 0)
    await place_block(stack.needed("services_url"), block, {f"{OTHER}_Disk": 2})
    assert len(await plans.plan([OTHER])) == 2


async def test_jobs_run_where_rucio_has_the_data_now_not_where_it_was_made(stack: Settings) -> None:
    plans = Plans(stack)
    dataset = plans.request.input_dataset or ""
    await make_dataset(stack, dataset, files=2, events_per_file=1, sites=[SITE])
    where = {f"{OTHER}_Disk": 2, f"{SITE}_Disk": 1, "T1_DE_KIT_Tape": 2}
    await place_block(stack.needed("services_url"), block_name("inputs", dataset, 0), where)
    report = await plans.report([SITE, OTHER])
    snapshot = read_snapshot(report.folder).snapshot
    assert {file.locations for file in snapshot.inputs} == {(OTHER,)}


async def test_a_plan_whose_answer_nobody_heard_is_withdrawn_and_made_anew_on_another_host(
    stack: Settings, tmp_path: Path
) -> None:
    plans = Plans(stack)
    await make_dataset(stack, plans.request.input_dataset or "", files=3, events_per_file=1, sites=[SITE])
    lost = await plan(plans.assignment())
    assert plans.files() == {InputFileState.PLANNED: 3}
    assert await plans.need() is Need.PILOT, "not: nothing is left to do"
    assert plans.files() == {InputFileState.AVAILABLE: 3}
    elsewhere = plans.assignment()
    elsewhere.settings.submit_root = tmp_path
    found = await plan(elsewhere)
    assert (found.work_units, found.folder) == (
        lost.work_units,
        tmp_path / lost.folder.relative_to(lost.folder.parents[1]),
    )
    assert plans.files() == {InputFileState.PLANNED: 3}


async def test_what_people_change_after_a_try_that_recorded_nothing_is_in_the_next_one(
    stack: Settings,
) -> None:
    plans = Plans(stack)
    name = plans.request.request_name
    await make_dataset(stack, plans.request.input_dataset or "", files=3, events_per_file=1, sites=[SITE])
    first = await plan(plans.assignment())
    with transaction(plans.engine) as session:
        withdraw_plan(session, name)
        bad, *_ = ledger.input_files(session, name, InputFileState.AVAILABLE)
        told = Action(action_id=f"{name}-1", actor="operator", action="release", request_name=name)
        apply_changes(session, told, Changes(exclude_files=(bad.lfn,)))
    assert first.folder.exists(), "it was written, and is written anew"
    assert len(await plans.plan()) == 2
    assert plans.files() == {InputFileState.ATTEMPTED: 2, InputFileState.EXCLUDED: 1}


async def test_planners_of_the_same_round_at_the_same_time_make_one_plan(stack: Settings) -> None:
    plans = Plans(stack)
    await make_dataset(stack, plans.request.input_dataset or "", files=3, events_per_file=1, sites=[SITE])
    reports = await asyncio.gather(*(plan(plans.assignment()) for _ in range(4)))
    assert reports == [reports[0]] * 4
    assert plans.files() == {InputFileState.PLANNED: 3}
    with transaction(plans.engine) as session:
        (known,) = ledger.rounds_of(session, plans.request.request_name)
    assert read_snapshot(reports[0].folder).digest == known.snapshot_digest
