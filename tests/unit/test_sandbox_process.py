"""The wrapper in processing mode, as a job sees it: a folder, an environment, one command."""

import ast
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from post_script.outputs import possible_files
from tests.unit.sandbox_kit import (
    BARE_PYTHON,
    CLUSTER,
    PREFIX,
    REPOSITORY,
    Site,
    archive,
    event_range,
    finish,
    manifest,
    of_files,
    output,
    step,
)
from wms2.local.payload import check, make_inputs

UNMERGED = "/store/unmerged/Era/Prim/GEN-SIM/proc-v1/000003"
KILLED, STALLED = 50669, 50665


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_job_makes_its_events_and_leaves_them_at_the_site_under_their_lfn(site: Site) -> None:
    job = site.process(manifest())
    assert job.status == 0, job.stderr
    lfn = f"{UNMERGED}/{PREFIX}_proc_000001_{CLUSTER}_RAWSIMoutput.root"
    assert site.files() == [lfn]
    found = check([site.path(lfn)])
    assert list(found.numbers) == list(range(1201, 1301))
    assert found.wrong_values == 0
    [entry] = job.report["outputs"]
    data = site.path(lfn).read_bytes()
    assert entry["lfn"] == lfn
    assert (entry["size_bytes"], entry["events"]) == (len(data), 100)
    assert entry["adler32"] == f"{zlib.adler32(data):08x}"
    assert entry["lumis"] == [
        {"run": 1, "lumi": 31, "events": 40},
        {"run": 1, "lumi": 32, "events": 40},
        {"run": 1, "lumi": 33, "events": 20},
    ]
    assert entry["site"] == site.name


def test_a_report_measures_each_step(site: Site) -> None:
    busy = step("GEN", kb_per_event=0.2, cpu_seconds_per_event=0.004, memory_mb=200)
    job = site.process(manifest(steps=[busy]))
    [measured] = job.report["steps"]
    assert measured["cpu_sec"] > 0.4
    assert measured["wall_sec"] >= 0.4
    assert 200 < measured["peak_rss_mb"] < 400
    assert (measured["events_read"], measured["events_written"], measured["threads"]) == (0, 100, 1)
    assert measured["output_bytes"] == job.report["outputs"][0]["size_bytes"]
    assert job.report["peak_rss_mb"] == measured["peak_rss_mb"]
    assert (job.report["mode"], job.report["node"], job.report["cluster"]) == (
        "process",
        "proc_000001",
        CLUSTER,
    )


@pytest.mark.parametrize(
    "parameters", [{"cores": "many"}, {"cores": -1}, {"event_streams": 1.5}, {"event_streams": -1}]
)
def test_threads_and_streams_of_a_step_are_numbers(site: Site, parameters: dict[str, Any]) -> None:
    job = site.process(manifest(steps=[step(**parameters)]))
    assert (job.report["exit_code"], "whole number" in job.report["exit_message"]) == (7002, True)


def test_each_step_reads_what_the_step_before_it_wrote(site: Site) -> None:
    steps = [step("GEN", kb_per_event=0.2, filter_efficiency=0.5), step("RECO", kb_per_event=0.4)]
    outputs = [output(), output("AODoutput", "RECO", "AODSIM")]
    job = site.process(manifest(steps=steps, outputs=outputs))
    assert job.status == 0, job.stderr
    first, second = (check([site.path(entry["lfn"])]) for entry in job.report["outputs"])
    assert 25 < first.events < 75
    assert list(first.numbers) == list(second.numbers)
    assert [(s["name"], s["events_read"]) for s in job.report["steps"]] == [
        ("GEN", 0),
        ("RECO", first.events),
    ]


def test_files_have_names_that_can_be_told_without_a_report(site: Site) -> None:
    outputs = [output(), output("AODoutput", "RECO", "AODSIM")]
    plan = manifest(steps=[step("GEN"), step("RECO")], outputs=outputs)
    assert site.process(plan).status == 0
    assert site.files() == sorted(possible_files(plan, {}, "proc_000001", CLUSTER))


