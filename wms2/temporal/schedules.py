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

from wms2.temporal.ids import RECONCILIATION
from wms2.temporal.queues import WORKFLOWS

BETWEEN_RECONCILIATIONS = timedelta(minutes=10)

SCHEDULES = {
    RECONCILIATION: Schedule(
        action=ScheduleActionStartWorkflow(
            "ReconciliationWorkflow",
            id=RECONCILIATION,
            task_queue=WORKFLOWS,
            static_summary="holds the record of requests against the workflows that live",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=BETWEEN_RECONCILIATIONS)]),
        # What was missed while everything was down is done once, not many times.
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=BETWEEN_RECONCILIATIONS),
    )
}


async def make_schedules(client: Client) -> None:
    """Create the schedules, or make those that are there as they are here. Doing it again changes nothing."""
    for name, schedule in SCHEDULES.items():
        try:
            await client.create_schedule(name, schedule)
        except ScheduleAlreadyRunningError:
            update = ScheduleUpdate(schedule)
            await client.get_schedule_handle(name).update(lambda _, update=update: update)  # type: ignore[misc]
