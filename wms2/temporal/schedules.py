"""What Temporal starts by itself, again and again."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)
from temporalio.service import RPCError, RPCStatusCode

from wms2.config import Settings
from wms2.temporal.ids import CHAINS, HOSTS, NOTIFICATION, RECONCILIATION, REQMGR2, SITES
from wms2.temporal.queues import WORKFLOWS

BETWEEN_RECONCILIATIONS = timedelta(minutes=3)
BETWEEN_CHAINS = timedelta(minutes=1)
BETWEEN_SITES = timedelta(minutes=30)
BETWEEN_HOSTS = timedelta(minutes=5)
AT_ONCE = frozenset({SITES})
"""What is done as soon as it is made: a new installation knows no sites."""


def schedules(settings: Settings) -> dict[str, Schedule | None]:
    """All there can be, by name; None for what is not to be there."""
    notification = _every(
        timedelta(minutes=settings.notify_every_min),
        "NotificationWorkflow",
        NOTIFICATION,
        "tells people what happened",
    )
    reqmgr2 = _every(
        timedelta(minutes=settings.reqmgr2_every_min),
        "ReqMgr2Workflow",
        REQMGR2,
        "takes on what ReqMgr2 has for WMS2, and tells it how far that is",
    )
    return {
        RECONCILIATION: _every(
            BETWEEN_RECONCILIATIONS,
            "ReconciliationWorkflow",
            RECONCILIATION,
            "holds the record of requests against the workflows that live",
        ),
        CHAINS: _every(BETWEEN_CHAINS, "ChainWorkflow", CHAINS, "lets requests go whose input is there"),
        REQMGR2: reqmgr2 if settings.has_reqmgr2 else None,
        SITES: _every(BETWEEN_SITES, "SitesWorkflow", SITES, "learns from CRIC which sites there are"),
        HOSTS: _every(
            BETWEEN_HOSTS, "HostsWorkflow", HOSTS, "tells admission which submit hosts can be used"
        ),
        NOTIFICATION: notification if settings.notify == "on" else None,
    }


async def make_schedules(client: Client, settings: Settings) -> None:
    """Make the schedules that are there as they are here. Doing it again changes nothing."""
    for name, schedule in schedules(settings).items():
        if schedule is None:
            await _remove(client, name)
            continue
        try:
            await client.create_schedule(name, schedule, trigger_immediately=name in AT_ONCE)
        except ScheduleAlreadyRunningError:
            update = ScheduleUpdate(schedule)
            await client.get_schedule_handle(name).update(lambda _, update=update: update)  # type: ignore[misc]


def _every(pause: timedelta, workflow: str, name: str, summary: str) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(workflow, id=name, task_queue=WORKFLOWS, static_summary=summary),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=pause)]),
        # What was missed while everything was down is done once, not many times.
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=pause),
    )


async def _remove(client: Client, name: str) -> None:
    try:
        await client.get_schedule_handle(name).delete()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
