import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from pydantic import ValidationError

from sandbox.manifest import load_manifest
from tests.factories import SITES, input_file, reprocessing, simulation, snapshot
from wms2.core.planning import plan_round
from wms2.dagman.classads import classad_literal
from wms2.dagman.round_folder import read_round, sandbox_archive, write_round
from wms2.errors import UserError
from wms2.models.plan import InputFile, PilotPlan, Snapshot


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_planning_again_gives_the_same_bytes(tmp_path: Path) -> None:
    write_round(plan_round(snapshot()), tmp_path / "one")
    write_round(plan_round(snapshot()), tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_writing_the_same_plan_into_the_same_folder_changes_nothing(tmp_path: Path) -> None:
    first = write_round(plan_round(snapshot()), tmp_path / "round")
    before = contents(tmp_path / "round")
    assert write_round(plan_round(snapshot()), tmp_path / "round") == first
    assert contents(tmp_path / "round") == before


def test_another_plan_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    write_round(plan_round(snapshot()), tmp_path / "round")
    with pytest.raises(UserError, match="holds another plan"):
        write_round(plan_round(snapshot(simulation(total_events=500))), tmp_path / "round")


def test_a_crash_while_writing_leaves_nothing_that_could_be_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("wms2.dagman.round_folder._write_unit", crash)
        with pytest.raises(OSError, match="no space"):
            write_round(plan_round(snapshot()), tmp_path / "round")
    assert not (tmp_path / "round").exists()
    write_round(plan_round(snapshot()), tmp_path / "round")
    assert read_round(tmp_path / "round").request == "simulation"


def test_a_folder_without_a_round_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="wms2 request plan"):
        read_round(tmp_path)


def test_per_work_unit_only_the_dag_and_the_manifest_are_written(tmp_path: Path) -> None:
    planned = plan_round(snapshot(simulation(merge_target_bytes=300_000)))
    write_round(planned, tmp_path / "round")
    units = sorted(path for path in (tmp_path / "round").iterdir() if path.name.startswith("mg_"))
    assert len(units) == len(planned.work_units) == 5
    for unit in units:
        assert sorted(path.name for path in unit.iterdir()) == ["group.dag", "manifest.json"]


def test_the_outer_dag_prepares_judges_retries_and_aborts(tmp_path: Path) -> None:
    write_round(plan_round(snapshot()), tmp_path / "round")
    text = (tmp_path / "round/workflow.dag").read_text()
    assert "SUBDAG EXTERNAL mg_000000 group.dag DIR mg_000000" in text
    assert "RETRY mg_000000 1 UNLESS-EXIT 42" in text
    assert "ABORT-DAG-ON mg_000000 43 RETURN 1" in text
    assert re.search(r"^SCRIPT PRE mg_000000 \.\./post prepare", text, re.MULTILINE)
    assert re.search(r"^SCRIPT POST mg_000000 \.\./post judge", text, re.MULTILINE)
    assert "MAXJOBS WorkUnit 10" in text


def test_every_job_can_end_and_says_why(tmp_path: Path) -> None:
    write_round(plan_round(snapshot()), tmp_path / "round")
    for name in ("landing", "proc", "merge", "cleanup"):
        text = (tmp_path / f"round/{name}.sub").read_text()
        removal = next(line for line in text.splitlines() if line.startswith("periodic_remove"))
        reason = next(line for line in text.splitlines() if line.startswith("+PeriodicRemoveReason"))
        for status in ("JobStatus == 1", "JobStatus == 5", "MaxWallTimeMins", "MemoryUsage", "DiskUsage"):
            assert status in removal
        assert reason.count('"WMS2 ') == 6


def test_the_manifest_says_what_each_node_does(tmp_path: Path) -> None:
    inputs = tuple(input_file(k) for k in range(3))
    write_round(plan_round(snapshot(reprocessing(), inputs=inputs)), tmp_path / "round")
    manifest = json.loads((tmp_path / "round/mg_000000/manifest.json").read_text())
    assert manifest["sites"] == ["T1_US_FNAL"]
    assert [len(node["files"]) for node in manifest["nodes"].values()] == [2, 1]
    output = manifest["outputs"][0]
    assert output["merged_base"] == "/store/data/Run2024A/MinBias/RECO/Test-v1/000000"
    assert output["unmerged_base"] == "/store/unmerged/Run2024A/MinBias/RECO/Test-v1/000000"


def by_lumis() -> Snapshot:
    inputs = tuple(input_file(k, lumis=((1, 10 * k + 1, 10 * k + 10), (2, k + 1, k + 1))) for k in range(7))
    request = reprocessing(
        splitting_algo="LumiBased", splitting_params={"lumis_per_job": 4}, lumi_mask={"1": [[1, 33]]}
    )
    return snapshot(request, inputs=inputs)


def by_positions() -> Snapshot:
    inputs = (input_file(1, events=250), input_file(2, events=0), input_file(3))
    return snapshot(
        reprocessing(splitting_algo="EventBased", splitting_params={"events_per_job": 100}), inputs=inputs
    )


def as_pilot() -> Snapshot:
    return snapshot(events=100, pilot=PilotPlan(first_events=10))


