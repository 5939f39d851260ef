"""Steps of type cmsRun, with a stand-in release whose cmsRun executes the configuration and writes job reports."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox.fjr import InputEntry, StepReport
from sandbox.steps import _unread
from tests.unit.sandbox_kit import (
    RESOURCES,
    Finished,
    Record,
    Site,
    event_range,
    manifest,
    of_files,
    output,
    step,
)

RELEASE = {"cmssw_version": "CMSSW_14_0_0", "scram_arch": "el9_amd64_gcc12", "pset": "config.py"}
CONFIGURATION = """
import FWCore.ParameterSet.Config as cms
process = cms.Process("GEN")
process.source = cms.Source("{source}")
process.GlobalTag = cms.PSet(globaltag=cms.string("none"))
process.RandomNumberGeneratorService = cms.Service("RNG", generator=cms.PSet(initialSeed=cms.untracked.uint32(1)))
process.RAWSIMoutput = cms.OutputModule("PoolOutputModule", fileName=cms.untracked.string("file:other.root"))
process.standin = {standin!r}
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def run(
    site: Site, plan: Record, source: str = "EmptySource", mode: str = "process", **standin: Any
) -> Finished:
    folder = site.job_folder(manifest=plan)
    (folder / "config.py").write_text(CONFIGURATION.format(source=source, standin=standin))
    return site.run(mode, "proc_000001", folder, VO_CMS_SW_DIR=str(RESOURCES / "cmssw"))


def cms_manifest(**changes: Any) -> Record:
    parameters = {**RELEASE, **changes.pop("parameters", {})}
    return manifest(steps=[step("GEN", "cmsRun", **parameters)], **changes)


def events(path: Path) -> list[list[int]]:
    return json.loads(path.read_text())


def told(job: Finished, step_folder: str = "step_1_GEN") -> Record:
    """What cmsRun was told, as the stand-in noted it."""
    return json.loads((job.folder / step_folder / "process.json").read_text())


