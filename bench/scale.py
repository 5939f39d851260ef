"""Scale: hundreds of requests with large DAGs followed at once, thousands that wait, and how fast DAGs are submitted.

The worker, the servers and the schedd are real. DAGMan is not: on one machine hundreds of them could not run. Its job
ads are in the queue and never start, and its status files are written as it writes them, by this process.
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from sqlalchemy import Engine, func, select, text

from bench.case import Case, leaving
from bench.files import status_text
from tests.factories import snapshot
from tests.integration.publishing import made_request, produced_unit
from wms2.activities.dags import DagActivities
from wms2.adapters.condor import Condor
from wms2.config import Settings, StackRecord
from wms2.core.admission import AdmissionState
from wms2.core.ledger import planned_round
from wms2.core.planning import plan_round
from wms2.dagman.round_folder import RoundFile, write_round
from wms2.db import credit, dags, ledger, requests
from wms2.db.session import connect, transaction
from wms2.db.tables import DagRow, RequestRow
from wms2.local.stack import start_stack, stop_stack
from wms2.local.worker import PART as WORKER
from wms2.models.dag import DagIntent, DagStatus
from wms2.models.ledger import PlannedRound
from wms2.models.messages import AdmissionOrder, DagOrder, SubmittedDag
from wms2.models.request import Request, RequestStatus
from wms2.models.request_state import OpenRound
from wms2.temporal.client import connect as connect_temporal
from wms2.temporal.ids import ADMISSION, request_id
from wms2.temporal.launch import first_state, start_request
from wms2.temporal.queues import WORKFLOWS

HOST = platform.node().lower()
NODES = 10_000
RUNNING_UNITS = 10
DONE_UNITS = 2
STATUS_SEC = 30.0
"""How often DAGMan writes each of its status files."""
WATCHED_SEC = 90.0
IDLE_SEC = 60.0
PATIENCE_SEC = 900.0


# The stack ----------------------------------------------------------------------------------------------


def start(folder: Path) -> Settings:
    """A stack with a worker, whose schedd starts no DAGMan."""
    os.environ["_CONDOR_START_SCHEDULER_UNIVERSE"] = "False"
    home = folder / "stack"
    leaving.callback(stop_stack, home)
    return start_stack(home, with_worker=True)


@dataclass
class Usage:
    """What the worker took, in the time that a block of code needed."""

    cpu_sec: float = 0.0
    wall_sec: float = 0.0
    peak_mb: float = 0.0

    @property
    def core_percent(self) -> float:
        return round(100 * self.cpu_sec / self.wall_sec, 1)


@contextmanager
def worker_usage(settings: Settings) -> Iterator[Usage]:
    pid = StackRecord.read(settings.home).pids[WORKER]
    usage, cpu, wall = Usage(), _cpu_sec(pid), time.monotonic()
    yield usage
    usage.cpu_sec, usage.wall_sec = round(_cpu_sec(pid) - cpu, 2), round(time.monotonic() - wall, 2)
    peak = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    usage.peak_mb = round(int(peak.split()[1]) / 1024, 1)


def _cpu_sec(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(engine: Engine, query: Any, wanted: int) -> None:
    """Until the database counts so many."""
    until = time.monotonic() + PATIENCE_SEC
    found = 0
    while time.monotonic() < until:
        with transaction(engine) as session:
            found = session.scalar(query) or 0
        if found >= wanted:
            return
        time.sleep(0.5)
    raise RuntimeError(f"only {found} of {wanted} after {PATIENCE_SEC:.0f} s: {query}")


# Following ----------------------------------------------------------------------------------------------


@dataclass
class Dagman:
    """The DAGMans of one round, as far as anybody can see them: their status files."""

    dag: SubmittedDag
    planned: RoundFile

    def __post_init__(self) -> None:
        units = [unit.name for unit in self.planned.work_units]
        self.done = dict.fromkeys(units[DONE_UNITS : DONE_UNITS + RUNNING_UNITS], 10)
        self._outer = {
            unit: 5 if number < DONE_UNITS else 3 if unit in self.done else 1
            for number, unit in enumerate(units)
        }
        self._nodes = {unit.name: unit.jobs + 3 for unit in self.planned.work_units}

    @property
    def nodes_done(self) -> int:
        units = self.planned.work_units[:DONE_UNITS]
        return sum(self._nodes[unit.name] for unit in units) + sum(self.done.values())

    def write_outer(self) -> None:
        _replace(self.dag.order.folder / "workflow.dag.status", status_text(self._outer))

    def write_group(self, unit: str) -> None:
        done, total = self.done[unit], self._nodes[unit]
        nodes = {f"proc_{number:06d}": 5 if number < done else 3 for number in range(total)}
        _replace(self.dag.order.folder / unit / "group.dag.status", status_text(nodes))


def _replace(path: Path, content: str) -> None:
    """As DAGMan does it: written beside, then renamed."""
    beside = path.with_suffix(".tmp")
    beside.write_text(content)
    beside.rename(path)


@dataclass
class Followed:
    settings: Settings
    dagmans: list[Dagman]


def prepare_following(size: int, folder: Path) -> Followed:
    settings = start(folder)
    engine = connect(settings.needed("database_url"))
    _log_updates(engine)
    schedd = _schedd(settings)
    # Files first, which takes minutes: a request that is recorded for long and does not run, the worker would start.
    written = [_write(settings, number) for number in range(size)]
    dagmans = [_begin(engine, schedd, one) for one in written]
    for dagman in dagmans:
        dagman.write_outer()
        for unit in dagman.done:
            dagman.write_group(unit)
    asyncio.run(_follow_all(settings, dagmans))
    running = select(func.count()).where(DagRow.status == DagStatus.RUNNING, DagRow.nodes_done > 0)
    wait_for(engine, running, size)
    return Followed(settings, dagmans)


@dataclass(frozen=True)
class Written:
    """A round whose files are there; nobody has heard of it yet."""

    request: Request
    order: DagOrder
    planned: RoundFile
    plan: PlannedRound


def _write(settings: Settings, number: int) -> Written:
    name = f"scale_{number:04d}"
    plan = plan_round(snapshot(_request(name)))
    folder = settings.home / "submit" / name / "round_00"
    planned = write_round(plan, folder)
    order = DagOrder(request=name, round=0, attempt=1, folder=folder)
    nodes = sum(planned.nodes.values())
    return Written(plan.snapshot.request, order, planned, planned_round(plan, planned.digest, nodes))


def _begin(engine: Engine, schedd: Any, written: Written) -> Dagman:
    """A request whose round is planned, submitted and under way."""
    request, order, planned = written.request, written.order, written.planned
    intent = DagIntent(
        dag_id=order.dag_id, request_name=order.request, round=0, attempt=1,
        dag_file_path=str(order.folder / "workflow.dag"), submit_dir=str(order.folder),
        total_nodes=sum(planned.nodes.values()), total_edges=planned.edges, node_counts=dict(planned.nodes),
    )  # fmt: skip
    cluster = _queue(schedd, order, planned)
    with transaction(engine) as session:
        requests.insert_request(session, request)
        ledger.record_plan(session, written.plan)
        for unit in planned.work_units[:DONE_UNITS]:
            credit.credit_work_unit(session, order.request, produced_unit(order.request, unit.number))
        intent_at = dags.record_dag_intent(session, intent).intent_at
        dags.record_dag_submitted(session, order.dag_id, cluster, "bench")
    return Dagman(SubmittedDag(order=order, cluster=cluster, intent_at=intent_at, found=False), planned)


def _request(name: str) -> Request:
    """One whose round is as large as a round may be."""
    request = made_request(name).model_dump(mode="json")
    sizes = {"total_events": 100 * NODES, "size_per_event_kb": 400.0, "time_per_event_sec": 1.0}
    return Request.model_validate({**request, **sizes})


def _schedd(settings: Settings) -> Any:
    os.environ.update(settings.condor_environment())
    import htcondor2

    htcondor2.reload_config()
    return htcondor2


def _queue(htcondor: Any, order: DagOrder, planned: RoundFile) -> int:
    """The job ads of the round's DAGMans; the cluster of the outer one."""
    job = {"universe": "scheduler", "executable": "/bin/true"}
    schedd = htcondor.Schedd()
    outer = {**job, "My.WMS2_DagId": f'"{order.dag_id}"', "My.DAG_NodesTotal": str(len(planned.work_units))}
    cluster = int(schedd.submit(htcondor.Submit(outer)).cluster())
    inner = {
        **job,
        "My.DAGManJobId": str(cluster),
        "My.DAGNodeName": '"$(unit)"',
        "My.DAG_NodesTotal": "100",
        "My.DAG_NodesDone": "0",
        "My.DAG_NodesFailed": "0",
        "My.DAG_JobsIdle": "10",
        "My.DAG_JobsRunning": "80",
        "My.DAG_JobsHeld": "0",
    }
    units = planned.work_units[DONE_UNITS : DONE_UNITS + RUNNING_UNITS]
    schedd.submit(htcondor.Submit(inner), itemdata=iter([{"unit": unit.name} for unit in units]))
    return cluster


