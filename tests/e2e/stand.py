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
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from temporalio.client import Client, WorkflowHistory

from tests.e2e.documents import EVENTS_PER_FILE, INPUT_FILES, Document, input_dataset, input_file
from tests.patience import PATIENCE_SEC
from wms2.adapters.connect import connect_dbs, connect_rucio
from wms2.core.ledger import discrepancies
from wms2.db.crosscheck import cross_check
from wms2.db.output_list import output_blocks
from wms2.db.overview import request_overview
from wms2.db.requests import request_record
from wms2.db.session import connect as connect_database
from wms2.db.session import transaction
from wms2.db.undo import block_lfns
from wms2.local import payload, process
from wms2.local.demo import merged_paths
from wms2.local.inputs import make_dataset, place_block
from wms2.local.sites import storage_folder
from wms2.local.stack import start_stack, stop_stack
from wms2.models.block import block_name
from wms2.models.ledger import InputFileState, WorkUnitStatus
from wms2.models.output import OutputStatus
from wms2.models.overview import RequestOverview
from wms2.models.request import RequestRecord, RequestStatus
from wms2.temporal.client import connect
from wms2.temporal.ids import output_id, request_id

ROOT = Path(__file__).parents[2]
WMS2 = Path(sys.executable).with_name("wms2")
PATIENT_WMS2 = (sys.executable, "-m", "tests.e2e.patient_wms2")
HOST, USER = "submit-host", "operator"
INPUT_SITES = ("T2_DE_DESY", "T2_CH_CERN")
LOOK_EVERY_SEC = 0.3