def test_a_step_can_read_a_named_module_of_an_earlier_step_that_keeps_nothing(site: Site) -> None:
    steps = [
        step("GEN"),
        step("SIM", kb_per_event=0.1),
        {**step("RECO"), "input_step": "GEN", "input_module": "RAWSIMoutput"},
    ]
    job = site.process(manifest(steps=steps, outputs=[output("AODoutput", "RECO", "AODSIM")]))
    assert job.status == 0, job.stderr
    assert job.report["outputs"][0]["events"] == 100


def test_a_step_writes_several_output_modules(site: Site) -> None:
    outputs = [output(), output("DQMoutput", "GEN", "DQMIO")]
    sizes = {"RAWSIMoutput": 1.0, "DQMoutput": 0.1}
    job = site.process(manifest(steps=[step(kb_per_event=sizes)], outputs=outputs))
    large, small = job.report["outputs"]
    assert large["size_bytes"] > small["size_bytes"] + 80_000
    assert check([site.path(small["lfn"])]).events == 100


def test_input_files_are_read_between_their_positions_and_inside_the_mask(site: Site) -> None:
    files = make_inputs(site.storage.parent, 2, 100, locations=[site.name], lumis_per_file=10)
    files[0] |= {"first_event": 41, "last_event": 100}
    nodes = {"proc_000001": of_files(files, lumis={"1": [[5, 9], [11, 12]]})}
    job = site.process(manifest(nodes=nodes))
    assert job.status == 0, job.stderr
    [entry] = job.report["outputs"]
    assert list(check([site.path(entry["lfn"])]).numbers) == [*range(41, 91), *range(101, 121)]
    assert entry["parents"] == [file["lfn"] for file in files]
    assert job.report["inputs"] == [
        {"lfn": files[0]["lfn"], "events_read": 50},
        {"lfn": files[1]["lfn"], "events_read": 20},
    ]


def test_input_that_is_not_at_the_site_is_named(site: Site) -> None:
    files = make_inputs(site.storage.parent, 3, 10, locations=[site.name])
    for file in files[1:]:
        site.path(file["lfn"]).unlink()
    job = site.process(manifest(nodes={"proc_000001": of_files(files)}))
    assert (job.report["exit_code"], job.status) == (8020, 8020 % 256)
    assert job.report["bad_input_files"] == [file["lfn"] for file in files[1:]]


def test_input_that_is_no_root_file_is_named(site: Site) -> None:
    files = make_inputs(site.storage.parent, 2, 10, locations=[site.name])
    site.path(files[1]["lfn"]).write_bytes(b"not a ROOT file" * 100)
    job = site.process(manifest(nodes={"proc_000001": of_files(files)}))
    assert job.report["exit_code"] == 8020
    assert job.report["failed_step"] == "GEN"
    assert job.report["bad_input_files"] == [files[1]["lfn"]]
    assert job.fjr_code == 8020


def test_a_failing_step_gives_its_long_code_and_the_end_of_its_log(site: Site) -> None:
    faults = [{"node": "proc_000001", "exit_code": 8501, "message": "no such generator: Größe"}]
    job = site.process(manifest(steps=[step("GEN"), step("RECO", faults=faults)], outputs=[output()]))
    assert (job.status, job.report["exit_code"], job.fjr_code) == (8501 % 256, 8501, 8501)
    assert job.report["failed_step"] == "RECO"
    assert "Größe" in job.report["exit_message"]
    assert job.report["outputs"] == []
    assert site.files() == []
    assert [s["exit_code"] for s in job.report["steps"]] == [0, 8501]


def test_a_step_that_dies_by_a_signal_counts_as_128_and_the_signal(site: Site) -> None:
    job = site.process(manifest(steps=[step(faults=[{"signal": int(signal.SIGSEGV)}])]))
    assert (job.status, job.report["exit_code"], job.fjr_code) == (139, 139, 139)


