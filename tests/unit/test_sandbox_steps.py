"""The chain of steps: outputs that are not what a report says, steps that run again, and steps that must not."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sandbox import fjr, products
from sandbox.report import Report, StepMetrics
from sandbox.steps import blamed, may_run_again
from tests.unit.sandbox_kit import Finished, Record, Site, finish, manifest, of_files, output, step
from wms2.local.payload import check, make_inputs

OUTPUT_MISSING, OUTCOME_UNKNOWN, DONE_ALREADY, KILLED = 60302, 99501, 99502, 50669


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def failing(site: Site, *faults: Record, name: str = "GEN", **parameters: Any) -> Record:
    return step(name, faults=list(faults), fault_dir=str(site.folder / "faults"), **parameters)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("lost", "output.root of module output is in the step's report and cannot be opened"),
        ("empty", "output.root of module output is empty"),
        ("cut", "output.root of module output is cut off: it has"),
    ],
)
def test_an_output_that_is_not_what_the_report_says_fails_the_step_that_exited_with_0(
    site: Site, how: str, told: str
) -> None:
    steps = [failing(site, {"spoil_output": how}), step("RECO")]
    job = site.process(manifest(steps=steps, outputs=[output("AODoutput", "RECO", "AODSIM")]))
    assert (job.report["exit_code"], job.fjr_code, job.report["failed_step"]) == (
        OUTPUT_MISSING,
        OUTPUT_MISSING,
        "GEN",
    )
    assert told in job.report["exit_message"]
    assert [item["name"] for item in job.report["steps"]] == ["GEN"], "the next step was not begun"
    assert site.files() == []


def test_a_missing_output_is_found_before_the_next_step_begins(site: Site) -> None:
    job = site.process(manifest(steps=[failing(site, {"no_output": True}), step("RECO")]))
    assert (job.report["exit_code"], job.report["failed_step"]) == (OUTPUT_MISSING, "GEN")
    assert "there is no output of module RAWSIMoutput" in job.report["exit_message"]


@pytest.mark.parametrize(
    ("message", "skipped", "fallbacks", "bad"),
    [
        ("reading branch X of root://b//store/b.root", (), ("/store/a.root",), ["/store/b.root"]),
        ("it broke", ("/store/b.root",), ("/store/c.root",), ["/store/b.root"]),
        ("it broke", (), ("/store/a.root", "root://far//store/a.root"), []),
        ("it broke", (), ("/store/a.root", "/store/c.root"), ["/store/c.root"]),
    ],
)
def test_a_file_that_opened_by_fallback_and_was_read_is_not_blamed(
    message: str, skipped: tuple[str, ...], fallbacks: tuple[str, ...], bad: list[str]
) -> None:
    read = (fjr.InputEntry("/store/a.root", "root://far//store/a.root", 1000),)
    report = fjr.StepReport(inputs=read, skipped_files=skipped, fallback_files=fallbacks)
    files = [{"lfn": f"/store/{name}.root", "pfn": f"root://near//store/{name}.root"} for name in "abc"]
    assert blamed(8021, message, report, files, None) == (bad, [])


def reported(size_bytes: int = 0, pfn: str = "out.root") -> fjr.StepReport:
    entry = fjr.OutputEntry("AODoutput", pfn, events=3, lumis=(), size_bytes=size_bytes)
    return fjr.StepReport(complete=True, exit_code=0, outputs=(entry,))


def test_a_file_is_held_against_the_size_in_its_report(tmp_path: Path) -> None:
    (tmp_path / "out.root").write_bytes(b"x" * 99)
    assert products.fault(tmp_path, reported(), ["AODoutput"]) is None
    assert products.fault(tmp_path, reported(99), ["AODoutput"]) is None
    told = products.fault(tmp_path, reported(100), ["AODoutput"])
    assert told == "output out.root of module AODoutput is cut off: it has 99 bytes, and should have 100"


def test_a_file_outside_the_folder_of_its_step_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "out.root").write_bytes(b"x")
    told = products.fault(tmp_path / "step", reported(pfn="../out.root"), ["AODoutput"])
    assert told == "there is no output of module AODoutput"


@pytest.mark.parametrize("version", [62400, 1062400])
def test_a_root_file_of_any_size_tells_where_it_ends(tmp_path: Path, version: int) -> None:
    wide = 8 if version > 1_000_000 else 4
    data = b"root" + version.to_bytes(4, "big") + (100).to_bytes(4, "big") + (500).to_bytes(wide, "big")
    (tmp_path / "out.root").write_bytes(data.ljust(500, b"\0"))
    assert products.fault(tmp_path, reported(), []) is None
    os.truncate(tmp_path / "out.root", 499)
    assert "it has 499 bytes, and should have 500" in (products.fault(tmp_path, reported(), []) or "")


def test_only_the_step_that_failed_runs_again_from_what_the_steps_before_it_left(site: Site) -> None:
    steps = [
        step("GEN", kb_per_event=0.2),
        failing(site, {"exit_code": 8021, "runs": 1}, name="RECO", startup_sec=0.3, memory_mb=150),
    ]
    outputs = [output(), output("AODoutput", "RECO", "AODSIM")]
    job = site.process(manifest(steps=steps, outputs=outputs))
    assert job.status == 0, job.stderr
    assert "step RECO runs again after 8021" in job.stdout
    generated, reconstructed = job.report["steps"]
    assert (generated["runs"], reconstructed["runs"]) == (1, 2)
    assert (reconstructed["exit_code"], reconstructed["events_read"], reconstructed["events_written"]) == (
        0,
        100,
        100,
    )
    first, second = (check([site.path(entry["lfn"])]) for entry in job.report["outputs"])
    assert (first.events, second.events) == (100, 100)


def test_time_and_memory_of_a_run_that_failed_count() -> None:
    def run(**changes: Any) -> StepMetrics:
        counts = {"exit_code": 0, "wall_sec": 1.0, "cpu_sec": 0.5, "peak_rss_mb": 100, "events_read": 0}
        counts |= {"events_written": 0, "output_bytes": 0, "threads": 1}
        return StepMetrics(name="RECO", type="demo", **(counts | changes))

    report = Report(mode="process", node="proc_000001")
    report.add_step(run(exit_code=8021, wall_sec=100.0, cpu_sec=80.0, peak_rss_mb=900))
    report.add_step(run(events_read=10, events_written=8, output_bytes=1000))
    assert report.steps == [
        run(
            wall_sec=101.0,
            cpu_sec=80.5,
            peak_rss_mb=900,
            events_read=10,
            events_written=8,
            output_bytes=1000,
            runs=2,
        )
    ]
    assert (report.cpu_sec, report.peak_rss_mb) == (80.5, 900)


def test_what_a_failed_run_left_in_its_folder_is_gone_before_the_next(site: Site) -> None:
    fault = {"exit_code": 8021, "runs": 1, "until": str(site.folder / "gate")}
    folder = site.job_folder(manifest=manifest(steps=[failing(site, fault)]))
    child = site.start("process", "proc_000001", folder)
    step_folder = folder / "step_1_GEN"
    while not (step_folder / "step.log").exists():
        assert child.poll() is None
        time.sleep(0.02)
    (step_folder / "partial.root").write_text("half of it")
    (site.folder / "gate").touch()
    job = finish(child, folder)
    assert (job.status, job.report["steps"][0]["runs"]) == (0, 2)
    assert not (step_folder / "partial.root").exists()


def test_a_step_runs_again_once_unless_it_says_otherwise(site: Site) -> None:
    fault = {"exit_code": 8021}
    for fields, runs in [({}, 2), ({"repetitions": 0}, 1), ({"repetitions": 2}, 3)]:
        job = site.process(manifest(steps=[{**failing(site, fault), **fields}]))
        assert (job.report["exit_code"], job.report["steps"][0]["runs"]) == (8021, runs)


@pytest.mark.parametrize("code", [8001, 8501, 60302, 8022, 50660])
def test_a_step_that_would_fail_again_does_not_run_again(site: Site, code: int) -> None:
    job = site.process(manifest(steps=[failing(site, {"exit_code": code})]))
    assert (job.report["exit_code"], job.report["steps"][0]["runs"]) == (code, 1)


@pytest.mark.parametrize(
    ("took_sec", "left_sec", "again"), [(60, 61, True), (60, 60, False), (60, -1, False)]
)
def test_a_step_does_not_run_again_when_the_jobs_time_would_not_last(
    took_sec: float, left_sec: float, again: bool
) -> None:
    assert may_run_again(True, 8021, took_sec, left_sec) == again


def test_an_input_that_cannot_be_opened_is_named_after_the_second_run_too(site: Site) -> None:
    files = make_inputs(site.storage.parent, 2, 10, locations=[site.name])
    site.path(files[1]["lfn"]).write_bytes(b"not a ROOT file" * 100)
    job = site.process(manifest(nodes={"proc_000001": of_files(files)}))
    assert (job.report["exit_code"], job.report["bad_input_files"]) == (8020, [files[1]["lfn"]])
    assert job.report["steps"][0]["runs"] == 2


def test_a_fault_strikes_every_run_of_as_many_attempts_as_it_was_asked_for(site: Site) -> None:
    plan = manifest(steps=[failing(site, {"exit_code": 8021, "times": 1})])
    jobs = [site.process(plan, cluster=cluster) for cluster in (1, 2)]
    assert [(job.report["exit_code"], job.report["steps"][0]["runs"]) for job in jobs] == [(8021, 2), (0, 1)]


def unrepeatable(record: Record) -> Record:
    return {**record, "repeatable": False}


def outcome(job: Finished) -> tuple[int, int | None, Record | None]:
    return job.report["exit_code"], job.report["cause_code"], job.report["not_repeatable"]


UNKNOWN_GEN = {"step": "GEN", "outcome": "unknown"}
DONE_GEN = {"step": "GEN", "outcome": "done"}


@pytest.mark.parametrize(
    ("fault", "fields", "cause"),
    [
        ({"hang": True}, {"stall_sec": 1}, 50665),
        ({"signal": int(signal.SIGSEGV)}, {}, 139),
        ({"kill_wrapper": "first"}, {}, KILLED),
        ({"kill_wrapper": "last"}, {}, KILLED),
    ],
)
def test_the_unknown_outcome_of_a_step_that_must_not_run_twice_is_for_a_person(
    site: Site, fault: Record, fields: Record, cause: int
) -> None:
    job = site.process(manifest(steps=[unrepeatable({**failing(site, fault), **fields})]))
    assert outcome(job) == (OUTCOME_UNKNOWN, cause, UNKNOWN_GEN)
    assert "step GEN is not repeatable and nobody knows what it has done" in job.report["exit_message"]


def test_a_job_that_is_evicted_in_a_step_that_must_not_run_twice_says_so(site: Site) -> None:
    gate = str(site.folder / "never")
    folder = site.job_folder(manifest=manifest(steps=[unrepeatable(failing(site, {"until": gate}))]))
    child = site.start("process", "proc_000001", folder)
    while not (folder / "step_1_GEN" / "step.log").exists():
        assert child.poll() is None
        time.sleep(0.02)
    child.terminate()
    job = finish(child, folder)
    assert outcome(job) == (OUTCOME_UNKNOWN, KILLED, UNKNOWN_GEN)
    assert (job.status, job.fjr_code) == (OUTCOME_UNKNOWN % 256, OUTCOME_UNKNOWN)
    assert "SIGTERM" in job.report["exit_message"]


def test_a_step_that_must_not_run_twice_and_leaves_no_report_is_for_a_person(site: Site) -> None:
    for status in (0, 3):
        script = site.folder / f"python_{status}"
        script.write_text(f"#!/bin/sh\nexit {status}\n")
        script.chmod(0o755)
        job = site.process(manifest(steps=[unrepeatable(step())]), WMS2_SOFTWARE_PYTHON=str(script))
        assert outcome(job) == (OUTCOME_UNKNOWN, status or 50115, UNKNOWN_GEN)


@pytest.mark.parametrize(
    ("fault", "cause"), [({"exit_code": 8501}, 8501), ({"kill_wrapper": "first"}, KILLED)]
)
def test_what_fails_after_a_step_that_must_not_run_twice_is_for_a_person(
    site: Site, fault: Record, cause: int
) -> None:
    job = site.process(manifest(steps=[unrepeatable(step()), failing(site, fault, name="RECO")]))
    assert outcome(job) == (DONE_ALREADY, cause, DONE_GEN)


def test_a_stage_out_that_fails_after_a_step_that_must_not_run_twice_is_for_a_person(site: Site) -> None:
    (site.storage / "store").write_text("a file where a folder should be")
    job = site.process(manifest(steps=[unrepeatable(step())]))
    assert outcome(job) == (DONE_ALREADY, 60307, DONE_GEN)
    assert "step GEN is not repeatable and has done its work" in job.report["exit_message"]


def test_a_later_step_runs_again_while_one_that_must_not_is_kept(site: Site) -> None:
    steps = [unrepeatable(step()), failing(site, {"exit_code": 8021, "runs": 1}, name="RECO")]
    job = site.process(manifest(steps=steps))
    assert outcome(job) == (0, None, DONE_GEN)
    assert [item["runs"] for item in job.report["steps"]] == [1, 2]


def test_a_step_that_must_not_run_twice_and_says_that_it_failed_has_its_own_code(site: Site) -> None:
    """The code is judged as any other; only the wrapper itself does not let it run again."""
    job = site.process(manifest(steps=[unrepeatable(failing(site, {"exit_code": 8021}))]))
    assert outcome(job) == (8021, None, {"step": "GEN", "outcome": "failed"})
    assert job.report["steps"][0]["runs"] == 1


def test_a_step_that_must_not_run_twice_and_never_began_has_done_nothing(site: Site) -> None:
    job = site.process(manifest(steps=[unrepeatable(step())]), WMS2_SOFTWARE_PYTHON=str(site.folder))
    assert outcome(job)[1:] == (None, None)


def test_the_fields_of_a_step_are_checked(site: Site) -> None:
    for fields in ({"repeatable": "no"}, {"repetitions": -1}, {"silent_sec": "x"}):
        job = site.process(manifest(steps=[{**step(), **fields}]))
        assert job.report["exit_code"] == 7002
