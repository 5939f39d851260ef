"""The twelve points at which a dispatcher can fail, as Wip counts them, injected into WMS2 on the real engines.

Each is a function that does the damage to a request of its own, waits until WMS2 has got over it, and says how long
that took. What a person would start again, the worker, is started again at once.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import yaml
from sqlalchemy import make_url, text
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from tests.e2e.documents import PILOT_JOB, Document, Fault, simulation, waits
from tests.e2e.dying_worker import death
from tests.e2e.stand import ROOT, WMS2, Stand
from wms2.activities.dags import DagActivities
from wms2.adapters.condor import HELD_BY_A_PERSON, RUNNING, Condor, DagmanAd
from wms2.core.admission import AdmissionState
from wms2.dagman.posts import attempt_clusters, attempt_post
from wms2.db.session import connect as connect_database
from wms2.local.sites import SITES, storage_folder
from wms2.models.messages import DagOrder
from wms2.temporal.client import connect
from wms2.temporal.ids import ADMISSION, output_id, request_id

T = TypeVar("T")

RUNS_LONG_SEC = 5.0
"""For how long a cause lasts at least before it is taken away."""


@dataclass(frozen=True)
class Recovery:
    """How long it took, and from when until when that was measured."""

    took_sec: float
    measured: str
    dags: tuple[str, ...] = ("0:1",)
    """What must have been submitted, as round:attempt."""


class Scene:
    """A stand whose worker can be made to die at chosen places, and what the faults do to it."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.armed = stand, stand.folder / "armed"
        self.armed.mkdir()
        self.condor = Condor(stand.settings.condor_environment())
        self.start_worker()

    # The worker -------------------------------------------------------------------------------------------

    def start_worker(self) -> None:
        self.stand.start_worker(sys.executable, "-m", "tests.e2e.dying_worker", self.armed)

    def have_a_worker(self) -> None:
        """A new one where there is none, or one that may be at fault."""
        for left in self.armed.iterdir():
            left.unlink()
        self.stand.kill_worker()
        self.start_worker()

    def arm(self, name: str, place: str) -> Path:
        armed = self.armed / death(place, name)
        armed.touch()
        return armed

    def when_it_died(self, name: str) -> float:
        """The moment; it lives again then."""
        self.wait(lambda: self.stand.worker_ended() is not None, name)
        died = time.monotonic()
        self.start_worker()
        return died

    # Requests ---------------------------------------------------------------------------------------------

    def document(self, name: str, *faults: Fault) -> Document:
        """Two work units in one round: without a pilot it begins at once."""
        return simulation(name, self.stand.folder, *faults, events=40) | {"urgent": True}

    def submit(self, name: str, *faults: Fault) -> str:
        return self.stand.submit(self.document(name, *faults))

    def round_folder(self, name: str) -> Path:
        return self.stand.home / "submit" / name / "round_00"

    def wait(self, reached: Callable[[], bool], name: str) -> None:
        self.stand.wait(reached, lambda: self.stand.tale(name))

    def until(self, reached: Callable[[], bool], name: str, since: float) -> float:
        """How long it is, since then, until it is reached."""
        self.wait(reached, name)
        return time.monotonic() - since

    def is_submitted(self, name: str) -> bool:
        return any(dag.dagman_cluster_id for dag in self.stand.overview(name).dags)

    def has_been(self, name: str, status: str) -> bool:
        return status in self.stand.statuses(name)

    def cluster(self, name: str) -> int:
        self.wait(lambda: self.is_submitted(name), name)
        (dag,) = self.stand.overview(name).dags
        return dag.dagman_cluster_id or 0

    def dagmans(self, name: str) -> list[DagmanAd]:
        return asyncio.run(self.condor.dagmans(self.cluster(name), f"{name}:0:1"))

    def has_begun(self, name: str) -> bool:
        logs = self.round_folder(name).glob(f"mg_*/{PILOT_JOB}.log")
        return any("Job executing" in log.read_text() for log in logs)

    def condor_program(self, *words: str) -> None:
        subprocess.run(words, env=self.stand.settings.condor_environment(), capture_output=True, check=True)

    # Temporal ---------------------------------------------------------------------------------------------

    def temporal(self, ask: Callable[[Client], Awaitable[T]]) -> T:
        async def asked() -> T:
            return await ask(await connect(self.stand.settings))

        return asyncio.run(asked())

    def tries(self, name: str, activity: str) -> int:
        """How often the activity that a request waits for has been begun."""

        async def pending(client: Client) -> int:
            found = await client.get_workflow_handle(request_id(name)).describe()
            listed = found.raw_description.pending_activities
            return max((one.attempt for one in listed if one.activity_type.name == activity), default=0)

        return self.temporal(pending)

    def terminate(self, name: str) -> None:
        async def end(client: Client) -> None:
            await client.get_workflow_handle(request_id(name)).terminate("a fault is injected")

        self.temporal(end)

    def reset(self, name: str) -> None:
        """As `temporal workflow reset --type LastWorkflowTask` does it."""

        async def revive(client: Client) -> None:
            found = await client.get_workflow_handle(request_id(name)).describe()
            history = client.get_workflow_handle(request_id(name), run_id=found.run_id).fetch_history_events()
            done = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
            finished = [event.event_id async for event in history if event.event_type == done]
            await client.workflow_service.reset_workflow_execution(
                ResetWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=WorkflowExecution(workflow_id=request_id(name), run_id=found.run_id),
                    reason="it was terminated by mistake",
                    workflow_task_finish_event_id=finished[-1],
                    request_id=str(uuid4()),
                )
            )

        self.temporal(revive)

    def output_has_ended(self, name: str) -> bool:
        (dataset,) = self.stand.overview(name).record.request.output_datasets

        async def ended(client: Client) -> bool:
            found = await client.get_workflow_handle(output_id(name, dataset)).describe()
            return found.status is not WorkflowExecutionStatus.RUNNING

        return self.temporal(ended)

    def has_a_slot(self, name: str) -> bool:
        """As admission sees it; while it does not answer, nothing has changed."""

        async def leases(client: Client) -> bool:
            handle = client.get_workflow_handle(ADMISSION)
            state: AdmissionState = await handle.query("state", result_type=AdmissionState)
            return name in state.leases

        try:
            return self.temporal(leases)
        except RPCError:
            return True


