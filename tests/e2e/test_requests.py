"""Requests of both kinds on the real engines, with a worker that dies on the way."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wms2.config import Settings
from wms2.local import payload, process
from wms2.local.demo import merged_paths
from wms2.local.inputs import make_dataset
from wms2.local.stack import start_stack, stop_stack

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("requests")]

WMS2 = Path(sys.executable).with_name("wms2")
COMMON = """
requestor: tester
campaign: Tests
acquisition_era: Run2024A
processing_string: Test
time_per_event_sec: 0.001
size_per_event_kb: 1.0
memory_mb: 500
merge_target_bytes: 60000
"""
SIMULATION = """
request_name: e2e_simulation
primary_dataset: MinBias
total_events: 300
outputs: [{module: RAWSIMoutput, tier: GEN-SIM, step: GEN}]
splitting_algo: EventBased
splitting_params: {events_per_job: 20}
payload_config:
  steps: [{name: GEN, type: demo, parameters: {kb_per_event: 1.0, seconds_per_event: 0.1}}]
"""
REPROCESSING = """
request_name: e2e_reprocessing
input_dataset: /MinBias/Run2024A-Input-v1/RAW
outputs: [{module: RECOoutput, tier: RECO, step: RECO}]
splitting_algo: FileBased
splitting_params: {files_per_job: 1}
payload_config:
  steps: [{name: RECO, type: demo, parameters: {kb_per_event: 1.0, seconds_per_event: 0.05}}]
"""


class Stand:
    """A stack, its worker, and the command line."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.environment = {**os.environ, "WMS2_HOME": str(settings.home)}
        self.worker: subprocess.Popen[bytes] | None = None

    def start_worker(self) -> None:
        log = (self.folder / "worker.log").open("ab")
        self.worker = subprocess.Popen([WMS2, "worker", "run"], env=self.environment, stdout=log, stderr=log)

    def kill_worker(self) -> None:
        assert self.worker is not None
        self.worker.send_signal(signal.SIGKILL)
        self.worker.wait()

    def wms2(self, *words: str | Path) -> str:
        done = subprocess.run(
            [WMS2, *words], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + (self.folder / "worker.log").read_text()[-3000:]
        return done.stdout

    def submit(self, text: str) -> str:
        path = self.folder / "request.yaml"
        path.write_text(text + COMMON)
        self.wms2("request", "submit", path)
        return text.partition("request_name: ")[2].split()[0]

    def show(self, name: str) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.wms2("request", "show", name, "--ledger", "--json"))
        return shown

    def until(self, name: str, *statuses: str, patience: float = 240) -> str:
        deadline = time.monotonic() + patience
        while True:
            (found,) = [
                row
                for row in json.loads(self.wms2("request", "list", "--json"))
                if row["request_name"] == name
            ]
            if found["status"] in statuses:
                return str(found["status"])
            assert time.monotonic() < deadline, (found, (self.folder / "worker.log").read_text()[-3000:])
            time.sleep(0.5)

    def until_it_was(self, name: str, *statuses: str) -> None:
        """Until the record ends with these statuses, however quickly they passed."""
        deadline = time.monotonic() + 120
        wanted = list(statuses)
        while True:
            passed = [change["to_status"] for change in self.show(name)["record"]["status_transitions"]]
            if passed[-len(wanted) :] == wanted:
                return
            assert time.monotonic() < deadline, passed
            time.sleep(0.5)

    def events(self, name: str) -> Counter[int]:
        rounds = sorted((self.settings.home / "submit" / name).glob("round_[0-9][0-9]"))
        paths = [path for folder in rounds for path in merged_paths(self.settings.home, folder)]
        content = payload.check(paths)
        assert content.wrong_values == 0
        return Counter(content.numbers.tolist())

    def dag_ids(self, name: str) -> list[str]:
        """Every DAG of the request that the schedd ever saw."""
        done = subprocess.run(
            ["condor_history", "-constraint", f'regexp("^{name}:", WMS2_DagId)', "-af", "WMS2_DagId"],
            env=self.settings.condor_environment(), capture_output=True, text=True, check=True,
        )  # fmt: skip
        return sorted(done.stdout.split())


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    home, folder = (Path(tempfile.mkdtemp(prefix=f"wms2{letter}-", dir="/tmp")) for letter in "eo")
    stand = Stand(start_stack(home), folder)
    stand.start_worker()
    try:
        yield stand
    finally:
        stand.kill_worker()
        stop_stack(home)
        assert process.running(home) == []
        shutil.rmtree(home)
        shutil.rmtree(folder)


def test_a_simulation_survives_a_worker_that_is_killed_in_each_round(stand: Stand) -> None:
    name = stand.submit(SIMULATION)
    for status in ("pilot_running", "active"):
        stand.until(name, status, "completed")
        stand.kill_worker()
        stand.start_worker()
    assert stand.until(name, "completed", "held") == "completed"
    ledger = stand.show(name)["ledger"]
    assert ledger["events_produced"] >= 300
    events = stand.events(name)
    assert set(events.values()) == {1}
    assert len(events) == ledger["events_produced"]
    assert stand.dag_ids(name) == [f"{name}:0:1", f"{name}:1:1"]


def test_every_event_of_an_input_dataset_is_reprocessed_once(stand: Stand) -> None:
    asyncio.run(
        make_dataset(
            stand.settings,
            "/MinBias/Run2024A-Input-v1/RAW",
            files=7,
            events_per_file=20,
            sites=["T2_DE_DESY"],
        )
    )
    name = stand.submit(REPROCESSING)
    assert stand.until(name, "completed", "held") == "completed"
    assert stand.events(name) == Counter(range(1, 141))
    files = stand.show(name)["ledger"]["files"]
    assert files["processed"] == 7
    assert sum(files.values()) == 7


def test_a_stop_resumes_and_an_abort_ends(stand: Stand) -> None:
    name = stand.submit(SIMULATION.replace("e2e_simulation", "e2e_stopped"))
    stand.until(name, "active")
    stand.wms2("request", "stop", name, "--reason", "maintenance")
    stand.until_it_was(name, "stopping", "resubmitting", "queued", "active")
    stand.wms2("request", "abort", name, "--yes")
    assert stand.until(name, "aborted") == "aborted"
    events = stand.events(name)
    assert set(events.values()) <= {1}
    assert len(events) == stand.show(name)["ledger"]["events_produced"]
