"""The worker: the one place that wires adapters, activities and workflows together, and runs them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from itertools import chain
from typing import Any

from sqlalchemy import Engine
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from wms2.activities.admission import AdmissionActivities
from wms2.activities.bans import BanActivities
from wms2.activities.chains import ChainActivities
from wms2.activities.cleanups import CleanupActivities
from wms2.activities.closing import ClosingActivities
from wms2.activities.credentials import keep_credentials_fresh
from wms2.activities.dags import DagActivities
from wms2.activities.endings import EndingActivities
from wms2.activities.hosts import HostActivities, keep_announced
from wms2.activities.imports import ImportActivities
from wms2.activities.inputs import InputActivities
from wms2.activities.inspection import InspectionActivities
from wms2.activities.leftovers import remove_leftovers
from wms2.activities.notices import NoticeActivities
from wms2.activities.outputs import OutputActivities
from wms2.activities.planning import PlanningActivities
from wms2.activities.reconciliation import ReconciliationActivities
from wms2.activities.records import RecordActivities
from wms2.activities.reports import ReportActivities
from wms2.activities.rounds import RoundActivities
from wms2.activities.silences import SilenceActivities
from wms2.activities.sites import SiteActivities
from wms2.activities.sweeping import Sweeper
from wms2.activities.time_limits import TimeLimitActivities
from wms2.activities.undo import UndoActivities
from wms2.adapters.condor import Condor
from wms2.adapters.connect import Turns, connect_cric, connect_dbs, connect_reqmgr2, connect_rucio
from wms2.adapters.job_credentials import job_credentials_of
from wms2.adapters.messenger import Messenger, messenger_of
from wms2.config import Settings
from wms2.core.bans import BanPolicy
from wms2.core.blocks import BlockLimits, Load
from wms2.core.time_limits import limits_with
from wms2.db.notices import telling
from wms2.db.session import connect as connect_database
from wms2.errors import UserError
from wms2.models.host import HostReport
from wms2.models.messages import TimeLimits
from wms2.planner import PlanningSettings
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.connection import Credentials
from wms2.temporal.delays import Delays
from wms2.temporal.heartbeats import Heartbeats
from wms2.temporal.logs import LogContext
from wms2.temporal.queues import SERVICES, TRANSFERS, WORKFLOWS, host_queue, planning_queue, watch_queue
from wms2.temporal.runtime import sdk_runtime
from wms2.watchdog import watched
from wms2.workflows.admission import AdmissionWorkflow
from wms2.workflows.chains import ChainWorkflow
from wms2.workflows.hosts import HostsWorkflow
from wms2.workflows.inspection import InspectionWorkflow
from wms2.workflows.notification import NotificationWorkflow
from wms2.workflows.output_dataset import OutputDatasetWorkflow
from wms2.workflows.reconciliation import ReconciliationWorkflow
from wms2.workflows.reqmgr2 import ReqMgr2Workflow
from wms2.workflows.request import RequestWorkflow
from wms2.workflows.sites import SitesWorkflow
from wms2.workflows.undo import UndoWorkflow

log = logging.getLogger(__name__)

GRACE = timedelta(seconds=10)
HEARTBEAT_THROTTLE = timedelta(seconds=5)
"""How late a follower may learn that it is to stop."""
CONNECT_AGAIN_SEC = 2.0
CENTRAL = "no submit host"
"""What a worker calls itself that serves none."""
SERVICE_SLOTS = 100
"""How many activities may wait for outside services at once."""
TRANSFER_SLOTS = 4
"""How many output datasets may be looked for at once: half of the calls that a service takes at the same time."""
PLANNING_SLOTS = 50
"""How many rounds may be planned at once from what outside services say, each by a process of its own."""
THREADS = 15
"""As many as the database pool has connections; calls that block wait for one of them."""
WORKFLOW_TYPES = (
    RequestWorkflow,
    AdmissionWorkflow,
    OutputDatasetWorkflow,
    ReconciliationWorkflow,
    NotificationWorkflow,
    UndoWorkflow,
    ChainWorkflow,
    ReqMgr2Workflow,
    SitesWorkflow,
    HostsWorkflow,
    InspectionWorkflow,
)
PASSED_THROUGH = (
    "annotated_types",
    "opentelemetry",
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

    records: Sequence[Activity]
    services: Sequence[Activity]
    host: Sequence[Activity]
    planning: Sequence[Activity]
    watch: Sequence[Activity]
    announce: Callable[[str], Coroutine[Any, Any, None]]
    """Keeps it known that the host which it is told is served."""
    leave: Callable[[str], Coroutine[Any, Any, None]]
    """Says that it is served no more."""
    sweep: Callable[[], Coroutine[Any, Any, None]]
    """Keeps removing what closed rounds of the host left on storage."""
    refresh: Callable[[str], Coroutine[Any, Any, None]] | None
    """Keeps the credentials of jobs fresh on the host that it is told; None where they carry none."""


def build_hands(settings: Settings, client: Client, messenger: Messenger | None) -> Hands:
    """Every adapter and every activity, each made once. Without a messenger nobody is told anything."""
    engine = connect_database(settings.needed("database_url"))
    engine = telling(engine, messenger.contacts if messenger else None)
    condor = Condor(settings.condor_environment())
    turns = Turns.new()
    dbs, rucio = connect_dbs(settings, turns), connect_rucio(settings, turns)
    planning = planning_settings(settings)
    closing = ClosingActivities(engine, planning.target_job_sec)
    planner = PlanningActivities(engine, condor, settings, planning, turns)
    rounds = (
        planner,
        closing,
        RoundActivities(condor),
        InspectionActivities(),
        BanActivities(engine, ban_policy(settings)),
    )
    credentials = job_credentials_of(settings)
    dags = defined_activities(DagActivities(condor, engine, settings.same_failures, credentials))
    submit_root = settings.submit_root or settings.home / "submit"
    endings = EndingActivities(engine, client, submit_root, settings.max_versions)
    outputs = OutputActivities(
        engine,
        dbs,
        rucio,
        block_limits(settings),
        placement_wait(settings),
        settings.transfer_stuck_hours,
    )
    hosts = HostActivities(engine, client, condor, timedelta(minutes=settings.host_silence_min))
    limits = limits_with(settings.time_limits_hours)
    between_runs = timedelta(minutes=settings.notify_every_min)
    notices = NoticeActivities(engine, messenger, settings.notify_tries, between_runs)
    return Hands(
        records=[
            *defined_activities(RecordActivities(engine)),
            *defined_activities(TimeLimitActivities(TimeLimits(limits=limits))),
            *defined_activities(AdmissionActivities(engine, client)),
            *defined_activities(CleanupActivities(engine, client)),
            *defined_activities(ReconciliationActivities(engine, client, limits)),
            *defined_activities(ChainActivities(engine, client)),
            *defined_activities(hosts),
            *defined_activities(SilenceActivities(engine)),
            *defined_activities(endings),
            # A round whose submit host is lost is closed by whoever there is.
            *defined_activities(closing),
            *defined_activities(notices),
        ],
        services=[
            *defined_activities(outputs),
            *defined_activities(InputActivities(engine, rucio, settings.prefetch_stuck_hours)),
            *defined_activities(UndoActivities(engine, dbs, rucio)),
            *defined_activities(SiteActivities(engine, connect_cric(settings), condor)),
            *(reqmgr2_activities(settings, engine, client) if settings.has_reqmgr2 else ()),
        ],
        host=[*chain.from_iterable(map(defined_activities, rounds)), *dags],
        planning=defined_activities(planner),
        watch=dags,
        announce=partial(
            keep_announced,
            hosts,
            partial(remove_leftovers, condor, engine),
            partial(host_report, settings, condor),
        ),
        leave=hosts.leave,
        sweep=Sweeper(condor, engine, submit_root, credentials).keep_sweeping,
        refresh=partial(keep_credentials_fresh, credentials, engine) if credentials else None,
    )


def ban_policy(settings: Settings) -> BanPolicy:
    return BanPolicy(
        failure_ratio=settings.site_ban_failure_ratio,
        least_failures=settings.site_ban_min_failures,
        requests_for_all=settings.site_ban_promotion_threshold,
        length=timedelta(days=settings.site_ban_duration_days),
    )


async def host_report(settings: Settings, condor: Condor, host: str) -> HostReport:
    """What this host says of itself."""
    return HostReport(
        host=host,
        schedd_name=await condor.schedd_name(),
        submit_root=str(settings.submit_root or settings.home / "submit"),
        dagmans=settings.max_dagmans,
        version=version("wms2"),
    )


def block_limits(settings: Settings) -> BlockLimits:
    load = Load(settings.block_files, settings.block_bytes, settings.block_lumis)
    return BlockLimits(load, timedelta(hours=settings.block_hours))


def placement_wait(settings: Settings) -> timedelta:
    """How long a block waits for a subscription. The stand-in of the local stack has none that it need wait for."""
    return timedelta(hours=settings.placement_hours) if settings.rucio_url else timedelta(0)


def planning_settings(settings: Settings) -> PlanningSettings:
    """On the stack of one machine DAGMan looks at its jobs every second: there are few, and a person waits."""
    quick = {"log_scan_sec": 1, "status_sec": 1, "cool_off_sec": 0} if settings.condor == "private" else {}
    return PlanningSettings(
        recovery_dir=str(settings.recovery_dir or ""),
        nodes_per_round=settings.nodes_per_round,
        jobs_per_work_unit=settings.jobs_per_work_unit,
        target_job_sec=settings.target_job_sec,
        **quick,
    )


def reqmgr2_activities(settings: Settings, engine: Engine, client: Client) -> list[Activity]:
    reqmgr2 = connect_reqmgr2(settings)
    imports = ImportActivities(engine, client, reqmgr2, settings.imports == "on", settings.failure_policy)
    return [*defined_activities(imports), *defined_activities(ReportActivities(engine, reqmgr2))]


def defined_activities(instance: object) -> list[Activity]:
    """The methods that are marked with `@activity.defn`."""
    methods = (method for _, method in inspect.getmembers(instance, callable))
    return [method for method in methods if hasattr(method, "__temporal_activity_definition")]


def workflow_runner() -> SandboxedWorkflowRunner:
    """The sandbox that workflows run in."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)