# The twelve -------------------------------------------------------------------------------------------------


def no_worker(scene: Scene, name: str) -> Recovery:
    scene.stand.kill_worker()
    scene.submit(name)
    time.sleep(RUNS_LONG_SEC)
    assert scene.stand.statuses(name) == []
    scene.start_worker()
    since = time.monotonic()
    took = scene.until(lambda: scene.is_submitted(name), name, since)
    return Recovery(took, "from the start of a worker to the DAG in the queue")


def submit_refused(scene: Scene, name: str) -> Recovery:
    with _schedd_takes_nothing(scene):
        scene.submit(name)
        scene.wait(lambda: scene.tries(name, "submit_dag") > 3, name)
    since = time.monotonic()
    took = scene.until(lambda: scene.is_submitted(name), name, since)
    return Recovery(took, "from the moment that the schedd takes jobs again to the DAG in the queue")


@contextmanager
def _schedd_takes_nothing(scene: Scene) -> Iterator[None]:
    (included,) = scene.stand.home.glob("**/sites_off.config")
    before = included.read_text()
    try:
        included.write_text(f"{before}\nMAX_JOBS_SUBMITTED = 0\n")
        scene.condor_program("condor_reconfig", "-schedd")
        time.sleep(RUNS_LONG_SEC)
        yield
    finally:
        included.write_text(before)
        scene.condor_program("condor_reconfig", "-schedd")


