"""Requests in line before the real admission: one that cannot get on keeps nobody waiting."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from tests.workflows.forgetful import ForgetfulAdmission, nothing_remembered
from tests.workflows.life import HOST, Life, World, living
from wms2.activities.admission import signal_admission
from wms2.core.admission import AdmissionState
from wms2.models.messages import (
    AdmissionOrder,
    DagOrder,
    HostList,
    PlannedRoundReport,
    PlanOrder,
    SubmittedDag,
)
from wms2.models.next_round import Need, NextRound
from wms2.models.request import RequestStatus
from wms2.models.sizing import KnownSizing
from wms2.temporal.ids import ADMISSION
from wms2.temporal.retries import HOST as HOST_PRESET
from wms2.workflows.admission import AdmissionWorkflow


class Queue(World):
    """A world whose slots come from admission itself. Every request wants one round."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.unplannable: set[str] = set()
        self.done_with: set[str] = set()
        self.submitted: list[DagOrder] = []

    @activity.defn
    async def next_round(self, name: str, sizing: KnownSizing) -> NextRound:
        return NextRound(need=Need.NOTHING if name in self.done_with else Need.ROUND, events=100)

    @activity.defn
    async def plan_round(self, order: PlanOrder) -> PlannedRoundReport:
        self.planned.append(order)
        if order.request in self.unplannable:
            raise ApplicationError("DBS is away", next_retry_delay=timedelta(minutes=10))
        self.done_with.add(order.request)
        return PlannedRoundReport(
            folder=f"/f/{order.request}", work_units=10, jobs=10, events=100, next_lumi=order.first_lumi + 10
        )

    @activity.defn
    async def submit_dag(self, order: DagOrder) -> SubmittedDag:
        self.submitted.append(order)
        return SubmittedDag(
            order=order, cluster=len(self.submitted), intent_at=datetime.now(UTC), found=False
        )

    def activities(self) -> list[Callable[..., Awaitable[Any]]]:
        own = [one for one in super().activities() if one.__name__ not in ("ask_admission", "give_back_slot")]
        admission = ForgetfulAdmission(self.client)
        return [
            *own,
            admission.ask_admission,
            admission.give_back_slot,
            admission.closed_requests,
            admission.record_slots,
            admission.strike_slots,
        ]


@pytest.fixture
async def first(env: WorkflowEnvironment) -> AsyncIterator[Life]:
    """The first of the requests that wait; the line has one slot."""
    async with living(env, world=Queue(env.client)) as life:
        await signal_admission(
            env.client, "know_hosts", HostList(at=datetime.now(UTC), dagmans={HOST: 1000}), nothing_remembered
        )
        order = AdmissionOrder(action="set", actor="operator", action_id="one", limit=1)
        await env.client.get_workflow_handle(ADMISSION).execute_update(AdmissionWorkflow.change, order)
        yield life


@asynccontextmanager
async def passing(env: WorkflowEnvironment, time: timedelta) -> AsyncIterator[None]:
    """While so much time passes. After an activity that ran out of it the server skips none: its end is not awaited."""
    task = asyncio.create_task(env.sleep(time))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def admission_state(client: Client) -> AdmissionState:
    return await client.get_workflow_handle(ADMISSION).query(AdmissionWorkflow.state)


async def test_a_request_whose_planning_keeps_failing_is_held_within_the_hour_and_the_next_one_runs(
    first: Life,
) -> None:
    world = first.world
    assert isinstance(world, Queue)
    world.unplannable.add(first.name)
    await first.begin(priority=9)
    await first.until(RequestStatus.PLANNING)
    second = Life(first.env, world)
    await second.begin()
    async with passing(first.env, HOST_PRESET["schedule_to_close_timeout"]):
        await second.until(RequestStatus.COMPLETED)
    state = await first.state()
    assert (state.status, state.slot_host) == (RequestStatus.HELD, None)
    assert "plan_round failed: DBS is away" in state.held_reason
    lent = await admission_state(first.env.client)
    assert (lent.leases, lent.waiting) == ({}, {})


async def test_a_dag_is_submitted_with_the_idle_jobs_of_its_slot(first: Life) -> None:
    world = first.world
    assert isinstance(world, Queue)
    await first.begin()
    assert (await first.end()).status is RequestStatus.COMPLETED
    assert [order.idle_jobs for order in world.submitted] == [100]
    assert [order.idle_jobs for order in world.planned] == [100]
    assert (await first.state()).slot_idle_jobs is None