def test_a_missing_output_fails_the_job_and_nothing_is_staged_out(site: Site) -> None:
    job = site.process(manifest(steps=[step(faults=[{"no_output": True}])]))
    assert (job.report["exit_code"], job.fjr_code) == (60302, 60302)
    assert site.files() == []


def test_a_fault_strikes_as_often_as_it_was_asked_for(site: Site) -> None:
    faults = [{"node": "proc_000001", "exit_code": 8021, "times": 1}]
    plan = manifest(steps=[step(faults=faults, fault_dir=str(site.folder / "faults"))])
    assert [site.process(plan).status for _ in range(2)] == [8021 % 256, 0]


def test_a_step_that_neither_computes_nor_writes_is_ended(site: Site) -> None:
    hanging = {**step(faults=[{"hang": True}]), "stall_sec": 1}
    job = site.process(manifest(steps=[hanging]))
    assert (job.report["exit_code"], job.report["failed_step"]) == (STALLED, "GEN")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_killed_job_reports_and_leaves_no_process_behind(site: Site, number: signal.Signals) -> None:
    folder = site.job_folder(manifest=manifest(steps=[step(faults=[{"hang": True}])]))
    child = site.start("process", "proc_000001", folder)
    log = folder / "step_1_GEN" / "step.log"
    wait_for(lambda: log.exists() and len(children_of(child.pid)) == 1)
    [payload] = children_of(child.pid)
    child.send_signal(number)
    job = finish(child, folder)
    assert (job.status, job.report["exit_code"], job.fjr_code) == (KILLED % 256, KILLED, KILLED)
    assert number.name in job.report["exit_message"]
    assert not Path(f"/proc/{payload}").exists()