def started_twice(scene: Scene, name: str) -> Recovery:
    """Two people submit the same file, and the DAG is submitted again by somebody who does not know of the first."""
    gate = scene.stand.gate(name)
    path = scene.stand.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(scene.document(name, waits(gate, PILOT_JOB))))
    command = [str(WMS2), "request", "submit", str(path)]
    people = [
        subprocess.Popen(command, env=scene.stand.environment, cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [person.communicate()[1].decode() for person in people]
    assert any(person.returncode == 0 for person in people), said
    cluster = scene.cluster(name)
    again = DagActivities(scene.condor, scene.stand.engine)
    order = DagOrder(request=name, round=0, attempt=1, folder=scene.round_folder(name))
    since = time.monotonic()
    found = asyncio.run(again.submit_dag(order))
    took = time.monotonic() - since
    assert (found.found, found.cluster) == (True, cluster)
    scene.stand.open(gate)
    return Recovery(took, "from the second submission of the DAG to its being told of the first")


def held_dagman(scene: Scene, name: str) -> Recovery:
    """The schedd holds the DAGMan of a work unit, by an expression as administrators and broken machines have them."""
    gate = scene.stand.gate(name)
    scene.submit(name, waits(gate, PILOT_JOB))
    scene.wait(lambda: scene.has_begun(name), name)
    (dagman,) = [ad for ad in scene.dagmans(name) if ad.node == "mg_000000"]
    scene.condor_program("condor_qedit", str(dagman.cluster), "PeriodicHold", "true")
    scene.wait(lambda: any(ad.held for ad in scene.dagmans(name)), name)
    since = time.monotonic()
    (held,) = [ad for ad in scene.dagmans(name) if ad.held]
    assert held.hold_code != HELD_BY_A_PERSON, held
    scene.condor_program("condor_qedit", str(dagman.cluster), "PeriodicHold", "false")
    took = scene.until(lambda: all(ad.job_status == RUNNING for ad in scene.dagmans(name)), name, since)
    scene.stand.open(gate)
    return Recovery(took, "from the hold to its running again")


def locked_row(scene: Scene, name: str) -> Recovery:
    gate = scene.stand.gate(name)
    scene.submit(name, waits(gate, PILOT_JOB))
    scene.stand.until(name, "active")
    known = len(scene.stand.statuses(name))
    # A stranger to WMS2, whose locks have no limits.
    url = make_url(scene.stand.settings.needed("database_url")).update_query_dict(
        {"options": "-c lock_timeout=0"}
    )
    stranger = connect_database(url.render_as_string(hide_password=False))
    with stranger.begin() as other:
        lock = text("SELECT 1 FROM requests WHERE request_name = :name FOR NO KEY UPDATE")
        other.execute(lock, {"name": name})
        scene.stand.open(gate)
        scene.wait(lambda: scene.tries(name, "record_status") > 1, name)
    since = time.monotonic()
    took = scene.until(lambda: len(scene.stand.statuses(name)) > known, name, since)
    return Recovery(took, "from the end of the lock to the record of the next status")


def killed_before_the_record(scene: Scene, name: str) -> Recovery:
    scene.arm(name, "submitting, after the submission and before the record")
    scene.submit(name)
    died = scene.when_it_died(name)
    took = scene.until(lambda: scene.is_submitted(name), name, died)
    return Recovery(took, "from the death to the record of the DAG that was found in the queue")


def killed_after_the_record(scene: Scene, name: str) -> Recovery:
    scene.arm(name, "submitting, after the record")
    scene.submit(name)
    died = scene.when_it_died(name)
    took = scene.until(lambda: scene.has_been(name, "active"), name, died)
    return Recovery(took, "from the death to the request that is active")


def hung_activity(scene: Scene, name: str) -> Recovery:
    armed = scene.arm(name, "recording a status, for ever")
    scene.submit(name)
    scene.wait(lambda: not armed.exists(), name)
    since = time.monotonic()
    took = scene.until(lambda: scene.has_been(name, "submitted"), name, since)
    scene.have_a_worker()
    return Recovery(took, "from the beginning of the endless loop to the record of the status")


def lost_completion(scene: Scene, name: str) -> Recovery:
    scene.arm(name, "closing, when it is done and Temporal does not know")
    scene.submit(name)
    died = scene.when_it_died(name)
    closed = "waiting for the outputs to be announced"
    took = scene.until(lambda: closed in scene.stand.record(name).status_reason, name, died)
    return Recovery(took, "from the death to the next step of the request")


def lost_cleanup(scene: Scene, name: str) -> Recovery:
    scene.stand.submit(scene.document(name) | {"total_events": 20})
    which = f'CMS_RequestName == "{name}" && CMS_NodeRole == "Cleanup"'
    clusters: list[str] = []

    def is_queued() -> bool:
        clusters[:] = scene.stand.ask_condor("condor_q", which, "ClusterId")
        return bool(clusters)

    scene.wait(is_queued, name)
    assert _unmerged(scene, name), "it had nothing to do"
    scene.condor_program("condor_rm", *clusters)
    since = time.monotonic()
    unit = scene.round_folder(name) / "mg_000000"
    scene.wait(lambda: bool(attempt_clusters(unit, "cleanup")), name)
    first = attempt_post(unit, "cleanup", attempt_clusters(unit, "cleanup")[0])
    assert first is not None
    assert not first.succeeded, "it was quicker than its removal"
    took = scene.until(lambda: not _unmerged(scene, name), name, since)
    return Recovery(took, "from the removal of the job to storage without unmerged files")


def _unmerged(scene: Scene, name: str) -> list[Path]:
    word = str(scene.document(name)["processing_string"])
    folders = [Path(f"{storage_folder(scene.stand.home, site)}/store/unmerged") for site in SITES]
    return [path for folder in folders for path in folder.glob(f"**/{word}*/**/*.*") if path.is_file()]


def leaked_slot(scene: Scene, name: str) -> Recovery:
    """The request's workflow is terminated; when its slot is free a person resets it, and it goes on."""
    gate = scene.stand.gate(name)
    scene.submit(name, waits(gate, PILOT_JOB))
    scene.stand.until(name, "active")
    assert scene.has_a_slot(name)
    scene.terminate(name)
    since = time.monotonic()
    took = scene.until(lambda: not scene.has_a_slot(name), name, since)
    scene.reset(name)
    scene.stand.open(gate)
    return Recovery(took, "from the end of the workflow to the slot that others can have")


def lost_callback(scene: Scene, name: str) -> Recovery:
    """The request is terminated while its output is announced, which finds nobody to tell, and is then reset."""
    scene.arm(name, "announcing, after DBS and before the record")
    scene.submit(name)
    scene.wait(lambda: scene.stand.worker_ended() is not None, name)
    scene.terminate(name)
    scene.start_worker()
    scene.wait(lambda: scene.output_has_ended(name), name)
    scene.reset(name)
    since = time.monotonic()
    took = scene.until(lambda: scene.has_been(name, "completed"), name, since)
    return Recovery(took, "from the reset of a request that was not told to its end")


@dataclass(frozen=True)
class Point:
    number: int
    wip: str
    """What fails in Wip."""
    estimate: str
    """How long Wip takes to get over it, in its own words."""
    injected: str
    happens: str
    """What WMS2 then does."""
    inject: Callable[[Scene, str], Recovery]

    @property
    def request(self) -> str:
        return f"fault_{self.number:02d}"


TEN, LONG = "within 10 s", "170 s on average"
POINTS = tuple(
    Point(number, *fields)
    for number, fields in enumerate[tuple[str, str, str, str, Any]](
        [
            ("the wrapper fails to launch", LONG, "no worker runs",
             "the request waits in Temporal, and the next worker takes it up", no_worker),
            ("the parent fails to launch", TEN, "the schedd refuses every submission",
             "submitting is tried again, every 15 s in the end", submit_refused),
            ("the parent does not get the execute lock", TEN, "request and DAG are submitted twice",
             "one of them wins, the other one is told of it", started_twice),
            ("the child fails to launch", TEN, "the DAGMan of a work unit is held",
             "who follows the DAG releases it", held_dagman),
            ("the child does not get the update lock", TEN, "somebody locks the request's row",
             "who waits gives up after 20 s and tries again", locked_row),
            ("a fatal error before the task is saved", TEN, "kill -9 between submission and record",
             "the DAG is found in the queue by its tag, and recorded", killed_before_the_record),
            ("a fatal error after the task is saved", TEN, "kill -9 after the record of the submission",
             "the recorded DAG is followed", killed_after_the_record),
            ("the task runs an infinite loop", "350 s on average", "an activity loops for ever",
             "its time limit ends it, and it is tried again", hung_activity),
            ("the child fails to update the run status", TEN, "kill -9 when an activity is done and Temporal not told",
             "it is done again, and finds all of it done", lost_completion),
            ("the cleanup fails to launch", TEN, "the cleanup job is removed from the queue",
             "DAGMan runs it once more", lost_cleanup),
            ("the parent fails to release the thread", TEN, "a request with a slot is terminated",
             "reconciliation frees its slot; reset by a person, it goes on", leaked_slot),
            ("the signal is never received", LONG, "a request is not told that its output is announced",
             "reconciliation says it again", lost_callback),
        ],
        start=1,
    )
)  # fmt: skip