def _log_updates(engine: Engine) -> None:
    """Let the database itself note when it learned how far a DAG is."""
    statements = (
        "CREATE TABLE bench_seen (dag_id text, nodes_done int, at double precision)",
        "CREATE FUNCTION bench_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO bench_seen VALUES "
        "(NEW.dag_id, NEW.nodes_done, extract(epoch FROM clock_timestamp())); RETURN NEW; END $$",
        "CREATE TRIGGER bench_note AFTER UPDATE OF nodes_done ON dags FOR EACH ROW EXECUTE FUNCTION bench_note()",
    )
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


async def _follow_all(settings: Settings, dagmans: list[Dagman]) -> None:
    """Start the requests in the middle of their lives, as after a continue-as-new."""
    client = await connect_temporal(settings)
    now = datetime.now(UTC)
    for dagman in dagmans:
        order = dagman.dag.order
        state = first_state(_request(order.request), hold=False)
        state.status, state.status_since, state.next_round, state.sequence = RequestStatus.ACTIVE, now, 1, 5
        state.slot_host = HOST
        state.open_round = OpenRound(
            number=0, folder=order.folder, host=HOST, pilot=False, units=len(dagman.planned.work_units),
            attempt=1, units_told=DONE_UNITS, dag=dagman.dag,
        )  # fmt: skip
        await client.start_workflow(
            "RequestWorkflow", state, id=request_id(order.request), task_queue=WORKFLOWS
        )