def test_orphans_of_a_step_do_not_outlive_the_job(site: Site, tmp_path: Path) -> None:
    """A daemon in a session of its own, whose parent is gone, is found all the same."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nsetsid sleep 300 &\necho $! > {tmp_path}/daemon\nexit 3\n")
    script.chmod(0o755)
    job = site.process(manifest(), WMS2_SOFTWARE_PYTHON=str(script))
    assert job.report["exit_code"] == 3
    daemon = (tmp_path / "daemon").read_text().strip()
    wait_for(lambda: not Path(f"/proc/{daemon}").exists())


def test_a_job_that_is_killed_outright_leaves_a_report_that_says_so(site: Site) -> None:
    folder = site.job_folder(manifest=manifest(steps=[step(faults=[{"hang": True}])]))
    child = site.start("process", "proc_000001", folder)
    wait_for(lambda: (folder / "step_1_GEN" / "step.log").exists())
    [payload] = wait_for(lambda: children_of(child.pid))
    child.kill()
    os.kill(payload, signal.SIGKILL)
    job = finish(child, folder)
    assert (job.report["exit_code"], job.fjr_code) == (KILLED, KILLED)


@pytest.mark.parametrize(
    ("code", "files"),
    [
        (7001, {}),
        (7002, {"manifest": "{torn"}),
        (7002, {"manifest": []}),
        (7002, {"manifest": {**manifest(), "version": 2}}),
        (7002, {"manifest": manifest(nodes={})}),
        (7002, {"manifest": manifest(outputs=[output("../../etc")])}),
        (7002, {"manifest": manifest(outputs=[{**output(), "unmerged_base": "/store/../etc"}])}),
        (7002, {"manifest": manifest(outputs=[output(step="SIM")])}),
        (7002, {"manifest": manifest(steps=[step("$(rm -rf)")])}),
        (7002, {"manifest": manifest(steps=[step(type="shell")])}),
        (7002, {"manifest": manifest(cores=0)}),
        (7002, {"manifest": manifest(nodes={"proc_000001": event_range(10, 1)})}),
        (
            7002,
            {
                "manifest": manifest(
                    nodes={"proc_000001": of_files([{"lfn": "-rf", "size_bytes": 1, "events": 1}])}
                )
            },
        ),
    ],
)
def test_a_bad_manifest_is_a_permanent_failure(site: Site, code: int, files: dict[str, object]) -> None:
    job = site.run("process", "proc_000001", site.job_folder(**files))
    assert (job.report["exit_code"], job.fjr_code) == (code, code), job.stderr
    assert site.files() == []


@pytest.mark.parametrize(
    ("code", "environment"),
    [
        (11003, {"WMS2_SITE": "none"}),
        (11003, {"WMS2_SITE": "T2_US_Purdue; rm -rf /"}),
        (11003, {"WMS2_CLUSTER": "12 34"}),
        (10031, {"WMS2_SOFTWARE_PYTHON": "/no/such/python"}),
        (60315, {"SITECONFIG_PATH": "/no/such/folder"}),
    ],
)
def test_a_bad_slot_is_an_infrastructure_failure(site: Site, code: int, environment: dict[str, str]) -> None:
    job = site.process(manifest(), **environment)
    assert job.report["exit_code"] == code, job.stderr


def test_wrong_arguments_are_reported_too(site: Site) -> None:
    for arguments in ([], ["process"], ["explode", "proc_000001"], ["process", "../x"]):
        folder = site.job_folder()
        done = subprocess.run(
            [*BARE_PYTHON, str(archive()), *arguments],
            cwd=folder,
            env=site.environment(1),
            capture_output=True,
        )
        report = json.loads((folder / "report.json").read_text())
        assert (done.returncode, report["exit_code"]) == (7000 % 256, 7000)


def test_a_storage_that_cannot_be_written_to_is_an_infrastructure_failure(site: Site) -> None:
    (site.storage / "store").write_text("a file where a folder should be")
    job = site.process(manifest())
    assert (job.report["exit_code"], job.fjr_code) == (60307, 60307)
    assert job.report["outputs"] == []


def test_an_output_that_was_staged_out_goes_again_when_the_next_one_fails(site: Site) -> None:
    second = {**output("DQMoutput", "GEN", "DQMIO"), "unmerged_base": "/store/blocked"}
    (site.storage / "store").mkdir()
    (site.storage / "store" / "blocked").write_text("a file where a folder should be")
    job = site.process(manifest(outputs=[output(), second]))
    assert job.report["exit_code"] == 60307
    assert site.files() == ["/store/blocked"]
    assert job.report["left"] == []


def test_the_wrapper_runs_from_its_package_as_well(site: Site) -> None:
    folder = site.job_folder(manifest=manifest())
    environment = {**site.environment(7), "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-S", "-m", "sandbox", "process", "proc_000001"]
    assert subprocess.run(command, cwd=folder, env=environment, capture_output=True).returncode == 0
    assert site.files() == [f"{UNMERGED}/{PREFIX}_proc_000001_7_RAWSIMoutput.root"]


@pytest.mark.parametrize("package", ["sandbox", "post_script"])
def test_what_runs_beside_a_job_is_written_for_python_3_9(package: str) -> None:
    modules = [
        ast.parse(path.read_text(), feature_version=(3, 9)) for path in (REPOSITORY / package).glob("*.py")
    ]
    assert len(modules) > 5


@pytest.mark.parametrize("package", ["sandbox", "post_script"])
def test_what_runs_beside_a_job_asks_for_nothing_that_python_3_9_lacks(package: str) -> None:
    """Unions in annotations must not be evaluated, and some keywords and names came later."""
    for path in (REPOSITORY / package).glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        futures = {name.name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names}
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        assert "annotations" in futures or not any(function.returns for function in functions), path
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        keywords = {(ast.unparse(call.func), keyword.arg) for call in calls for keyword in call.keywords}
        assert keywords.isdisjoint({("dataclass", "slots"), ("dataclass", "kw_only"), ("zip", "strict")}), (
            path
        )
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)} | futures
        assert names.isdisjoint({"pairwise", "bit_count", "UTC", "Self", "StrEnum", "tomllib"}), path


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come about in 20 s")