def make_replayer() -> Replayer:
    """What replays histories as the worker of this installation would."""
    return Replayer(
        workflows=WORKFLOW_TYPES,
        workflow_runner=workflow_runner(),
        data_converter=pydantic_data_converter,
        runtime=sdk_runtime(),
    )


def build_workers(client: Client, hands: Hands, host: str | None, dags: int) -> list[Worker]:
    """A worker for each queue of this host; the watch queue has room for a follower of every DAG.

    Without a host, for those alone that every worker serves.
    """
    shared: dict[str, Any] = {
        "graceful_shutdown_timeout": GRACE,
        "max_heartbeat_throttle_interval": HEARTBEAT_THROTTLE,
        "default_heartbeat_throttle_interval": HEARTBEAT_THROTTLE,
    }
    everywhere = [
        Worker(
            client,
            task_queue=WORKFLOWS,
            workflows=WORKFLOW_TYPES,
            # Of services too: what a release without their queue has scheduled here is done here.
            activities=[*hands.records, *hands.services],
            interceptors=[LogContext(), Heartbeats(), Delays()],
            workflow_runner=workflow_runner(),
            **shared,
        ),
        Worker(
            client,
            task_queue=SERVICES,
            activities=hands.services,
            max_concurrent_activities=SERVICE_SLOTS,
            interceptors=[LogContext(), Heartbeats(), Delays()],
            **shared,
        ),
        Worker(
            client,
            task_queue=TRANSFERS,
            activities=hands.services,
            max_concurrent_activities=TRANSFER_SLOTS,
            interceptors=[LogContext(), Heartbeats(), Delays()],
            **shared,
        ),
    ]
    if host is None:
        return everywhere
    return [
        *everywhere,
        Worker(
            client,
            task_queue=host_queue(host),
            activities=hands.host,
            interceptors=[LogContext(), Heartbeats(), Delays()],
            **shared,
        ),
        Worker(
            client,
            task_queue=planning_queue(host),
            activities=hands.planning,
            max_concurrent_activities=PLANNING_SLOTS,
            interceptors=[LogContext(), Heartbeats(), Delays()],
            **shared,
        ),
        Worker(
            client,
            task_queue=watch_queue(host),
            activities=hands.watch,
            max_concurrent_activities=dags,
            interceptors=[LogContext()],
            **shared,
        ),
    ]