@pytest.mark.parametrize("planned_from", [snapshot, by_lumis, by_positions, as_pilot])
def test_the_sandbox_accepts_every_manifest_and_finds_in_it_what_was_planned(
    tmp_path: Path, planned_from: Callable[[], Snapshot]
) -> None:
    plan = plan_round(planned_from())
    write_round(plan, tmp_path / "round")
    for unit in plan.work_units:
        manifest = load_manifest(tmp_path / "round" / unit.name)
        assert (manifest.name, manifest.cores) == (unit.name, plan.snapshot.sizing.cores)
        assert (manifest.pilot is None) == (plan.snapshot.pilot is None)
        assert [output.dataset for output in manifest.outputs] == [
            output.dataset for output in plan.snapshot.request.outputs
        ]
        assert list(manifest.nodes) == [name for name, _ in unit.nodes()]
        for name, job in unit.nodes():
            node = manifest.node(name)
            read = [(part.lfn, part.events, part.first_event, part.last_event) for part in job.files]
            assert [(f.lfn, f.events, f.first_event, f.last_event) for f in node.files] == read
            lumis = None if node.lumis is None else [
                (int(run), *pair) for run, pairs in node.lumis.items() for pair in pairs
            ]  # fmt: skip
            assert lumis == (None if job.lumis is None else list(job.lumis))
            if not job.files:
                assert (node.first_event, node.last_event) == (job.first_event, job.last_event)
                assert (node.run, node.first_lumi, node.events_per_lumi) == (1, job.first_lumi, 40)


def test_nothing_enters_a_dag_file_but_names_that_the_plan_made_itself(tmp_path: Path) -> None:
    """Names of files, sites and datasets go into the manifest; of a DAG's own words only numbers differ."""
    plan = plan_round(by_lumis())
    write_round(plan, tmp_path / "round")
    for path in (tmp_path / "round").rglob("*.dag"):
        assert not re.search(r"store|MinBias|T[0-3]_|reprocessing", path.read_text())


@pytest.mark.parametrize(
    "lfn", ["/store/../etc", "/store/a b", '/store/a"', "/store/a\nb", "/tmp/a", "/store/-a/$x"]
)
def test_a_file_name_that_does_not_match_never_gets_into_a_plan(lfn: str) -> None:
    with pytest.raises(ValidationError, match="lfn"):
        InputFile(lfn=lfn, size_bytes=1, events=1, locations=())


def test_attributes_of_the_request_reach_the_submit_files_and_never_replace_our_own(tmp_path: Path) -> None:
    request = simulation(job_attributes={"DataFormat": "nano.demo", "Depth": 3})
    write_round(plan_round(snapshot(request)), tmp_path / "round")
    text = (tmp_path / "round/proc.sub").read_text()
    assert '+DataFormat = "nano.demo"' in text
    assert "+Depth = 3" in text
    assert text.count("+CMS_RequestName") == 1


@pytest.mark.parametrize(
    "hostile", ['x"', "x\ny", "$(x)", "$$(x)", "x\\", "ü", "\x00", 'T2"; queue 100 #', "x\r+Owner = 1"]
)
def test_text_that_could_leave_its_literal_never_enters_a_submit_file(hostile: str) -> None:
    with pytest.raises(ValueError, match="cannot enter"):
        classad_literal(hostile)


def test_the_sandbox_archive_is_the_same_each_time_and_runs() -> None:
    archive = sandbox_archive()
    assert archive == sandbox_archive()
    names = zipfile.ZipFile(BytesIO(archive)).namelist()
    assert "sandbox/__main__.py" in names
    assert "__main__.py" in names


def test_the_launcher_finds_the_copied_scripts(tmp_path: Path) -> None:
    """The copy in the round runs alone: not the installed package, and with any Python of the host."""
    write_round(plan_round(snapshot()), tmp_path / "round")
    unit = tmp_path / "round/mg_000000"
    run = subprocess.run(
        [sys.executable, "-I", "-c", "import runpy,sys; sys.path.insert(0, '..'); sys.argv = ['post', 'prepare', "
         "'mg_000000']; runpy.run_path('../post')"],
        cwd=unit, check=False,
    )  # fmt: skip
    assert run.returncode == 0
    assert (unit / "site.inc").read_text().startswith("landing_sites = " + ",".join(SITES))


def with_pset(content: bytes) -> Snapshot:
    """A round of a request that brings its configuration along."""
    digest = hashlib.sha256(content).hexdigest()
    parameters = {"cmssw_version": "CMSSW_14_0_0", "scram_arch": "el9_amd64_gcc12", "config_cache_id": "c1"}
    shipped = {"pset": f"pset_{digest[:16]}.py", "pset_sha256": digest}
    step = {"name": "GEN", "type": "cmsRun", "parameters": {**parameters, **shipped}}
    return snapshot(simulation(payload_config={"steps": [step]}))


def test_a_configuration_that_was_imported_goes_with_the_processing_jobs(tmp_path: Path) -> None:
    content = "process = 'ü'".encode()
    name = f"pset_{hashlib.sha256(content).hexdigest()[:16]}.py"
    write_round(plan_round(with_pset(content)), tmp_path / "round", psets={name: content})
    assert (tmp_path / "round" / name).read_bytes() == content
    lines = (tmp_path / "round/proc.sub").read_text().splitlines()
    assert f"transfer_input_files = manifest.json, ../{name}$(job_token)" in lines
    assert name not in (tmp_path / "round/merge.sub").read_text()


def test_a_configuration_that_is_missing_or_another_one_is_never_shipped(tmp_path: Path) -> None:
    plan = plan_round(with_pset(b"process = 1"))
    name = f"pset_{hashlib.sha256(b'process = 1').hexdigest()[:16]}.py"
    for psets in ({}, {name: b"process = 2"}):
        with pytest.raises(UserError, match="not the one that was imported"):
            write_round(plan, tmp_path / "round", psets=psets)
    assert not (tmp_path / "round").exists()
