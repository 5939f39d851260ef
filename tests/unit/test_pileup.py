"""Pile-up in planning: it restricts the sites, is frozen with the snapshot, and reaches processing jobs as one file."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sandbox.manifest import load_manifest, load_pileup
from tests.factories import SITES, input_file, reprocessing, simulation, snapshot
from wms2.core.planning import allowed_sites, plan_round
from wms2.dagman.round_folder import read_snapshot, write_round
from wms2.dagman.snapshot_file import freeze, read_frozen
from wms2.errors import UserError
from wms2.models.plan import PileUp, Snapshot
from wms2.models.request import Request

PREMIX, MINBIAS = "/Neutrino/Era-premix-v1/PREMIX", "/MinBias/Era-proc-v1/GEN-SIM"
FNAL, CERN, DESY, PURDUE = SITES


def pileup(dataset: str = PREMIX, sites: tuple[str, ...] = (DESY, CERN), files: int = 3) -> PileUp:
    names = tuple(f"/store/mc/{dataset.split('/')[1]}/{k}.root" for k in range(files))
    return PileUp(dataset=dataset, sites=sites, events=10 * files, files=names)


def mixing(**changes: Any) -> Request:
    steps = [{"name": "GEN", "type": "demo", "parameters": {"mc_pileup": [MINBIAS, PREMIX]}}]
    return simulation(payload_config={"steps": steps}, **changes)


def planned(*pileups: PileUp, **changes: Any) -> Snapshot:
    return snapshot(mixing(), pileups=pileups, **changes)


def test_a_request_runs_only_where_all_of_its_pileup_is() -> None:
    both = [pileup(PREMIX, (CERN, DESY, PURDUE)), pileup(MINBIAS, (DESY, FNAL, CERN))]
    assert allowed_sites(mixing(), list(SITES), both) == (CERN, DESY)
    assert allowed_sites(mixing(site_blacklist=[CERN]), list(SITES), both) == (DESY,)


def test_where_site_lists_are_trusted_pileup_may_be_elsewhere() -> None:
    trusting = mixing(site_whitelist=[FNAL], trust_pu_sitelists=True)
    assert allowed_sites(trusting, list(SITES), [pileup(sites=())]) == (FNAL,)


@pytest.mark.parametrize(
    ("pileups", "told"),
    [
        ([pileup(sites=(DESY, CERN))], f"its pile-up {PREMIX} is at {CERN}, {DESY}, and the sites"),
        ([pileup(sites=())], f"its pile-up {PREMIX} is nowhere as a whole"),
        (
            [pileup(MINBIAS, (FNAL,)), pileup(PREMIX, (PURDUE,))],
            f"{PREMIX} is at {PURDUE}, and .* are {FNAL};",
        ),
    ],
)
def test_pileup_that_leaves_no_site_is_named_with_where_it_is(pileups: list[PileUp], told: str) -> None:
    with pytest.raises(UserError, match=f"simulation may run nowhere: .*{told}"):
        allowed_sites(mixing(site_whitelist=[FNAL, PURDUE]), list(SITES), pileups)


def test_input_is_read_only_where_the_pileup_is_as_well() -> None:
    pileups = (pileup(sites=(DESY,)),)
    request = reprocessing(secondary_input_dataset=PREMIX)
    inputs = (input_file(1, locations=(DESY, FNAL)), input_file(2, locations=(FNAL,)))
    sites = allowed_sites(request, list(SITES), pileups)
    plan = plan_round(snapshot(request, inputs=inputs, pileups=pileups, sites=sites))
    assert [unit.sites for unit in plan.work_units] == [(DESY,)]
    assert [part.lfn for unit in plan.work_units for job in unit.jobs for part in job.files] == [
        inputs[0].lfn
    ]
    assert any(inputs[1].lfn in problem for problem in plan.problems)


def test_pileup_is_frozen_with_the_snapshot_in_one_order(tmp_path: Path) -> None:
    one = planned(pileup(), pileup(MINBIAS))
    mixed_up = PileUp(dataset=PREMIX, sites=(CERN, DESY), events=30, files=tuple(reversed(pileup().files)))
    other = planned(mixed_up, pileup(MINBIAS))
    frozen = freeze(one, tmp_path / "one")
    assert read_frozen(tmp_path / "one") == frozen
    assert frozen.snapshot.pileups[0].files == pileup().files
    assert freeze(other, tmp_path / "other").digest == frozen.digest
    fewer = planned(pileup(files=2), pileup(MINBIAS))
    assert freeze(fewer, tmp_path / "fewer").digest != frozen.digest


@pytest.mark.parametrize(
    "changes", [{"files": ()}, {"events": 0}, {"files": ("/etc/passwd",)}, {"dataset": "/A/B"}]
)
def test_pileup_without_files_or_with_names_that_are_none_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PileUp.model_validate(pileup().model_dump() | changes)


def test_the_list_is_one_file_of_the_round_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    plan = plan_round(planned(pileup(), pileup(MINBIAS)))
    without = plan_round(snapshot())
    for name in ("one", "two"):
        write_round(plan, tmp_path / name)
    write_round(without, tmp_path / "without")
    listed = (tmp_path / "one/pileup.json.gz").read_bytes()
    assert listed == (tmp_path / "two/pileup.json.gz").read_bytes()
    assert [item["dataset"] for item in json.loads(gzip.decompress(listed))["datasets"]] == [PREMIX, MINBIAS]
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert names - {path.name for path in (tmp_path / "without").iterdir()} == {"pileup.json.gz"}
    assert read_snapshot(tmp_path / "one").snapshot.pileups == plan.snapshot.pileups


def test_a_round_has_few_files_also_with_pileup(tmp_path: Path) -> None:
    plan = plan_round(snapshot(mixing(merge_target_bytes=150_000), pileups=(pileup(),)))
    write_round(plan, tmp_path / "round")
    files = [path for path in (tmp_path / "round").rglob("*") if path.is_file()]
    assert len(plan.work_units) == 10
    assert len(files) <= 3 * 10 + 20


@pytest.mark.parametrize("pileups", [(), (pileup(),)])
def test_only_processing_jobs_take_the_list_along_and_only_where_there_is_one(
    tmp_path: Path, pileups: tuple[PileUp, ...]
) -> None:
    write_round(plan_round(snapshot(mixing(), pileups=pileups)), tmp_path / "round")
    taken = {
        name: re.findall(r"^transfer_input_files = (.*)$", (tmp_path / f"round/{name}.sub").read_text(), re.M)
        for name in ("proc", "merge", "cleanup", "landing")
    }
    assert taken == {
        "proc": ["manifest.json, ../pileup.json.gz$(job_token)" if pileups else "manifest.json$(job_token)"],
        "merge": ["manifest.json, merge_input.json$(job_token)"],
        "cleanup": ["manifest.json, merge_input.json$(job_token)"],
        "landing": [],
    }


def test_the_sandbox_understands_the_list_and_the_manifest(tmp_path: Path) -> None:
    request = simulation(secondary_input_dataset=PREMIX)
    write_round(plan_round(snapshot(request, pileups=(pileup(),))), tmp_path / "round")
    listed = load_pileup(tmp_path / "round")[PREMIX]
    assert (listed.sites, listed.events, listed.files) == ((CERN, DESY), 30, pileup().files)
    assert load_manifest(tmp_path / "round/mg_000000").secondary_input_dataset == PREMIX
    assert "secondary" not in json.loads(_manifest_without_pileup(tmp_path / "other"))


def _manifest_without_pileup(folder: Path) -> str:
    write_round(plan_round(snapshot()), folder)
    return (folder / "mg_000000/manifest.json").read_text()


def test_pileup_of_which_nothing_is_known_is_told_dataset_by_dataset() -> None:
    problems = plan_round(planned(pileup(PREMIX))).problems
    assert len(problems) == 1
    assert f"the pile-up {MINBIAS} is, and its files, is not known here" in problems[0]
    assert plan_round(planned(pileup(), pileup(MINBIAS))).problems == ()