def watch_followers(given: Followed) -> Mapping[str, float]:
    """Each DAGMan writes its file every 30 s, all of them at moments of their own."""
    files = [(dagman, unit) for dagman in given.dagmans for unit in dagman.done]
    random.Random(0).shuffle(files)
    pause = STATUS_SEC / len(files)
    written: list[tuple[str, int, float]] = []
    with worker_usage(given.settings) as usage:
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < WATCHED_SEC:
            if len(written) * pause > passed:
                time.sleep(pause)
                continue
            dagman, unit = files[len(written) % len(files)]
            dagman.done[unit] += 1
            dagman.write_group(unit)
            written.append((dagman.dag.order.dag_id, dagman.nodes_done, time.time()))
            if len(written) % RUNNING_UNITS == 0:
                dagman.write_outer()
        time.sleep(10)
    engine = connect(given.settings.needed("database_url"))
    late = _latencies(engine, written)
    stop_stack(given.settings.home)
    return {
        "cpu_sec": usage.cpu_sec,
        "wall_sec": usage.wall_sec,
        "peak_mb": usage.peak_mb,
        "core_percent": usage.core_percent,
        "nodes": sum(sum(dagman.planned.nodes.values()) for dagman in given.dagmans),
        "status_files_written": len(written),
        "not_seen": sum(1 for seconds in late if seconds is None),
        **_spread([seconds for seconds in late if seconds is not None]),
    }


def _latencies(engine: Engine, written: list[tuple[str, int, float]]) -> list[float | None]:
    """From each writing to the first moment when the database knew of it."""
    seen: dict[str, list[tuple[int, float]]] = {}
    with engine.connect() as connection:
        for dag_id, done, at in connection.execute(
            text("SELECT dag_id, nodes_done, at FROM bench_seen ORDER BY at")
        ):
            seen.setdefault(dag_id, []).append((done, at))
    return [
        next((at - wrote_at for known, at in seen.get(dag_id, ()) if known >= done), None)
        for dag_id, done, wrote_at in written
    ]