class Stand:
    """A stack that is up, and a person's hands on it."""

    def __init__(self, home: Path, folder: Path, **settings: str) -> None:
        self.home, self.folder = home, folder
        self.settings = start_stack(home)
        self.engine = connect_database(self.settings.needed("database_url"))
        own = {"WMS2_HOME": str(home), "WMS2_HOST": HOST, "LOGNAME": USER}
        self.environment = {**os.environ, **own, **settings}
        self.worker: subprocess.Popen[bytes] | None = None
        self.patience_sec = PATIENCE_SEC

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
        done = self._run(*words)
        assert done.returncode == 0, done.stderr + self.log()
        return done.stdout

    def refused(self, *words: str | Path) -> str:
        """What the command line says when it does not do it."""
        done = self._run(*words)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def _run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PATIENT_WMS2, *words],
            env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def submit(self, document: Document, *options: str, bad_files: Collection[int] = ()) -> str:
        """Submit the request, with its input if it has any; its name."""
        name = str(document["request_name"])
        if "input_dataset" in document:
            asyncio.run(self._make_input(name, bad_files))
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        self.wms2("request", "submit", path, *options)
        return name

    async def _make_input(self, name: str, bad_files: Collection[int]) -> None:
        """Files at one site. With bad ones among them they are all at a second site too, the bad ones as bad there."""
        dataset, (site, other) = input_dataset(name), INPUT_SITES
        await make_dataset(
            self.settings, dataset, files=INPUT_FILES, events_per_file=EVENTS_PER_FILE, sites=[site]
        )
        if not bad_files:
            return
        for number in bad_files:
            path = Path(f"{storage_folder(self.home, site)}{input_file(name, number)}")
            path.write_bytes(bytes(path.stat().st_size))
        folder = str(Path(input_file(name, 0)).parent)
        shutil.copytree(
            f"{storage_folder(self.home, site)}{folder}", f"{storage_folder(self.home, other)}{folder}"
        )
        block = block_name("inputs", dataset, 0)
        places = dict.fromkeys(INPUT_SITES, INPUT_FILES)
        await place_block(self.settings.needed("services_url"), block, places)

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

    def record(self, name: str) -> RequestRecord:
        with transaction(self.engine) as session:
            return request_record(session, name)

    def statuses(self, name: str) -> list[str]:
        """All that the request went through."""
        return [str(change.to_status) for change in self.record(name).status_transitions]

    def until(self, name: str, *statuses: str) -> None:
        """Until the record ends with these statuses, however quickly they pass."""

        def reached() -> bool:
            record = self.record(name)
            passed = [str(change.to_status) for change in record.status_transitions]
            there = passed[-len(statuses) :] == list(statuses)
            assert there or not record.status.is_final, self.tale(name)
            return there

        self.wait(reached, lambda: self.tale(name))

    def wait(self, reached: Callable[[], bool], tale: Callable[[], str]) -> None:
        since = time.monotonic()
        while not reached():
            assert time.monotonic() - since < self.patience_sec, tale()
            time.sleep(LOOK_EVERY_SEC)

    def tale(self, name: str) -> str:
        """What is worth knowing of a request that stands still."""
        record = self.record(name)
        passed = [f"{change.to_status} {change.reason}".strip() for change in record.status_transitions]
        return f"{name}: {', '.join(passed)}\n{self.log()}"

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()[-3000:]

    # What came of it --------------------------------------------------------------------------------------

    def merged_files(self, name: str) -> list[Path]:
        rounds = sorted((self.home / "submit" / name).glob("round_[0-9][0-9]"))
        return [path for folder in rounds for path in merged_paths(self.home, folder)]

    def events(self, name: str) -> Counter[int]:
        """How often each event number is in the merged files."""
        content = payload.check(self.merged_files(name))
        assert content.wrong_values == 0
        return Counter(content.numbers.tolist())

    def dag_ids(self, name: str) -> list[str]:
        """Every DAG of the request that the schedd ever saw, in its queue and in its history.

        One that leaves the queue between the two questions is in both: its cluster says that it is the same.
        """
        which = f'regexp("^{name}:", WMS2_DagId)'
        tags = 'strcat(WMS2_DagId, "#", ClusterId)'
        seen = {
            tag for program in ("condor_q", "condor_history") for tag in self.ask_condor(program, which, tags)
        }
        return sorted(tag.partition("#")[0] for tag in seen)

    def queued_priorities(self, name: str, role: str) -> list[int]:
        """Of the request's jobs of this role that are in the queue."""
        which = f'CMS_RequestName == "{name}" && CMS_NodeRole == "{role}"'
        return [int(priority) for priority in self.ask_condor("condor_q", which, "JobPrio")]

    def ask_condor(self, program: str, which: str, attribute: str) -> list[str]:
        """An attribute of all jobs that fit, without blanks in it."""
        done = subprocess.run(
            [program, "-constraint", which, "-af", attribute],
            env=self.settings.condor_environment(), capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    def assert_ledger_is_exact(self, name: str) -> None:
        with transaction(self.engine) as session:
            assert discrepancies(cross_check(session, name)) == ()

    def assert_exactly_once(self, name: str, *dags: str, bad_files: int = 0) -> None:
        """All that was asked for is there once: in the merged files, in the ledger, in the schedd's history.

        `dags` are round:attempt of what must have been submitted. Files that could not be read are not asked for.
        """
        seen = self.overview(name)
        assert seen.record.status is RequestStatus.COMPLETED
        events, good_files = self.events(name), INPUT_FILES - bad_files
        assert set(events.values()) == {1}
        assert len(events) == seen.ledger.events_produced
        assert len(events) >= (seen.record.request.total_events or good_files * EVENTS_PER_FILE)
        assert all(round_.closed_at is not None for round_ in seen.rounds)
        assert WorkUnitStatus.PLANNED not in seen.ledger.units
        self.assert_ledger_is_exact(name)
        if not seen.record.request.is_simulation:
            files = {InputFileState.PROCESSED: good_files, InputFileState.EXCLUDED: bad_files}
            assert seen.ledger.files == {state: count for state, count in files.items() if count}
        for output in seen.outputs:
            assert output.status is OutputStatus.ANNOUNCED
            assert (output.registered, output.events) == (output.files, len(events))
        self.assert_submitted_once(name, *dags)
        asyncio.run(self.assert_published_once(name))

    def assert_submitted_once(self, name: str, *dags: str) -> None:
        """Each of these, none twice, no other round. On a busy machine a job may fail by itself, and is rescued."""
        seen, wanted = self.dag_ids(name), {f"{name}:{dag}" for dag in dags}
        rounds = [{dag.split(":")[1] for dag in some} for some in (seen, wanted)]
        assert wanted <= set(seen), (seen, self.tale(name))
        assert len(set(seen)) == len(seen), (seen, self.tale(name))
        assert rounds[0] == rounds[1], (seen, self.tale(name))

    async def assert_published_once(self, name: str) -> None:
        """Each file is in one block, which is in DBS and in Rucio, whole, under one rule where it was made."""
        async with connect_dbs(self.settings) as dbs, connect_rucio(self.settings) as rucio:
            for output in self.overview(name).outputs:
                with transaction(self.engine) as session:
                    blocks = output_blocks(session, name, output.dataset)
                    lfns = {block.block_name: block_lfns(session, block.block_name) for block in blocks}
                assert sum(map(len, lfns.values())) == output.files
                for block in blocks:
                    of_block = sorted(lfns[block.block_name])
                    assert sorted(await dbs.block_files(block.block_name)) == of_block
                    assert sorted(await rucio.file_places([block.block_name])) == of_block
                    rules = [rule.id for rule in await rucio.rules_of(block.block_name)]
                    assert rules == [block.source_rule_id]
                assert await dbs.dataset_access(output.dataset) == "VALID"

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
def own_stand(**settings: str) -> Iterator[Stand]:
    """A stand in folders of its own, of which nothing is left."""
    # Short paths below /tmp: sockets live there.
    home, folder = (Path(tempfile.mkdtemp(prefix=f"wms2{letter}-", dir="/tmp")) for letter in "eo")
    with stand_in(home, folder, **settings) as stand:
        yield stand


@contextmanager
def stand_in(home: Path, folder: Path, **settings: str) -> Iterator[Stand]:
    """A stand in these folders, which are removed afterwards, also when the stack did not come up."""
    try:
        stand = Stand(home, folder, **settings)
        try:
            yield stand
        finally:
            stand.close()
    finally:
        stop_stack(home)
        assert process.running(home) == []
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(folder)