def put(site: Site, lfn: str, first: int, last: int) -> Record:
    path = site.path(lfn)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([[1, 1 + (n - first) // 10, n] for n in range(first, last + 1)]))
    return {"lfn": lfn, "size_bytes": path.stat().st_size, "events": last - first + 1}


def test_a_configuration_that_the_manifest_carries_reaches_cmsrun(site: Site) -> None:
    text = CONFIGURATION.format(source="EmptySource", standin={})
    folder = site.job_folder(manifest=cms_manifest(parameters={"pset": "mine.py", "configuration": text}))
    job = site.run("process", "proc_000001", folder, VO_CMS_SW_DIR=str(RESOURCES / "cmssw"))
    assert job.status == 0, job.stderr
    assert len(events(site.path(job.report["outputs"][0]["lfn"]))) == 100


def test_simulation_is_told_its_events_lumis_and_seeds(site: Site) -> None:
    job = run(site, cms_manifest(parameters={"global_tag": "140X_mcRun3_v3"}, cores=4, seed_offset=5))
    assert job.status == 0, job.stderr
    [entry] = job.report["outputs"]
    assert [event[2] for event in events(site.path(entry["lfn"]))] == list(range(1201, 1301))
    assert [item["lumi"] for item in entry["lumis"]] == [31, 32, 33]
    assert {item["events"] for item in entry["lumis"]} == {None}
    wanted = told(job)
    assert (wanted["global_tag"], wanted["options"]["numberOfThreads"]) == ("140X_mcRun3_v3", 4)
    assert wanted["seeds"]["generator"] > 1
    again = told(run(site, cms_manifest(seed_offset=5)))
    other = told(run(site, cms_manifest(seed_offset=5, nodes={"proc_000001": event_range(1301, 1400, 34)})))
    assert again["seeds"] == wanted["seeds"] != other["seeds"]


def test_each_step_runs_with_its_own_threads_and_streams_within_the_cores_of_the_job(site: Site) -> None:
    own = [{"cores": 2, "event_streams": 1}, {}, {"cores": 16}]
    names = ("GEN", "SIM", "RECO")
    steps = [step(name, "cmsRun", **RELEASE, **more) for name, more in zip(names, own, strict=True)]
    plan = manifest(steps=steps, outputs=[output("RAWSIMoutput", "RECO", "AODSIM")], cores=4)
    job = run(site, plan)
    assert job.status == 0, job.stderr
    options = [told(job, f"step_{n}_{name}")["options"] for n, name in enumerate(names, start=1)]
    assert [(item["numberOfThreads"], item["numberOfStreams"]) for item in options] == [
        (2, 1),
        (4, 0),
        (4, 0),
    ]
    assert [entry["threads"] for entry in job.report["steps"]] == [2, 4, 4]


def test_input_is_read_from_the_sites_storage(site: Site) -> None:
    files = [put(site, "/store/data/a.root", 1, 50), put(site, "/store/data/b.root", 51, 100)]
    files[0]["first_event"] = 11
    job = run(
        site, cms_manifest(nodes={"proc_000001": of_files(files, {"1": [[2, 4]]})}), source="PoolSource"
    )
    assert job.status == 0, job.stderr
    wanted = told(job)["source"]
    assert wanted["fileNames"] == [f"file:{site.path(file['lfn'])}" for file in files]
    assert (wanted["skipEvents"], wanted["lumisToProcess"]) == (10, ["1:2-1:4"])


def test_a_range_inside_a_file_is_read_by_position(site: Site) -> None:
    file = put(site, "/store/data/a.root", 1, 50) | {"first_event": 11, "last_event": 20}
    job = run(site, cms_manifest(nodes={"proc_000001": of_files([file])}), source="PoolSource")
    [entry] = job.report["outputs"]
    assert [event[2] for event in events(site.path(entry["lfn"]))] == list(range(11, 21))


def test_an_address_goes_to_cmsrun_as_it_is(site: Site) -> None:
    file = put(site, "/store/data/a.root", 1, 50)
    site.describe(
        [
            {"protocol": "XRootD", "access": "global-ro", "prefix": "root://door.example/"},
            {"protocol": "file", "access": "site-rw", "prefix": str(site.storage)},
        ]
    )
    job = run(site, cms_manifest(nodes={"proc_000001": of_files([file])}), source="PoolSource")
    assert told(job)["source"]["fileNames"] == ["root://door.example//store/data/a.root"]


@pytest.mark.parametrize("report", ["whole", "truncated", "latin1"])
def test_a_read_error_arrives_as_8021_and_not_as_85(site: Site, report: str) -> None:
    file = put(site, "/store/data/a.root", 1, 50)
    job = run(
        site,
        cms_manifest(nodes={"proc_000001": of_files([file])}),
        source="PoolSource",
        exit=8021,
        report=report,
    )
    assert (job.status, job.report["exit_code"], job.fjr_code) == (85, 8021, 8021)
    assert "Größe" in job.report["exit_message"]
    assert job.report["bad_input_files"] == [file["lfn"]]


def test_of_several_files_the_one_that_the_error_names_is_bad(site: Site) -> None:
    files = [put(site, f"/store/data/{name}.root", 1, 50) for name in "abc"]
    nodes = {"proc_000001": of_files(files)}
    message = f"Fatal Root Error while reading file:{site.path('/store/data/b.root')}"
    job = run(site, cms_manifest(nodes=nodes), source="PoolSource", exit=8022, message=message)
    assert job.report["bad_input_files"] == ["/store/data/b.root"]


def test_an_input_that_was_skipped_fails_a_job_that_ended_well(site: Site) -> None:
    files = [put(site, f"/store/data/{name}.root", 1, 50) for name in "abc"]
    skipped = f'<SkippedFile Pfn="file:{site.path("/store/data/b.root")}" Lfn="" />'
    plan = cms_manifest(nodes={"proc_000001": of_files(files)})
    job = run(site, plan, source="PoolSource", extra=skipped)
    assert (job.status, job.report["exit_code"]) == (85, 8021)
    assert job.report["bad_input_files"] == ["/store/data/b.root"]
    assert site.files() == sorted(file["lfn"] for file in files)


def test_an_input_with_events_that_the_report_does_not_name_fails_a_job_that_ended_well(site: Site) -> None:
    files = [put(site, f"/store/data/{name}.root", 1, 50) for name in "ab"]
    plan = cms_manifest(nodes={"proc_000001": of_files(files)})
    job = run(site, plan, source="PoolSource", unread=["b.root"])
    assert (job.status, job.report["exit_code"]) == (85, 8021)
    assert job.report["bad_input_files"] == ["/store/data/b.root"]


WHOLE, MASK = {"first_event": None, "last_event": None}, {"1": [[1, 2]]}


@pytest.mark.parametrize(
    ("named", "lumis", "changes"),
    [
        ("/store/data/b.root", MASK, {}),
        ("/store/data/b.root", None, {"events": 0}),
        ("/store/data/b.root", None, {"last_event": 10}),
        ("/store/other/name.root", None, {}),
    ],
    ids=["nothing chosen", "no events", "a range of positions", "the report has other names"],
)
def test_an_input_that_may_have_had_nothing_to_read_is_not_blamed(
    named: str, lumis: Any, changes: Record
) -> None:
    planned = {"lfn": "/store/data/b.root", "pfn": "/site/store/data/b.root", "events": 50, **WHOLE}
    other = {"lfn": "/store/data/c.root", "pfn": "root://door//store/data/c.root", "events": 50, **WHOLE}
    report = StepReport(inputs=(InputEntry("", f"file:/site{named}", 50),))
    record = {"input_files": [planned, {**other, **changes}], "lumis": lumis}
    assert _unread(report, record) == []
    if named == planned["lfn"]:
        whole = {"input_files": [planned, other], "lumis": None}
        assert _unread(report, whole) == ["/store/data/c.root"]
        merge = {"input_files": [planned, other]}
        assert _unread(report, merge) == []


def test_events_are_counted_for_a_file_that_was_fetched_under_another_name(
    site: Site, tmp_path: Path
) -> None:
    entry = put(site, "/store/data/a.root", 1, 50)
    site.describe([{"protocol": "WebDAV", "access": "global-rw", "prefix": "davs://door.example"}])
    folder = site.job_folder(manifest=cms_manifest(nodes={"proc_000001": of_files([entry])}))
    (folder / "config.py").write_text(CONFIGURATION.format(source="PoolSource", standin={}))
    environment = {
        "VO_CMS_SW_DIR": str(RESOURCES / "cmssw"),
        "PATH": f"{RESOURCES / 'tools'}:{os.environ['PATH']}",
        "STANDIN_STORAGE": str(site.storage),
        "STANDIN_LOG": str(tmp_path / "calls.jsonl"),
    }
    job = site.run("process", "proc_000001", folder, **environment)
    assert job.status == 0, job.stderr
    assert job.report["inputs"] == [{"lfn": entry["lfn"], "events_read": 50}]


def test_a_file_of_somebody_else_that_was_skipped_is_no_failure(site: Site) -> None:
    other = '<SkippedFile Pfn="root://door.example//store/mc/pileup.root" Lfn="/store/mc/pileup.root" />'
    assert run(site, cms_manifest(), extra=other).status == 0


@pytest.mark.parametrize(
    ("extra", "status", "code"),
    [
        ("<ShutdownSignal/>", 0, 9000),
        ("<ShutdownSignal/>", 40, 9000),
        ('<FrameworkError ExitStatus="8901" Type="UnexpectedJobTermination"/>', 0, 8901),
        ('<FrameworkError ExitStatus="8901" Type="UnexpectedJobTermination"/>', 3, 3),
    ],
)
def test_a_report_that_never_came_to_its_end_is_no_success(
    site: Site, extra: str, status: int, code: int
) -> None:
    job = run(site, cms_manifest(), exit=status, report="success", extra=extra)
    assert (job.report["exit_code"], site.files()) == (code, [])


def test_nobody_knows_what_a_step_has_done_whose_report_never_came_to_its_end(site: Site) -> None:
    plan = cms_manifest()
    plan["payload"]["steps"][0]["repeatable"] = False
    ended = '<FrameworkError ExitStatus="8901" Type="UnexpectedJobTermination"/>'
    job = run(site, plan, exit=3, report="success", extra=ended)
    assert (job.report["exit_code"], job.report["cause_code"]) == (99501, 3)
    failed = run(site, plan, exit=8501)
    assert (failed.report["exit_code"], failed.report["not_repeatable"]["outcome"]) == (8501, "failed")


@pytest.mark.parametrize(("report", "code"), [("success", 85), ("none", 85), ("success", 134)])
def test_when_the_report_claims_success_the_process_is_believed(site: Site, report: str, code: int) -> None:
    job = run(site, cms_manifest(), exit=code, report=report)
    assert (job.status, job.report["exit_code"], job.fjr_code) == (code, code, code)
    assert site.files() == []


@pytest.mark.parametrize("report", ["truncated", "none"])
def test_success_without_a_whole_report_is_no_success(site: Site, report: str) -> None:
    job = run(site, cms_manifest(), report=report)
    assert (job.report["exit_code"], job.fjr_code) == (50115, 50115)


def test_an_output_module_that_the_configuration_lacks_fails_before_any_event(site: Site) -> None:
    job = run(site, cms_manifest(outputs=[output("AODoutput")]))
    assert job.status == 1
    assert any("no output module AODoutput" in line for line in job.report["log_tail"])


@pytest.mark.parametrize(
    ("code", "parameters"),
    [
        (10034, {"cmssw_version": "CMSSW_9_9_9"}),
        (10034, {"scram_arch": "slc7_amd64_gcc700"}),
        (7001, {"pset": "missing.py"}),
        (10031, {"pset": "/cvmfs/no/such.py"}),
        (7002, {"cmssw_version": "CMSSW_14_0_0; rm -rf /"}),
        (7002, {"scram_arch": "$(id)"}),
        (7002, {"pset": "../../config.py"}),
        (7002, {"global_tag": "a b"}),
        (7002, {"pset": None}),
    ],
)
def test_a_release_that_cannot_be_set_up_is_told_apart(site: Site, code: int, parameters: Record) -> None:
    job = run(site, cms_manifest(parameters=parameters))
    assert job.report["exit_code"] == code, job.stderr


def test_a_site_without_cms_software_is_told_apart(site: Site) -> None:
    folder = site.job_folder(manifest=cms_manifest())
    (folder / "config.py").write_text("")
    job = site.run("process", "proc_000001", folder, VO_CMS_SW_DIR=str(site.folder))
    assert job.report["exit_code"] == 10031


def test_a_chain_of_cmsrun_steps_keeps_the_last_output(site: Site) -> None:
    steps = [step("GEN", "cmsRun", **RELEASE), step("RECO", "cmsRun", **RELEASE)]
    job = run(site, manifest(steps=steps, outputs=[output(step="RECO")]))
    assert job.status == 0, job.stderr
    assert told(job, "step_2_RECO")["source"]["fileNames"] == [
        f"file:{job.folder}/step_1_GEN/RAWSIMoutput.root"
    ]
    assert job.report["outputs"][0]["events"] == 100


def test_a_pilot_never_asks_a_generator_to_change_lumi_early(site: Site) -> None:
    plan = cms_manifest(
        nodes={"proc_000001": event_range(1, 400, first_lumi=1, per_lumi=40)},
        pilot={"first_events": 15, "time_budget_sec": 600, "tolerance": 1e-9},
    )
    job = run(site, plan, mode="pilot")
    assert job.status == 0, job.stderr
    made = [event for entry in job.report["outputs"] for event in events(site.path(entry["lfn"]))]
    assert made == [[1, 1 + (n - 1) // 40, n] for n in range(1, 401)]


def test_unmerged_files_of_cmsrun_are_merged_by_cmsrun(site: Site) -> None:
    plan = cms_manifest(
        nodes={f"proc_00000{n}": event_range(100 * n + 1, 100 * n + 100, 3 * n) for n in (1, 2)}
    )
    files = []
    for node in plan["nodes"]:
        folder = site.job_folder(manifest=plan)
        (folder / "config.py").write_text(CONFIGURATION.format(source="EmptySource", standin={}))
        job = site.run("process", node, folder, VO_CMS_SW_DIR=str(RESOURCES / "cmssw"))
        files += [{**entry, "node": node} for entry in job.report["outputs"]]
    folder = site.job_folder(manifest=plan, merge_input={"version": 1, "files": files, "leftovers": []})
    job = site.run("merge", "merge", folder, VO_CMS_SW_DIR=str(RESOURCES / "cmssw"))
    assert job.status == 0, job.stderr
    [entry] = job.report["outputs"]
    assert [event[2] for event in events(site.path(entry["lfn"]))] == list(range(101, 301))
    assert entry["merged_from"] == [file["lfn"] for file in files]


def test_a_configuration_that_is_damaged_on_its_way_is_not_run(site: Site) -> None:
    job = run(site, cms_manifest(parameters={"pset_sha256": "0" * 64}))
    assert job.report["exit_code"] == 11003
    assert "did not arrive as it was sent" in job.stderr + json.dumps(job.report)


def test_a_configuration_that_has_its_digest_is_run(site: Site) -> None:
    text = CONFIGURATION.format(source="EmptySource", standin={})
    digest = hashlib.sha256(text.encode()).hexdigest()
    job = run(site, cms_manifest(parameters={"pset_sha256": digest}))
    assert job.status == 0, job.stderr
