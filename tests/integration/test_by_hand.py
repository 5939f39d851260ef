"""The command line on a stack of its own, where even the schedd may be killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.rounds import Gate, has_begun, unique
from tests.patience import PATIENCE_SEC
from wms2.config import Settings, StackRecord
from wms2.db.dags import dags_of_round
from wms2.db.session import connect, transaction
from wms2.local import payload, process
from wms2.local.demo import merged_paths
from wms2.local.stack import start_stack, stop_stack

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("own stack")]

REQUEST = """
request_name: {name}
requestor: tester
campaign: Tests
primary_dataset: MinBias
acquisition_era: Run2024A
processing_string: Test
total_events: 120
outputs: [{{module: RAWSIMoutput, tier: GEN-SIM, step: GEN}}]
splitting_algo: EventBased
splitting_params: {{events_per_job: 20}}
size_per_event_kb: 1.0
time_per_event_sec: 0.01
memory_mb: 500
merge_target_bytes: 40000
payload_config:
  steps: [{{name: GEN, type: demo, parameters: {{kb_per_event: 1.0, faults: {faults}}}}}]
"""
WMS2 = Path(sys.executable).with_name("wms2")


@pytest.fixture(scope="module")
def own_stack() -> Iterator[Settings]:
    home = Path(tempfile.mkdtemp(prefix="wms2o-", dir="/tmp"))
    try:
        yield start_stack(home)
    finally:
        stop_stack(home)
        assert process.running(home) == []
        shutil.rmtree(home)


def wms2(stack: Settings, *words: str | Path, code: int = 0) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [WMS2, *words],
        env={**os.environ, "WMS2_HOME": str(stack.home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@contextmanager
def dag_run(
    stack: Settings, folder: Path, *options: str, **environment: str
) -> Iterator["subprocess.Popen[str]"]:
    """`wms2 dag run` beside the test."""
    run = subprocess.Popen(
        [WMS2, "dag", "run", folder, *options],
        env={**os.environ, "WMS2_HOME": str(stack.home), **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield run
    finally:
        run.kill()
        run.communicate()


def plan(stack: Settings, tmp_path: Path, faults: Sequence[dict[str, Any]] = ()) -> tuple[str, Path]:
    name = unique("byhand")
    (tmp_path / "request.yaml").write_text(REQUEST.format(name=name, faults=json.dumps(list(faults))))
    folder = stack.home / "submit" / name
    summary = json.loads(
        wms2(stack, "request", "plan", tmp_path / "request.yaml", "--out", folder, "--json").stdout
    )
    assert (summary["jobs"], summary["work_units"], summary["events"]) == (6, 3, 120)
    return name, folder


def assert_every_event_once(stack: Settings, folder: Path) -> None:
    content = payload.check(merged_paths(stack.home, folder))
    assert content.numbers.tolist() == list(range(1, 121))
    assert content.wrong_values == 0


def test_a_round_planned_and_run_by_hand_can_be_looked_at_in_every_way(
    own_stack: Settings, tmp_path: Path
) -> None:
    name, folder = plan(own_stack, tmp_path)
    end: dict[str, Any] = json.loads(wms2(own_stack, "dag", "run", folder, "--json").stdout)
    assert (end["outcome"], end["units_done"], end["failures"]) == ("completed", 3, [])
    assert_every_event_once(own_stack, folder)
    (listed,) = json.loads(wms2(own_stack, "dag", "list", "--request", name, "--json").stdout)
    assert (listed["status"], listed["intent"]["dag_id"]) == ("completed", f"{name}:0:1")
    shown = json.loads(wms2(own_stack, "dag", "show", f"{name}:0:1", "--json").stdout)
    assert shown["events_done"] == 120
    nodes = json.loads(wms2(own_stack, "dag", "nodes", folder, "--json").stdout)
    assert len(nodes) == 15
    assert {node["status"] for node in nodes} == {"DONE"}
    assert "proc_000000" in wms2(own_stack, "dag", "nodes", f"{name}:0:1").stdout
    assert "EXITING WITH STATUS 0" in wms2(own_stack, "dag", "logs", folder).stdout
    assert (
        wms2(own_stack, "dag", "logs", folder, "mg_000000", "proc_000000").stderr.count("proc_000000.") == 2
    )
    assert wms2(own_stack, "dag", "run", folder, "--json").stdout


def test_a_killed_schedd_loses_and_repeats_nothing(own_stack: Settings, tmp_path: Path) -> None:
    gate = Gate(own_stack)
    nodes = [f"proc_{number:06d}" for number in range(6)]
    _, folder = plan(own_stack, tmp_path, gate.before(*nodes))
    # A machine gives up a job whose schedd is away for that long; how long it is away, nobody can promise.
    with dag_run(own_stack, folder, "--json", _CONDOR_JOB_DEFAULT_LEASE_DURATION="3600") as run:
        _wait_until(lambda: has_begun(folder, *nodes))
        schedd = _schedd(own_stack)
        os.kill(schedd, signal.SIGKILL)
        _wait_until(lambda: _schedd(own_stack) not in (0, schedd))
        gate.open()
        stdout, stderr = run.communicate(timeout=PATIENCE_SEC)
    assert run.returncode == 0, stderr
    assert json.loads(stdout)["outcome"] == "completed"
    for node in nodes:
        assert len(list(folder.glob(f"mg_*/{node}.*.post.json"))) == 1
    assert_every_event_once(own_stack, folder)


def test_a_stopped_dag_goes_on_where_it_was(own_stack: Settings, tmp_path: Path) -> None:
    gate = Gate(own_stack)
    name, folder = plan(own_stack, tmp_path, gate.before("proc_000002", "proc_000004"))
    with dag_run(own_stack, folder) as run:
        _wait_until((folder / "mg_000000/merge_output.json").exists)
        _wait_until(lambda: _is_recorded(own_stack, name))
        said = wms2(own_stack, "dag", "stop", f"{name}:0:1").stderr
        stderr = run.communicate(timeout=PATIENCE_SEC)[1]
    assert "Stopped: 1 of 3 work units are done." in " ".join(said.split())
    assert run.returncode == 1
    assert "To rescue what is not done: wms2 dag run" in " ".join(stderr.split())
    gate.open()
    end = json.loads(wms2(own_stack, "dag", "run", folder, "--json").stdout)
    assert (end["outcome"], end["dag_id"]) == ("completed", f"{name}:0:2")
    assert_every_event_once(own_stack, folder)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["dag", "run", "/nowhere"], "holds no planned round"),
        (["dag", "show", "no:such:dag"], "there is no DAG"),
        (["dag", "logs", "/nowhere"], "there is no folder /nowhere"),
        (["request", "plan", "/nowhere.yaml", "--out", "/tmp/x"], "nowhere.yaml"),
    ],
)
def test_mistakes_are_one_sentence(own_stack: Settings, words: list[str], sentence: str) -> None:
    stderr = " ".join(wms2(own_stack, *words, code=2).stderr.split())
    assert sentence in stderr
    assert stderr.startswith("Error:")


def test_without_a_stack_people_are_told_to_start_one(tmp_path: Path, own_stack: Settings) -> None:
    nowhere = own_stack.model_copy(update={"home": tmp_path / "empty"})
    _, folder = plan(own_stack, tmp_path)
    assert "wms2 up" in wms2(nowhere, "dag", "run", folder, code=2).stderr


def _schedd(stack: Settings) -> int:
    """The schedd that the master started, 0 while there is none; to answer queries it makes copies of itself."""
    for child in psutil.Process(StackRecord.read(stack.home).pids["condor"]).children():
        with suppress(psutil.NoSuchProcess):
            if child.name() == "condor_schedd":
                return child.pid
    return 0


def _is_recorded(stack: Settings, name: str) -> bool:
    """Whether `dag run` has written down what it submitted; the pool may be faster than its pen."""
    with transaction(connect(stack.needed("database_url"))) as session:
        return any(dag.dagman_cluster_id for dag in dags_of_round(session, name, 0))


def _wait_until(reached: Callable[[], bool]) -> None:
    assert process.wait_until(reached, PATIENCE_SEC, interval=0.2)
