"""Pile-up on the worker node: the list of a round becomes addresses of a site, and what was mixed in is told."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sandbox_kit import (
    RESOURCES,
    SITE,
    Finished,
    Record,
    Site,
    event_range,
    manifest,
    of_files,
    output,
    step,
)
from wms2.local.payload import make_inputs

PREMIX, MINBIAS = "/Neutrino/Era-premix-v1/PREMIX", "/MinBias/Era-proc-v1/GEN-SIM"
RELEASE = {"cmssw_version": "CMSSW_14_0_0", "scram_arch": "el9_amd64_gcc12", "pset": "config.py"}
MODULES = """
process.mix = cms.EDProducer("MixingModule", input=cms.SecSource("EmbeddedRootSource", fileNames=["own"]))
process.plain = cms.EDProducer("MixingModule")
process.old = cms.EDFilter("MixingModule", secsource=cms.SecSource("PoolSource", fileNames=["own"]))
"""
CONFIGURATION = """
import FWCore.ParameterSet.Config as cms
process = cms.Process("DIGI")
process.source = cms.Source("{source}")
process.RandomNumberGeneratorService = cms.Service("RNG", mix=cms.PSet(initialSeed=cms.untracked.uint32(1)))
process.RAWSIMoutput = cms.OutputModule("PoolOutputModule", fileName=cms.untracked.string("file:other.root"))
process.standin = {standin!r}
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def lfns(name: str = "p", count: int = 4) -> list[str]:
    return [f"/store/mc/{name}/{k}.root" for k in range(count)]


def listed(dataset: str, files: list[str], sites: tuple[str, ...] = (SITE,), events: int = 100) -> Record:
    return {"dataset": dataset, "sites": list(sites), "events": events, "files": files}


def folder_of(site: Site, plan: Record, *lists: Record) -> Path:
    folder = site.job_folder(manifest=plan)
    if lists:
        content = json.dumps({"version": 1, "datasets": lists}).encode()
        (folder / "pileup.json.gz").write_bytes(gzip.compress(content))
    return folder


def run(
    site: Site,
    plan: Record,
    *lists: Record,
    modules: str = MODULES,
    source: str = "EmptySource",
    mode: str = "process",
    **standin: Any,
) -> Finished:
    folder = folder_of(site, plan, *lists)
    (folder / "config.py").write_text(CONFIGURATION.format(source=source, standin=standin) + modules)
    return site.run(mode, "proc_000001", folder, VO_CMS_SW_DIR=str(RESOURCES / "cmssw"))


def cms_manifest(nodes: Record | None = None, **parameters: Any) -> Record:
    plan = manifest(steps=[step("GEN", "cmsRun", **RELEASE, **parameters)])
    return {**plan, "nodes": {"proc_000001": nodes}} if nodes else plan


def mixing(job: Finished, step_folder: str = "step_1_GEN") -> Record:
    """What the mixing modules were told, as the stand-in noted it."""
    assert job.status == 0, job.stderr
    return json.loads((job.folder / step_folder / "process.json").read_text())["mixing"]


def paths(site: Site, names: list[str]) -> list[str]:
    return [f"file:{site.path(name)}" for name in names]


def test_every_mixing_module_that_has_a_source_reads_the_list_at_this_site(site: Site) -> None:
    told = mixing(run(site, cms_manifest(mc_pileup=MINBIAS), listed(MINBIAS, lfns())))
    assert told == {"mix": {"fileNames": paths(site, lfns())}, "old": {"fileNames": paths(site, lfns())}}


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ({"mc_pileup": PREMIX}, "PreMixingModule"),
        ({"data_pileup": PREMIX}, "PreMixingModule"),
        ({"mc_pileup": PREMIX}, "DataMixingModule"),
        ({"data_pileup": PREMIX}, "DataMixingModule"),
        ({"mc_pileup": [PREMIX]}, "MixingModule"),
    ],
)
def test_a_kind_of_pileup_goes_to_the_modules_that_mix_it(site: Site, named: Record, kind: str) -> None:
    modules = f'process.mixData = cms.EDProducer("{kind}", input=cms.SecSource("EmbeddedRootSource"))\n'
    job = run(site, cms_manifest(**named), listed(PREMIX, lfns()), modules=modules)
    assert mixing(job)["mixData"]["fileNames"] == paths(site, lfns())


