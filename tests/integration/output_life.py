"""The workflow of an output dataset on a real Temporal, with a worker that does what it says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from tests.integration.output_world import World
from tests.integration.publishing import LIMITS, SITE, begin, made_request, produce
from tests.patience import PATIENCE_SEC
from wms2.activities.outputs import OutputActivities
from wms2.activities.undo import UndoActivities
from wms2.config import Settings
from wms2.models.messages import OutputAnnounced, OutputOrder
from wms2.models.output import OutputBlock, OutputStatus
from wms2.models.undo import Undone, UndoOrder
from wms2.temporal.client import connect
from wms2.temporal.delays import Delays
from wms2.temporal.heartbeats import Heartbeats
from wms2.temporal.ids import output_id
from wms2.temporal.launch import start_undo
from wms2.temporal.queues import SERVICES, TRANSFERS, WORKFLOWS
from wms2.worker import defined_activities, workflow_runner
from wms2.workflows.output_dataset import OutputDatasetWorkflow
from wms2.workflows.undo import UndoWorkflow

PLACEMENT_WAIT = timedelta(days=1)
LOOK_SEC = 0.1


@dataclass(frozen=True)
class OutputLife:
    """An output dataset and its workflow."""

    world: World
    client: Client
    order: OutputOrder
    workflow: WorkflowHandle[Any, Any]

    async def hear(self, *numbers: int, site: str = SITE) -> None:
        """Work units were credited."""
        produce(self.world.engine, self.order.request, *numbers, site=site)
        await self.workflow.signal("news")

    async def trouble(self) -> str:
        """What the workflow says of Rucio, when it says something."""
        async with asyncio.timeout(PATIENCE_SEC):
            while not (state := await self.workflow.query(OutputDatasetWorkflow.state)).trouble:
                await asyncio.sleep(LOOK_SEC)
        return state.trouble

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SEC):
            while not is_so():
                await asyncio.sleep(LOOK_SEC)

    async def until_it_is(self, status: OutputStatus) -> None:
        await self.until(lambda: self.world.status(self.order.request) is status)

    def blocks(self) -> list[OutputBlock]:
        return self.world.blocks(self.order.request)

    async def begin_to_take_back(self) -> WorkflowHandle[Any, Undone]:
        order = UndoOrder(request=self.order.request, actor="operator", reason="wrong", action_id="deed")
        return self.client.get_workflow_handle(await start_undo(self.client, order), result_type=Undone)

    async def take_back(self) -> Undone:
        return await (await self.begin_to_take_back()).result()


@asynccontextmanager
async def living(world: World, settings: Settings, name: str, **output: Any) -> AsyncIterator[OutputLife]:
    """The workflow of an output dataset of four work units."""
    client = await connect(settings)
    outputs = OutputActivities(world.engine, world.dbs, world.rucio, LIMITS, PLACEMENT_WAIT)
    undo = UndoActivities(world.engine, world.dbs, world.rucio)
    order = begin(world.engine, made_request(name, **output), 4)
    workflows = Worker(
        client,
        task_queue=WORKFLOWS,
        workflows=[OutputDatasetWorkflow, UndoWorkflow],
        workflow_runner=workflow_runner(),
    )
    services, transfers = (
        Worker(
            client,
            task_queue=queue,
            activities=[*defined_activities(outputs), *defined_activities(undo)],
            interceptors=[Heartbeats(), Delays()],
        )
        for queue in (SERVICES, TRANSFERS)
    )
    async with workflows, services, transfers:
        workflow = await client.start_workflow(
            "OutputDatasetWorkflow",
            order,
            id=output_id(name, order.dataset),
            task_queue=WORKFLOWS,
            result_type=OutputAnnounced,
        )
        yield OutputLife(world, client, order, workflow)