async def run_worker(settings: Settings, host: str | None, metrics_port: int | None) -> bool:
    """Serve all queues of this host until SIGTERM or SIGINT; activities then have ten seconds to end.

    Without a host, what needs none. Whether the process is to begin anew, with credentials that were renewed.
    """
    messenger = messenger_of(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="wms2"))
    for wanted in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wanted, stop.set)
    runtime = sdk_runtime(metrics_port, str(settings.metrics_address))
    async with watched():
        credentials = Credentials(settings)
        client = await _wait_for_temporal(settings, runtime, stop)
        if client is None:
            return False
        hands = build_hands(settings, client, messenger)
        workers = build_workers(client, hands, host, settings.max_dagmans)
        renewal = credentials.wait_for_renewal()
        begins_anew = await _serve(workers, _beside(hands, host), renewal, stop, host or CENTRAL)
        if host and not begins_anew:
            await hands.leave(host)
        return begins_anew


def _beside(hands: Hands, host: str | None) -> list[Coroutine[Any, Any, None]]:
    """What a submit host needs beside answers to Temporal."""
    if host is None:
        return []
    chores = [hands.announce(host), hands.sweep()]
    return chores if hands.refresh is None else [*chores, hands.refresh(host)]


async def _serve(
    workers: Sequence[Worker],
    chores: Sequence[Coroutine[Any, Any, None]],
    renewal: Coroutine[Any, Any, None],
    stop: asyncio.Event,
    where: str,
) -> bool:
    """Until it is to stop, or the renewal is there: whether it was the latter."""
    log.info("worker on %s: serving %s", where, ", ".join(worker.task_queue for worker in workers))
    async with asyncio.TaskGroup() as tasks:
        for worker in workers:
            tasks.create_task(worker.run())
        beside = [tasks.create_task(chore) for chore in chores]
        renewed, stopped = tasks.create_task(renewal), tasks.create_task(stop.wait())
        await asyncio.wait({renewed, stopped}, return_when=asyncio.FIRST_COMPLETED)
        begins_anew = not stop.is_set()
        log.info("worker on %s: %s", where, "credentials were renewed" if begins_anew else "stopping")
        for task in (*beside, renewed, stopped):
            task.cancel()
        await asyncio.gather(*(worker.shutdown() for worker in workers))
    log.info("worker on %s: stopped", where)
    return begins_anew


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