def test_a_step_can_mix_simulated_events_and_data_at_once(site: Site) -> None:
    modules = MODULES + 'process.mixData = cms.EDProducer("DataMixingModule", input=cms.SecSource("E"))\n'
    plan = cms_manifest(mc_pileup=[MINBIAS, PREMIX], data_pileup="/Data/Era-v1/RAW")
    lists = [listed(MINBIAS, lfns("a")), listed(PREMIX, lfns("b")), listed("/Data/Era-v1/RAW", lfns("c"))]
    told = mixing(run(site, plan, *lists, modules=modules))
    assert told["mix"]["fileNames"] == paths(site, [*lfns("a"), *lfns("b")])
    assert told["mixData"]["fileNames"] == paths(site, lfns("c"))


def test_the_pileup_of_the_request_goes_to_steps_that_name_none_of_their_own(site: Site) -> None:
    steps = [step("GEN", "cmsRun", **RELEASE), step("DIGI", "cmsRun", **RELEASE, mc_pileup=PREMIX)]
    plan = manifest(steps=steps, outputs=[output("RAWSIMoutput", "DIGI")], secondary_input_dataset=MINBIAS)
    job = run(site, plan, listed(MINBIAS, lfns("all")), listed(PREMIX, lfns("own")))
    assert mixing(job, "step_1_GEN")["mix"]["fileNames"] == paths(site, lfns("all"))
    assert mixing(job, "step_2_DIGI")["mix"]["fileNames"] == paths(site, lfns("own"))


def test_a_step_without_pileup_keeps_its_configuration(site: Site) -> None:
    told = mixing(run(site, cms_manifest(), listed(MINBIAS, lfns())))
    assert told["mix"] == {"fileNames": ["own"]}


def test_pileup_that_no_module_mixes_in_fails_before_any_event(site: Site) -> None:
    job = run(site, cms_manifest(mc_pileup=MINBIAS), listed(MINBIAS, lfns()), modules="")
    assert job.status == 1
    assert any("no module that mixes in the mc_pileup" in line for line in job.report["log_tail"])


def test_deterministic_pileup_is_read_in_order_from_a_place_of_each_jobs_own(site: Site) -> None:
    told = []
    for first in (1, 31, 101):
        plan = cms_manifest(event_range(first, first + 29, 1), mc_pileup=MINBIAS, deterministic_pileup=True)
        told.append(mixing(run(site, plan, listed(MINBIAS, lfns(), events=100)))["mix"])
    assert [item["sequential"] for item in told] == [True] * 3
    assert [item["skipEvents"] for item in told] == [1, 31, 1]


