"""The worker: the one place that wires adapters, activities and workflows together, and runs them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.runtime import Runtime
from temporalio.service import RPCError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from wms2.activities.admission import AdmissionActivities, signal_admission
from wms2.activities.dags import DagActivities
from wms2.activities.outputs import OutputActivities
from wms2.activities.planning import PlanningActivities, PlanningSettings
from wms2.activities.reconciliation import ReconciliationActivities
from wms2.activities.records import RecordActivities
from wms2.adapters.condor import Condor
from wms2.adapters.dbs import Dbs
from wms2.config import Settings
from wms2.db.session import connect as connect_database
from wms2.errors import UserError
from wms2.models.messages import HostReport
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.heartbeats import Heartbeats
from wms2.temporal.queues import WORKFLOWS, host_queue, watch_queue
from wms2.temporal.runtime import sdk_runtime
from wms2.workflows.admission import AdmissionWorkflow
from wms2.workflows.output_dataset import OutputDatasetWorkflow
from wms2.workflows.reconciliation import ReconciliationWorkflow
from wms2.workflows.request import RequestWorkflow

log = logging.getLogger(__name__)

GRACE = timedelta(seconds=10)
HEARTBEAT_THROTTLE = timedelta(seconds=5)
"""How late a follower may learn that it is to stop."""
CONNECT_AGAIN_SEC = 2.0
ANNOUNCE_EVERY_SEC = 600.0
ANNOUNCE_AGAIN_SEC = 15.0
THREADS = 15
"""As many as the database pool has connections; calls that block wait for one of them."""
WORKFLOW_TYPES = (RequestWorkflow, AdmissionWorkflow, OutputDatasetWorkflow, ReconciliationWorkflow)
PASSED_THROUGH = (
    "annotated_types",
    "pydantic",
    "pydantic_core",
    "wms2.core",
    "wms2.errors",
    "wms2.models",
    "wms2.patterns",
    "wms2.temporal",
)
"""Pure modules: loading them anew for every workflow costs half a second and protects from nothing."""

Activity = Callable[..., Any]


@dataclass(frozen=True)
class Hands:
    """The activities, by the queue that they serve."""

    services: Sequence[Activity]
    host: Sequence[Activity]
    watch: Sequence[Activity]


def build_hands(settings: Settings, client: Client) -> Hands:
    """Every adapter and every activity, each made once."""
    engine = connect_database(settings.needed("database_url"))
    condor = Condor(settings.condor_environment())
    dbs = Dbs(f"{settings.needed('services_url')}/dbs")
    submit_root = settings.submit_root or settings.home / "submit"
    planning = PlanningActivities(engine, condor, dbs, submit_root, planning_settings(settings))
    dags = defined_activities(DagActivities(condor, engine))
    return Hands(
        services=[
            *defined_activities(RecordActivities(engine)),
            *defined_activities(AdmissionActivities(client)),
            *defined_activities(OutputActivities(engine, dbs)),
            *defined_activities(ReconciliationActivities(engine, client)),
        ],
        host=[*defined_activities(planning), *dags],
        watch=dags,
    )


def planning_settings(settings: Settings) -> PlanningSettings:
    """On the stack of one machine DAGMan looks at its jobs every second: there are few, and a person waits."""
    quick = settings.condor == "private"
    return PlanningSettings(log_scan_sec=1, status_sec=1) if quick else PlanningSettings()


def defined_activities(instance: object) -> list[Activity]:
    """The methods that are marked with `@activity.defn`."""
    methods = (method for _, method in inspect.getmembers(instance, callable))
    return [method for method in methods if hasattr(method, "__temporal_activity_definition")]


def workflow_runner() -> SandboxedWorkflowRunner:
    """The sandbox that workflows run in."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)


def build_workers(client: Client, hands: Hands, host: str, dags: int) -> list[Worker]:
    """A worker for each queue of this host; the watch queue has room for a follower of every DAG."""
    shared: dict[str, Any] = {
        "graceful_shutdown_timeout": GRACE,
        "max_heartbeat_throttle_interval": HEARTBEAT_THROTTLE,
        "default_heartbeat_throttle_interval": HEARTBEAT_THROTTLE,
    }
    return [
        Worker(
            client,
            task_queue=WORKFLOWS,
            workflows=WORKFLOW_TYPES,
            activities=hands.services,
            interceptors=[Heartbeats()],
            workflow_runner=workflow_runner(),
            **shared,
        ),
        Worker(
            client,
            task_queue=host_queue(host),
            activities=hands.host,
            interceptors=[Heartbeats()],
            **shared,
        ),
        Worker(
            client,
            task_queue=watch_queue(host),
            activities=hands.watch,
            max_concurrent_activities=dags,
            **shared,
        ),
    ]


async def run_worker(settings: Settings, host: str, metrics_port: int | None) -> None:
    """Serve all queues of this host until SIGTERM or SIGINT; activities then have ten seconds to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="wms2"))
    for wanted in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wanted, stop.set)
    client = await _wait_for_temporal(settings, sdk_runtime(metrics_port), stop)
    if client is None:
        return
    report = HostReport(host=host, dagmans=settings.max_dagmans)
    workers = build_workers(client, build_hands(settings, client), host, settings.max_dagmans)
    log.info("worker on %s: serving %s", host, ", ".join(worker.task_queue for worker in workers))
    async with asyncio.TaskGroup() as tasks:
        for worker in workers:
            tasks.create_task(worker.run())
        announcer = tasks.create_task(_announce(client, report))
        await stop.wait()
        log.info("worker on %s: stopping", host)
        announcer.cancel()
        await asyncio.gather(*(worker.shutdown() for worker in workers))
    log.info("worker on %s: stopped", host)


async def _wait_for_temporal(settings: Settings, runtime: Runtime, stop: asyncio.Event) -> Client | None:
    """A client of a Temporal that is prepared; None when the worker is to stop before there is one.

    Whoever starts a machine starts worker and server in no order, so the worker is patient.
    """
    settings.needed("temporal_address")
    while not stop.is_set():
        try:
            client = await connect(settings, runtime)
            await bootstrap(client, settings)
            return client
        except (UserError, RPCError) as error:
            log.warning("%s; trying again", error)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), CONNECT_AGAIN_SEC)
    return None


async def _announce(client: Client, report: HostReport) -> None:
    """Tell admission that this host is ready, which starts it; and then again: whatever it forgot, it learns anew."""
    while True:
        try:
            await signal_admission(client, "host_ready", report)
        except RPCError as error:
            log.warning("admission did not hear of host %s: %s", report.host, error)
            await asyncio.sleep(ANNOUNCE_AGAIN_SEC)
        else:
            await asyncio.sleep(ANNOUNCE_EVERY_SEC)