def _spread(seconds: list[float]) -> dict[str, float]:
    return {
        "median_sec": round(median(seconds), 2),
        "p99_sec": round(quantiles(seconds, n=100)[98], 2),
        "longest_sec": round(max(seconds), 2),
    }


# Waiting ------------------------------------------------------------------------------------------------


@dataclass
class Waiting:
    settings: Settings
    requests: list[Request]


def prepare_waiting(size: int, folder: Path) -> Waiting:
    settings = start(folder)
    asyncio.run(_lend_nothing(settings))
    return Waiting(settings, [_request(f"idle_{number:04d}") for number in range(size)])


async def _lend_nothing(settings: Settings) -> None:
    client = await connect_temporal(settings)
    order = AdmissionOrder(action="drain", actor="bench", action_id="drain")
    await client.get_workflow_handle(ADMISSION).execute_update("change", order)


def watch_the_waiting(given: Waiting) -> Mapping[str, float]:
    """All are taken on and wait for a slot; then nothing happens for a while."""
    engine = connect(given.settings.needed("database_url"))
    with worker_usage(given.settings) as taken_on:
        asyncio.run(_submit_all(given, engine))
        queued = select(func.count()).where(RequestRow.status == RequestStatus.QUEUED)
        wait_for(engine, queued, len(given.requests))
        asyncio.run(_wait_in_line(given))
    with worker_usage(given.settings) as idle:
        time.sleep(IDLE_SEC)
    stop_stack(given.settings.home)
    return {
        "cpu_sec": taken_on.cpu_sec,
        "wall_sec": taken_on.wall_sec,
        "peak_mb": idle.peak_mb,
        "idle_core_percent": idle.core_percent,
    }


async def _submit_all(given: Waiting, engine: Engine) -> None:
    client = await connect_temporal(given.settings)
    for request in given.requests:
        with transaction(engine) as session:
            requests.insert_request(session, request)
        await start_request(client, request)


async def _wait_in_line(given: Waiting) -> None:
    """Until admission has heard of all: a request is queued before it asks for its slot."""
    admission = (await connect_temporal(given.settings)).get_workflow_handle(ADMISSION)
    async with asyncio.timeout(PATIENCE_SEC):
        while len((await admission.query("state", result_type=AdmissionState)).waiting) < len(given.requests):
            await asyncio.sleep(1)


# Submitting ---------------------------------------------------------------------------------------------


@dataclass
class ToSubmit:
    settings: Settings
    activities: DagActivities
    orders: list[DagOrder]


def prepare_submissions(size: int, folder: Path) -> ToSubmit:
    settings = start(folder)
    engine = connect(settings.needed("database_url"))
    activities = DagActivities(Condor(settings.condor_environment()), engine)
    orders = []
    for number in range(size):
        name = f"submit_{number:04d}"
        plan = plan_round(snapshot(_request(name)))
        order = DagOrder(
            request=name, round=0, attempt=1, folder=settings.home / "submit" / name / "round_00"
        )
        planned = write_round(plan, order.folder)
        with transaction(engine) as session:
            requests.insert_request(session, plan.snapshot.request)
            ledger.record_plan(session, planned_round(plan, planned.digest, sum(planned.nodes.values())))
        orders.append(order)
    return ToSubmit(settings, activities, orders)


def submit_all(given: ToSubmit) -> Mapping[str, float]:
    begun = time.monotonic()
    asyncio.run(_submit_dags(given))
    seconds = time.monotonic() - begun
    stop_stack(given.settings.home)
    return {"dags_per_minute": round(60 * len(given.orders) / seconds, 1)}


async def _submit_dags(given: ToSubmit) -> None:
    for order in given.orders:
        await given.activities.submit_dag(order)


CASES = (
    Case("following DAGs of 10,000 nodes", "requests", (30, 300), prepare_following, watch_followers),
    Case("waiting for a slot", "requests", (300, 3_000), prepare_waiting, watch_the_waiting),
    Case("submitting DAGs of 10,000 nodes", "DAGs", (20,), prepare_submissions, submit_all),
)
