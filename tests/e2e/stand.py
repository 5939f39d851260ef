"""A stack, its worker and the command line: where requests live from end to end."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from temporalio.client import Client, WorkflowHistory

from tests.e2e.documents import EVENTS_PER_FILE, INPUT_FILES, Document, input_dataset
from wms2.db.overview import request_overview
from wms2.db.session import connect as connect_database
from wms2.db.session import transaction
from wms2.local import payload, process
from wms2.local.demo import merged_paths
from wms2.local.inputs import make_dataset
from wms2.local.stack import start_stack, stop_stack
from wms2.models.ledger import InputFileState, WorkUnitStatus
from wms2.models.output import OutputStatus
from wms2.models.overview import RequestOverview
from wms2.models.request import RequestStatus
from wms2.temporal.client import connect
from wms2.temporal.ids import output_id, request_id

ROOT = Path(__file__).parents[2]
WMS2 = Path(sys.executable).with_name("wms2")
HOST, USER = "submit-host", "operator"
PATIENCE_SEC = 600.0
"""Far more than anything takes: only a request that stands still is given up."""
LOOK_EVERY_SEC = 0.3


class Stand:
    """A stack that is up, and a person's hands on it."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.settings = start_stack(home)
        self.engine = connect_database(self.settings.needed("database_url"))
        self.environment = {**os.environ, "WMS2_HOME": str(home), "WMS2_HOST": HOST, "LOGNAME": USER}
        self.worker: subprocess.Popen[bytes] | None = None

    # The worker and the servers ---------------------------------------------------------------------------

    def start_worker(self, *command: str | Path) -> None:
        """The worker, or a command that runs one in its own way."""
        with (self.folder / "worker.log").open("ab") as log:
            self.worker = subprocess.Popen(
                command or [WMS2, "worker", "run"], env=self.environment, cwd=ROOT, stdout=log, stderr=log
            )

    def kill_worker(self) -> None:
        assert self.worker is not None
        self.worker.send_signal(signal.SIGKILL)
        self.worker.wait()

    def worker_ended(self) -> int | None:
        """How it ended; None while it runs."""
        assert self.worker is not None
        return self.worker.poll()

    def kill(self, part: str) -> None:
        """Every process of a server, at once and outright."""
        process.signal_all(process.running(self.home, part), signal.SIGKILL)

    def mend(self) -> None:
        """As `wms2 up` does it: whatever is dead is started again."""
        start_stack(self.home)

    def close(self) -> None:
        if self.worker is not None:
            self.kill_worker()
        self.engine.dispose()

    # Requests ---------------------------------------------------------------------------------------------

    def wms2(self, *words: str | Path) -> str:
        done = subprocess.run(
            [WMS2, *words], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + self.log()
        return done.stdout

    def submit(self, document: Document, *options: str) -> str:
        """Submit the request, with its input if it has any; its name."""
        name = str(document["request_name"])
        if "input_dataset" in document:
            asyncio.run(
                make_dataset(
                    self.settings, input_dataset(name),
                    files=INPUT_FILES, events_per_file=EVENTS_PER_FILE, sites=["T2_DE_DESY"],
                )
            )  # fmt: skip
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        self.wms2("request", "submit", path, *options)
        return name

    def gate(self, name: str) -> Path:
        """A file that is not there yet: jobs that wait for it go on when it is made."""
        return self.folder / "gates" / name

    def open(self, *gates: Path) -> None:
        for gate in gates:
            gate.parent.mkdir(exist_ok=True)
            gate.touch()

    def overview(self, name: str) -> RequestOverview:
        with transaction(self.engine) as session:
            return request_overview(session, name)

    def statuses(self, name: str) -> list[str]:
        """All that the request went through."""
        return [str(change.to_status) for change in self.overview(name).record.status_transitions]

    def until(self, name: str, *statuses: str) -> None:
        """Until the record ends with these statuses, however quickly they pass."""
        self.wait(lambda: self.statuses(name)[-len(statuses) :] == list(statuses), lambda: self.tale(name))

    def wait(
        self, reached: Callable[[], bool], tale: Callable[[], str], patience: float = PATIENCE_SEC
    ) -> None:
        deadline = time.monotonic() + patience
        while not reached():
            assert time.monotonic() < deadline, tale()
            time.sleep(LOOK_EVERY_SEC)

    def tale(self, name: str) -> str:
        """What is worth knowing of a request that stands still."""
        record = self.overview(name).record
        passed = [f"{change.to_status} {change.reason}".strip() for change in record.status_transitions]
        return f"{name}: {', '.join(passed)}\n{self.log()}"

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()[-3000:]

    # What came of it --------------------------------------------------------------------------------------

    def events(self, name: str) -> Counter[int]:
        """How often each event number is in the merged files."""
        rounds = sorted((self.home / "submit" / name).glob("round_[0-9][0-9]"))
        paths = [path for folder in rounds for path in merged_paths(self.home, folder)]
        content = payload.check(paths)
        assert content.wrong_values == 0
        return Counter(content.numbers.tolist())

    def dag_ids(self, name: str) -> list[str]:
        """Every DAG of the request that the schedd ever saw, in its queue and in its history."""
        found: list[str] = []
        for program in ("condor_q", "condor_history"):
            done = subprocess.run(
                [program, "-constraint", f'regexp("^{name}:", WMS2_DagId)', "-af", "WMS2_DagId"],
                env=self.settings.condor_environment(), capture_output=True, text=True, check=True,
            )  # fmt: skip
            found += done.stdout.split()
        return sorted(found)

    def assert_exactly_once(self, name: str, *dags: str) -> None:
        """All that was asked for is there once: in the merged files, in the ledger, in the schedd's history.

        `dags` are round:attempt of what should have been submitted.
        """
        seen = self.overview(name)
        assert seen.record.status is RequestStatus.COMPLETED
        events = self.events(name)
        assert set(events.values()) == {1}
        assert len(events) == seen.ledger.events_produced
        assert len(events) >= (seen.record.request.total_events or INPUT_FILES * EVENTS_PER_FILE)
        assert all(round_.closed_at is not None for round_ in seen.rounds)
        assert WorkUnitStatus.PLANNED not in seen.ledger.units
        if not seen.record.request.is_simulation:
            assert seen.ledger.files == {InputFileState.PROCESSED: INPUT_FILES}
        for output in seen.outputs:
            assert output.status is OutputStatus.ANNOUNCED
            assert (output.registered, output.events) == (output.files, len(events))
        assert self.dag_ids(name) == [f"{name}:{dag}" for dag in dags]

    async def histories(self, name: str) -> dict[str, list[WorkflowHistory]]:
        """The histories of a request's workflows by id, each with its runs from first to last."""
        client = await connect(self.settings)
        datasets = self.overview(name).record.request.output_datasets
        ids = [request_id(name), *(output_id(name, dataset) for dataset in datasets)]
        return {workflow: await runs(client, workflow) for workflow in ids}

    def history_lengths(self, name: str) -> dict[str, list[int]]:
        histories = asyncio.run(self.histories(name))
        return {workflow: [len(run.events) for run in found] for workflow, found in histories.items()}


async def runs(client: Client, workflow: str) -> list[WorkflowHistory]:
    """All runs of a workflow, each as long as it was until it continued as new or ended."""
    listed = [found async for found in client.list_workflows(f'WorkflowId = "{workflow}"')]
    ordered = sorted(listed, key=lambda found: found.start_time)
    return [
        await client.get_workflow_handle(workflow, run_id=found.run_id).fetch_history() for found in ordered
    ]


@contextmanager
def own_stand() -> Iterator[Stand]:
    """A stand in folders of its own, of which nothing is left."""
    # Short paths below /tmp: sockets live there.
    with stand_in(*(Path(tempfile.mkdtemp(prefix=f"wms2{letter}-", dir="/tmp")) for letter in "eo")) as stand:
        yield stand


@contextmanager
def stand_in(home: Path, folder: Path) -> Iterator[Stand]:
    """A stand in these folders, which are removed afterwards, also when the stack did not come up."""
    try:
        stand = Stand(home, folder)
        try:
            yield stand
        finally:
            stand.close()
    finally:
        stop_stack(home)
        assert process.running(home) == []
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(folder)
