"""The local stack for real: up, down, crashes, sites that vanish, and nothing left behind."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.patience import PATIENCE_SEC
from wms2.config import StackRecord
from wms2.local import process, stack
from wms2.local.doctor import Doctor
from wms2.local.ports import listening, pick_port
from wms2.local.postgres import libpq_url
from wms2.local.stack import PARTS, Stack, start_stack, stop_stack
from wms2.local.temporal import SEARCH_ATTRIBUTES, find_program

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("stack")]

JOB = """\
executable = /bin/sleep
transfer_executable = False
arguments = $(seconds)
+DESIRED_Sites = "$(site)"
requirements = stringListMember(TARGET.GLIDEIN_CMSSite, MY.DESIRED_Sites)
log = $(site).log
request_disk = 10M
request_memory = 100
queue
"""
WAITING_JOB = """\
executable = /bin/sh
transfer_executable = False
arguments = "-c 'until test -e {gate}; do sleep 0.2; done'"
log = {log}
# The machine that ran it goes down with the stack, and is waited for no longer than that.
job_lease_duration = 20
request_disk = 10M
request_memory = 100
queue
"""
FOR_EVER = 86400


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="wms2-stack-"))
    start_stack(folder)
    yield folder
    stop_stack(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def jobs(home: Path) -> Path:
    folder = home / "jobs"
    folder.mkdir()
    (folder / "job.sub").write_text(JOB)
    return folder


def wms2(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from wms2.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def condor(home: Path, *arguments: str, cwd: Path | None = None) -> str:
    environment = Stack(home).pool().environment()
    return subprocess.run(
        arguments, env=environment, cwd=cwd, capture_output=True, text=True, check=True
    ).stdout


def temporal(home: Path, *arguments: str) -> str:
    address = StackRecord.read(home).temporal_address or ""
    command = [find_program(), *arguments, "--address", address]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def submit(home: Path, jobs: Path, site: str, seconds: float = 0) -> str:
    answer = condor(
        home, "condor_submit", "-terse", f"site={site}", f"seconds={seconds}", "job.sub", cwd=jobs
    )
    return answer.split(".")[0]


def job_status(home: Path, job: str) -> str:
    """1 idle, 2 running, empty when it has left the queue."""
    return condor(home, "condor_q", job, "-autoformat", "JobStatus").strip()


def becomes(home: Path, job: str, status: str) -> bool:
    return process.wait_until(lambda: job_status(home, job) == status, PATIENCE_SEC, interval=0.3)


def main_pid(home: Path, part: str) -> int:
    return StackRecord.read(home).pids[part]


def test_every_part_answers_and_the_doctor_finds_nothing_wrong(home: Path) -> None:
    assert [state.problem for state in Stack(home).states()] == [None] * len(PARTS)
    assert [check.message for check in Doctor(home).checks() if not check.is_well] == []


def test_status_and_doctor_speak_json_on_a_clean_stdout(home: Path) -> None:
    status = wms2("status", "--home", home, "--json")
    doctor = wms2("doctor", "--home", home, "--json")

    assert status.returncode == doctor.returncode == 0
    assert {part["name"]: part["state"] for part in json.loads(status.stdout)["parts"]} == dict.fromkeys(
        PARTS, "running"
    )
    assert all(check["ok"] for check in json.loads(doctor.stdout))


def test_nothing_listens_beyond_loopback(home: Path) -> None:
    places = listening(process.running(home))

    assert len(places) >= len(PARTS)
    assert {address for address, _ in places} == {"127.0.0.1"}


def test_the_database_has_its_tables_and_the_server_asks_for_a_password(home: Path) -> None:
    url = libpq_url(StackRecord.read(home).database_url or "")
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables is not None
    assert tables[0] > 0
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url, password="wrong")


def test_temporal_knows_the_search_attributes(home: Path) -> None:
    address = StackRecord.read(home).temporal_address or ""
    command = [
        find_program(),
        "operator",
        "search-attribute",
        "list",
        "--address",
        address,
        "--output",
        "json",
    ]

    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert all(name in listed for name in SEARCH_ATTRIBUTES)


def test_a_job_runs_at_each_site(home: Path, jobs: Path) -> None:
    submitted = [submit(home, jobs, site) for site in Stack(home).pool().sites]

    assert all(becomes(home, job, "") for job in submitted)


def test_a_dag_runs_to_its_end(home: Path, jobs: Path) -> None:
    lines = ["JOB a job.sub", 'VARS a site="T2_CH_CERN" seconds="0"', "JOB b job.sub"]
    lines += ['VARS b site="T2_DE_DESY" seconds="0"', "PARENT a CHILD b"]
    (jobs / "two.dag").write_text("\n".join(lines) + "\n")

    condor(home, "condor_submit_dag", "two.dag", cwd=jobs)

    metrics = jobs / "two.dag.metrics"
    assert process.wait_until(metrics.exists, PATIENCE_SEC)
    assert process.wait_until(lambda: metrics.read_text().rstrip().endswith("}"), PATIENCE_SEC)
    assert json.loads(metrics.read_text())["exitcode"] == 0


def test_a_site_vanishes_with_its_jobs_while_the_others_go_on_and_then_it_returns(
    home: Path, jobs: Path
) -> None:
    pool = Stack(home).pool()
    lost = submit(home, jobs, "T2_DE_DESY", seconds=FOR_EVER)
    safe = submit(home, jobs, "T2_CH_CERN", seconds=FOR_EVER)
    assert becomes(home, lost, "2")
    assert becomes(home, safe, "2")

    pool.vanish_site("T2_DE_DESY")
    waiting = submit(home, jobs, "T2_DE_DESY")
    elsewhere = submit(home, jobs, "T2_CH_CERN")

    assert becomes(home, lost, "1")
    assert becomes(home, elsewhere, "")
    assert job_status(home, waiting) == "1"
    assert job_status(home, safe) == "2"

    pool.return_site("T2_DE_DESY")

    assert becomes(home, waiting, "")
    assert becomes(home, lost, "2")
    condor(home, "condor_rm", lost, safe)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_was_killed_comes_back_at_its_old_address(home: Path, part: str) -> None:
    before = StackRecord.read(home)
    os.kill(before.pids[part], signal.SIGKILL)
    assert process.wait_until(lambda: not process.is_running(home, part, before.pids[part]), PATIENCE_SEC)
    dead = {state.name: state.problem for state in Stack(home).states() if not state.is_well}

    said: list[str] = []
    start_stack(home, say=said.append)

    after = StackRecord.read(home)
    assert dead == {part: f"{part} is not running: run `wms2 up`"}
    assert [line for line in said if "dead" in line] == [f"{part} is dead: starting it again"]
    assert after.ports == before.ports
    assert {name for name in PARTS if after.pids[name] != before.pids[name]} == {part}
    assert all(state.is_well for state in Stack(home).states())


def test_what_was_stored_survives_the_crash_of_every_part(home: Path, jobs: Path) -> None:
    record = StackRecord.read(home)
    url = libpq_url(record.database_url or "")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (number int)")
        connection.execute("INSERT INTO kept VALUES (7)")
    request = f"{record.services_url}/reqmgr2/data/request/kept"
    asked = {"RequestName": "kept", "Campaign": "C"}
    answer = httpx.post(request.rpartition("/")[0], json=asked, trust_env=False, timeout=PATIENCE_SEC)
    answer.raise_for_status()
    temporal(home, "workflow", "start", "--type", "T", "--task-queue", "q", "--workflow-id", "kept")
    Stack(home).pool().vanish_site("T1_US_FNAL")
    queued = submit(home, jobs, "T1_US_FNAL")
    process.sweep(home)

    start_stack(home)

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchall() == [(7,)]
    kept = httpx.get(request, trust_env=False, timeout=PATIENCE_SEC).json()
    assert kept["result"][0]["kept"]["Campaign"] == "C"
    # Lists come from an index that is written a moment later.
    assert "kept" in temporal(home, "workflow", "describe", "--workflow-id", "kept")
    Stack(home).pool().return_site("T1_US_FNAL")
    assert becomes(home, queued, "")


def test_two_stacks_live_side_by_side_and_stopping_one_leaves_no_process_and_the_other_untouched(
    home: Path,
) -> None:
    second = Path(tempfile.mkdtemp(prefix="wms2-stack-"))
    others = StackRecord.read(home).pids
    try:
        start_stack(second, sites=("T2_US_Purdue",))
        assert not set(StackRecord.read(second).ports.values()) & set(StackRecord.read(home).ports.values())
        assert Stack(second).pool().missing() == []

        done = wms2("down", "--home", second, "--purge", "--yes")

        assert done.returncode == 0
        assert process.running(second) == []
        assert not second.exists()
        assert StackRecord.read(home).pids == others
        assert all(state.is_well for state in Stack(home).states())
    finally:
        stop_stack(second)


def test_a_port_that_another_program_takes_at_the_last_moment_is_replaced(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = StackRecord.read(home)
    monkeypatch.setenv("WMS2_DATABASE_URL", record.database_url or "")
    monkeypatch.setenv("WMS2_TEMPORAL_ADDRESS", record.temporal_address or "")
    monkeypatch.setenv("WMS2_CONDOR_CONFIG", str(record.condor_config))
    with socket.create_server(("127.0.0.1", 0)) as thief:
        stolen = [thief.getsockname()[1]]
        monkeypatch.setattr(stack, "pick_port", lambda taken: stolen.pop() if stolen else pick_port(taken))
        said: list[str] = []
        start_stack(tmp_path, say=said.append)
    try:
        assert "Another program took a port of services: trying another" in said
        assert list(StackRecord.read(tmp_path).pids) == ["services"]
        assert all(state.is_well for state in Stack(tmp_path).states())
    finally:
        stop_stack(tmp_path)
    assert process.running(tmp_path) == []


def test_a_folder_that_holds_other_things_is_neither_used_nor_emptied(tmp_path: Path) -> None:
    thesis, log = tmp_path / "thesis/thesis.tex", tmp_path / "work/logs/log"
    for file in (thesis, log):
        file.parent.mkdir(parents=True)
        file.write_text("precious")
    for folder in (thesis.parent, tmp_path / "work"):
        refused = wms2("up", "--home", folder)
        assert (refused.returncode, "give the stack a folder of its own" in refused.stderr) == (2, True)
        for words in (["down", "--purge", "--yes"], ["down"]):
            refused = wms2(*words, "--home", folder)
            assert (refused.returncode, "and no stack" in refused.stderr) == (2, True)
    assert (thesis.read_text(), log.read_text()) == ("precious", "precious")


def test_a_running_dag_does_not_outlive_the_stack_and_goes_on_with_the_next_one(
    home: Path, jobs: Path
) -> None:
    gate, log = jobs / "open", jobs / "waits.log"
    (jobs / "waits.sub").write_text(WAITING_JOB.format(gate=gate, log=log))
    (jobs / "long.dag").write_text("JOB a waits.sub\n")
    condor(home, "condor_submit_dag", "long.dag", cwd=jobs)
    assert process.wait_until(lambda: log.exists() and "Job executing" in log.read_text(), PATIENCE_SEC)

    stop_stack(home)
    left = process.running(home)
    not_running = wms2("doctor", "--home", home)
    start_stack(home)
    gate.touch()

    assert left == []
    assert not_running.returncode == 1
    assert "run `wms2 up`" in not_running.stdout
    assert process.wait_until((jobs / "long.dag.metrics").exists, PATIENCE_SEC)
