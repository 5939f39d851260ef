"""Pile-up from Rucio and DBS to the jobs of the real pool."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.factories import SITES
from tests.integration.rounds import Round, small_simulation, unique
from wms2.config import Settings
from wms2.core.planning import allowed_sites
from wms2.dagman.round_folder import read_round, read_snapshot
from wms2.db.requests import insert_request
from wms2.db.session import connect, transaction
from wms2.errors import UserError
from wms2.local import payload
from wms2.local.inputs import make_dataset, place_block
from wms2.models.block import block_name
from wms2.models.messages import PlannedRoundReport, PlanOrder
from wms2.models.next_round import Need, NextRound
from wms2.models.plan import PileUp
from wms2.models.progress import DagOutcome
from wms2.models.request import Request
from wms2.planner import Assignment, PlanningSettings, plan

pytestmark = pytest.mark.pool

HERE = ("T2_CH_CERN", "T2_DE_DESY")
FILES = 7
"""Jobs of 20 events begin at other files then."""


def dataset(name: str) -> str:
    return f"/{unique(name)}/Test-Mix-v1/PREMIX"


def mixing(settings: Settings, name: str, pileup: str, **changes: Any) -> Request:
    return small_simulation(settings, name, step={"mc_pileup": pileup}, **changes)


async def test_a_simulation_runs_only_where_its_pileup_is_and_its_jobs_name_what_they_mixed_in(
    stack: Settings,
) -> None:
    mixed = dataset("pool")
    entries = payload.make_inputs(
        stack.home / "storage", FILES, 5, locations=HERE, base=f"/store/mc/Test/{unique('pileup')}"
    )
    names = tuple(entry["lfn"] for entry in entries)
    pileup = PileUp(dataset=mixed, sites=HERE, events=FILES * 5, files=names)
    request = mixing(stack, "mixes", mixed)
    sites = allowed_sites(request, list(SITES), [pileup])
    round_ = Round(stack, request, pileups=(pileup,), sites=sites)
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert {round_.site_of(unit.name) for unit in round_.planned.work_units} <= set(HERE)
    reports = [json.loads(path.read_bytes()) for path in round_.folder.glob("mg_*/proc_*.report.json")]
    assert len({report["node"] for report in reports}) == 6
    for report in reports:
        assert len(report["pileup_files"]) == payload.PILEUP_FILES
        assert set(report["pileup_files"]) <= set(names)
        assert report["inputs"] == []
    assert {name for report in reports for name in report["pileup_files"]} == set(names)
    round_.assert_every_event_once()


async def test_a_round_that_was_planned_without_its_pileup_ends_at_its_first_job(stack: Settings) -> None:
    mixed = dataset("unknown")
    round_ = Round(stack, mixing(stack, "unlisted", mixed, total_events=40))
    assert any(mixed in problem for problem in round_.planned.problems)
    dag = await round_.start()
    progress = await round_.finish(dag)
    assert progress.outcome is not DagOutcome.COMPLETED
    failures = await round_.activities.explain_dag(dag)
    assert f"mixes in {mixed}, whose files are not in pileup.json.gz" in str(failures)


async def planned(settings: Settings, request: Request) -> PlannedRoundReport:
    """A round of a request by the planner itself, which asks the stand-ins for DBS and Rucio."""
    with transaction(connect(settings.needed("database_url"))) as session:
        insert_request(session, request)
    order = PlanOrder(
        request=request.request_name, round=0, host="here", first_lumi=1,
        next=NextRound(need=Need.ROUND, events=40),
    )  # fmt: skip
    assignment = Assignment(
        worker=os.getpid(), order=order, sites=SITES, settings=settings, planning=PlanningSettings()
    )
    return await plan(assignment)


@pytest.fixture
async def mixed(stack: Settings) -> str:
    """A dataset of two blocks, one of which is at one more site."""
    name = dataset("planned")
    await make_dataset(stack, name, files=2, events_per_file=3, sites=HERE)
    places = [{"T2_DE_DESY": 2, "T2_CH_CERN": 2, "T1_US_FNAL_Disk": 1}, {"T2_CH_CERN": 2, "T2_US_Purdue": 2}]
    for number, place in enumerate(places):
        block = block_name("inputs", name, number)
        await place_block(stack.needed("services_url"), block, place)
    return name


async def test_the_planner_finds_files_and_sites_of_the_pileup(stack: Settings, mixed: str) -> None:
    report = await planned(stack, mixing(stack, "finds", mixed))
    snapshot = read_snapshot(report.folder).snapshot
    (pileup,) = snapshot.pileups
    assert (pileup.dataset, pileup.sites, pileup.events, len(pileup.files)) == (mixed, ("T2_CH_CERN",), 12, 4)
    assert snapshot.sites == ("T2_CH_CERN",)
    assert "allowed_sites = T2_CH_CERN\n" in (report.folder / "round.inc").read_text()
    assert (report.folder / "pileup.json.gz").exists()
    assert read_round(report.folder).problems == ()


async def test_the_planner_leaves_the_sites_alone_where_the_lists_are_trusted(
    stack: Settings, mixed: str
) -> None:
    request = mixing(stack, "trusts", mixed, site_whitelist=["T2_US_Purdue"], trust_pu_sitelists=True)
    assert read_snapshot((await planned(stack, request)).folder).snapshot.sites == ("T2_US_Purdue",)


async def test_pileup_that_cannot_be_had_is_told_in_one_sentence(stack: Settings, mixed: str) -> None:
    request = mixing(stack, "nowhere", mixed, site_whitelist=["T2_DE_DESY"])
    with pytest.raises(UserError, match=f"{mixed} is at T2_CH_CERN, and the sites .* are T2_DE_DESY"):
        await planned(stack, request)
    missing = dataset("missing")
    with pytest.raises(UserError, match=f"^the pile-up dataset {missing} has no valid files with events"):
        await planned(stack, mixing(stack, "missing", missing))
    assert not Path(stack.home / "submit" / request.request_name / "round_00").exists()