def test_jobs_that_read_other_events_mix_in_other_pileup(site: Site) -> None:
    """CMSSW draws files and events by its random numbers, so the seeds must be a job's own in every step."""
    seeds = []
    for lumis in ({"1": [[1, 1]]}, {"1": [[2, 2]]}, {"1": [[1, 1]]}):
        file = {"lfn": "/store/data/a.root", "size_bytes": 1, "events": 20}
        site.path(file["lfn"]).parent.mkdir(parents=True, exist_ok=True)
        site.path(file["lfn"]).write_text(json.dumps([[1, 1 + n // 10, n] for n in range(20)]))
        plan = cms_manifest(of_files([file], lumis), mc_pileup=MINBIAS)
        job = run(site, plan, listed(MINBIAS, lfns()), source="PoolSource")
        assert job.status == 0, job.stderr
        seeds.append(json.loads((job.folder / "step_1_GEN/process.json").read_text())["seeds"]["mix"])
    assert seeds[0] == seeds[2] != seeds[1]


def test_an_address_is_opened_in_place_also_when_a_way_to_copy_comes_first(site: Site) -> None:
    site.describe(
        [
            {"protocol": "WebDAV", "access": "global-rw", "prefix": "davs://door.example/"},
            {"protocol": "XRootD", "access": "global-ro", "prefix": "root://door.example/"},
        ]
    )
    folder = folder_of(site, cms_manifest(mc_pileup=MINBIAS), listed(MINBIAS, lfns(count=1)))
    (folder / "config.py").write_text(
        CONFIGURATION.format(source="EmptySource", standin={"exit": 8021}) + MODULES
    )
    job = site.run("process", "proc_000001", folder, VO_CMS_SW_DIR=str(RESOURCES / "cmssw"))
    told = json.loads((job.folder / "step_1_GEN/process.json").read_text())["mixing"]
    assert told["mix"]["fileNames"] == ["root://door.example//store/mc/p/0.root"]


def test_pileup_is_never_copied(site: Site) -> None:
    site.describe([{"protocol": "WebDAV", "access": "global-rw", "prefix": "davs://door.example/"}])
    job = run(site, cms_manifest(mc_pileup=MINBIAS), listed(MINBIAS, lfns()))
    assert (job.report["exit_code"], job.report["failed_step"]) == (8029, "GEN")
    assert "cannot open pile-up such as /store/mc/p/0.root at T2_US_Purdue" in job.report["exit_message"]


def test_pileup_that_is_elsewhere_is_found_by_cmssw_itself(site: Site) -> None:
    """Its own catalogue of the site knows where to look next."""
    away = listed(MINBIAS, lfns(), sites=("T2_DE_DESY",))
    job = run(site, cms_manifest(mc_pileup=MINBIAS), away)
    assert mixing(job)["mix"]["fileNames"] == lfns()
    assert job.report["pileup_files"] == lfns()[:1]
    demo = site.run(
        "process", "proc_000001", folder_of(site, manifest(steps=[step(mc_pileup=MINBIAS)]), away)
    )
    assert demo.report["exit_code"] == 8029


@pytest.mark.parametrize("kind", ["demo", "cmsRun"])
def test_a_round_without_the_list_that_a_step_needs_is_the_same_everywhere(site: Site, kind: str) -> None:
    plan = manifest(steps=[step("GEN", kind, **RELEASE, mc_pileup=MINBIAS)])
    for lists in ([], [listed(PREMIX, lfns())]):
        job = run(site, plan, *lists)
        assert (job.report["exit_code"], job.report["failed_step"]) == (7001, "GEN")
        assert f"mixes in {MINBIAS}, whose files are not in pileup.json.gz" in job.report["exit_message"]
        assert site.files() == []


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"no json"),
        gzip.compress(b"{}" * 1000)[:-9],
        gzip.compress(json.dumps({"version": 1, "datasets": [listed(MINBIAS, [])]}).encode()),
        gzip.compress(json.dumps({"version": 1, "datasets": [listed(MINBIAS, ["/etc/passwd"])]}).encode()),
    ],
    ids=["no gzip", "no JSON", "cut off", "no files", "no LFN"],
)
def test_a_list_that_is_broken_or_empty_is_a_wrong_manifest(site: Site, content: bytes) -> None:
    folder = site.job_folder(manifest=manifest(steps=[step(mc_pileup=MINBIAS)]))
    (folder / "pileup.json.gz").write_bytes(content)
    assert site.run("process", "proc_000001", folder).report["exit_code"] == 7002


def test_what_was_mixed_in_is_told_and_neither_read_nor_a_parent(site: Site) -> None:
    job = run(site, cms_manifest(mc_pileup=MINBIAS), listed(MINBIAS, lfns()))
    assert job.status == 0, job.stderr
    assert job.report["pileup_files"] == lfns()[:1]
    assert (job.report["inputs"], job.report["outputs"][0]["parents"]) == ([], [])
    assert job.report["steps"][0]["events_read"] == 0


def test_pileup_is_recognised_also_where_the_site_gives_files_other_names(site: Site) -> None:
    rule = {"lfn": "/+store/(.*)", "pfn": f"{site.storage}/cms/$1"}
    site.describe([{"protocol": "file", "access": "site-rw", "rules": [rule]}])
    plan = cms_manifest(mc_pileup=MINBIAS)
    job = run(site, plan, listed(MINBIAS, lfns()))
    assert mixing(job)["mix"]["fileNames"][0] == f"file:{site.storage}/cms/mc/p/0.root"
    assert job.report["pileup_files"] == lfns()[:1]
    job = run(
        site, plan, listed(MINBIAS, lfns()), exit=8021, message=f"{site.storage}/cms/mc/p/3.root is bad"
    )
    assert job.report["bad_pileup_files"] == [lfns()[3]]


def test_a_bad_pileup_file_is_told_and_the_input_is_not_blamed(site: Site) -> None:
    file = {"lfn": "/store/data/a.root", "size_bytes": 1, "events": 10}
    site.path(file["lfn"]).parent.mkdir(parents=True)
    site.path(file["lfn"]).write_text(json.dumps([[1, 1, n] for n in range(10)]))
    plan = cms_manifest(of_files([file]), mc_pileup=MINBIAS)
    for message, bad in ((f"error in {site.path(lfns()[2])}", [lfns()[2]]), ("error somewhere", [])):
        job = run(site, plan, listed(MINBIAS, lfns()), source="PoolSource", exit=8022, message=message)
        assert job.report["bad_pileup_files"] == bad
        assert job.report["bad_input_files"] == []
    job = run(site, plan, listed(MINBIAS, lfns()), source="PoolSource", exit=8022, message=file["lfn"])
    assert (job.report["bad_input_files"], job.report["bad_pileup_files"]) == ([file["lfn"]], [])


def test_the_demo_payload_mixes_in_a_few_files_and_says_which(site: Site) -> None:
    entries = make_inputs(site.storage.parent, 5, 4, locations=[SITE], base="/store/mc/mixed")
    names = [entry["lfn"] for entry in entries]
    plan = manifest(steps=[step(mc_pileup=MINBIAS)], nodes={"proc_000001": event_range(1, 10, 1)})
    job = site.run("process", "proc_000001", folder_of(site, plan, listed(MINBIAS, names)))
    assert job.status == 0, job.stderr
    assert job.report["pileup_files"] == names[1:4]
    assert (job.report["steps"][0]["events_read"], job.report["outputs"][0]["events"]) == (0, 10)
    read = [(item.findtext("InputType"), item.findtext("EventsRead")) for item in job.fjr.iter("InputFile")]
    assert read == [("mixingFiles", "1")] * 3


def test_a_pilot_names_what_all_its_iterations_mixed_in(site: Site) -> None:
    plan = cms_manifest(event_range(1, 80, 1), mc_pileup=MINBIAS)
    plan["pilot"] = {"first_events": 40, "time_budget_sec": 600, "tolerance": 0.1}
    job = run(site, plan, listed(MINBIAS, lfns()), mode="pilot")
    assert job.status == 0, job.stderr
    assert job.report["pileup_files"] == lfns()[:1]


def test_a_pileup_file_that_is_gone_is_named(site: Site) -> None:
    plan = manifest(steps=[step(mc_pileup=MINBIAS)], nodes={"proc_000001": event_range(1, 10, 1)})
    job = site.run("process", "proc_000001", folder_of(site, plan, listed(MINBIAS, lfns())))
    assert job.report["exit_code"] == 8020
    assert job.report["bad_pileup_files"] == [lfns()[1]]
