"""A request and its outputs: those that do not get on, those that are taken back, those that are replaced."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from tests.patience import PATIENCE_SEC
from tests.workflows.life import DATASET, DEAF_DATASET, HOST, SLOW_DATASET, Life, QuietOutput
from tests.workflows.servers import skipping_server
from tests.workflows.test_remedies import held_by_failures
from wms2.models.actions import Action
from wms2.models.messages import Alert, Slot
from wms2.models.next_round import Need
from wms2.models.output_steps import OutputStuck
from wms2.models.request import RequestStatus
from wms2.models.undo import Undone, UndoOrder, UndoState
from wms2.temporal.ids import output_id, undo_id
from wms2.temporal.queues import SERVICES, WORKFLOWS
from wms2.workflows.undo import UndoWorkflow

STUCK = OutputStuck(dataset=DATASET, problem="Rucio has no room")
UNDO = UndoOrder(request="simulation", actor="operator", reason="because", action_id="1")


async def test_outputs_that_do_not_get_on_hold_the_request_and_release_tries_again(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until(RequestStatus.QUEUED)
    await life.handle.signal("output_stuck", STUCK)
    await life.handle.signal("output_stuck", STUCK)
    await life.until_asked()
    life.world.lend_slots = True
    (asked,) = life.world.asked
    slot = Slot(request=asked.request, round=asked.round, host=HOST, said=asked.said)
    await life.handle.signal("slot_granted", slot)
    await life.until(RequestStatus.HELD)
    state = await life.state()
    assert state.held_reason == f"{DATASET} does not get on: Rucio has no room"
    assert sum("Rucio has no room" in line for line in state.logbook) == 2, "once when told, once when held"
    assert len(life.world.closed) == 1, "the round that was on its way was run to its end"
    output = life.env.client.get_workflow_handle(output_id(life.name, DATASET))
    assert await output.query(QuietOutput.retries) == 0
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert await output.query(QuietOutput.retries) == 1
    assert len(life.world.closed) == 2


async def test_a_request_is_not_held_over_a_problem_of_its_outputs_that_is_over(life: Life) -> None:
    life.world.rounds, life.world.lend_slots = [Need.ROUND, Need.ROUND], False
    await life.begin()
    await life.until_asked()
    await life.handle.signal("output_stuck", STUCK)
    await life.handle.signal("output_recovered", DATASET)
    await life.until_told(f"{DATASET} gets on again")
    life.world.lend_slots = True
    (asked,) = life.world.asked
    slot = Slot(request=asked.request, round=asked.round, host=HOST, said=asked.said)
    await life.handle.signal("slot_granted", slot)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert RequestStatus.HELD not in life.world.statuses


async def waits_for(life: Life, dataset: str) -> WorkflowHandle[Any, Any]:
    """A request that waits for an output, and the workflow of that one."""
    life.world.rounds = []
    await life.begin(datasets=(dataset,))
    output = life.env.client.get_workflow_handle(output_id(life.name, dataset))
    async with asyncio.timeout(PATIENCE_SEC):
        while dataset not in (await life.state()).outputs_started or not await was_told(output):
            await asyncio.sleep(0.05)
    return output


async def was_told(output: WorkflowHandle[Any, Any]) -> bool:
    return bool(await output.query(QuietOutput.last_word))


async def test_an_output_whose_workflow_was_ended_from_outside_is_taken_up_again(life: Life) -> None:
    output = await waits_for(life, SLOW_DATASET)
    ended = (await output.describe()).run_id
    await output.terminate()
    await life.env.sleep(timedelta(hours=13))
    await life.until_told(f"the workflow of {SLOW_DATASET} was gone, and is started again")
    async with asyncio.timeout(PATIENCE_SEC):
        while (await output.describe()).run_id == ended or not await was_told(output):
            await asyncio.sleep(0.05)
    assert (await life.state()).outputs_started == (SLOW_DATASET,)


async def test_an_output_that_ends_without_a_word_does_not_keep_a_request_from_its_end(life: Life) -> None:
    output = await waits_for(life, DEAF_DATASET)
    await life.say(Action.HOLD)
    await life.until(RequestStatus.HELD)
    await life.say(Action.ABORT)
    async with asyncio.timeout(PATIENCE_SEC):
        while await output.query(QuietOutput.last_word) != "freeze":
            await asyncio.sleep(0.05)
    await output.terminate()
    await life.env.sleep(timedelta(minutes=15))
    assert (await life.end()).status is RequestStatus.ABORTED


async def test_outputs_that_go_on_after_an_end_that_was_refused_are_frozen_again(life: Life) -> None:
    output = await waits_for(life, SLOW_DATASET)
    await life.say(Action.HOLD)
    await life.until(RequestStatus.HELD)
    life.world.broken = {"supersede"}
    held = life.world.statuses.count("held")
    await life.say(Action.RESTART)
    await life.until_held_again(held)
    frozen = (await output.describe()).run_id
    await life.say(Action.RELEASE)
    async with asyncio.timeout(PATIENCE_SEC):
        while (await output.describe()).run_id == frozen or not await was_told(output):
            await asyncio.sleep(0.05)
    await life.say(Action.HOLD)
    await life.until_held_again(held + 1)
    await life.say(Action.FAIL)
    assert (await life.end()).status is RequestStatus.FAILED
    assert await output.query(QuietOutput.last_word) == "freeze"


async def test_a_request_that_failed_has_its_outputs_taken_back(life: Life) -> None:
    await held_by_failures(life)
    await life.say(Action.FAIL)
    assert (await life.end()).status is RequestStatus.FAILED
    undo = life.env.client.get_workflow_handle(undo_id(life.name, None), result_type=UndoOrder)
    order = await undo.result()
    assert (order.request, order.dataset, order.actor) == (life.name, None, "operator")
    assert "because" in order.reason


async def test_a_request_that_was_aborted_or_restarted_keeps_its_outputs(life: Life) -> None:
    await held_by_failures(life)
    await life.say(Action.RESTART)
    assert (await life.end()).status is RequestStatus.FAILED
    assert "write_invalidation" not in life.world.done


async def test_the_outputs_of_the_version_before_are_superseded_when_this_one_is_complete(life: Life) -> None:
    await life.begin(replaces="earlier")
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.done.count("supersede_outputs") == 1


async def test_a_first_version_supersedes_nothing(life: Life) -> None:
    await life.begin()
    await life.end()
    assert "supersede_outputs" not in life.world.done


class Undoing:
    """In place of DBS and Rucio."""

    def __init__(self, failing: int) -> None:
        self.failing = failing
        self.tries = 0
        self.alerts: list[Alert] = []
        self.told = UndoState()
        """What its workflow says after the first failure: no time is skipped before its end is waited for."""

    @activity.defn
    async def undo_outputs(self, order: UndoOrder) -> Undone:
        assert order == UNDO
        self.tries += 1
        if self.tries <= self.failing:
            raise ApplicationError("Rucio does not answer", type="Refused")
        return Undone(datasets=1)

    @activity.defn
    async def raise_alert(self, alert: Alert) -> None:
        self.alerts.append(alert)

    async def run(self, client: Client) -> Undone:
        async with (
            Worker(client, task_queue=WORKFLOWS, workflows=[UndoWorkflow], activities=[self.raise_alert]),
            Worker(client, task_queue=SERVICES, activities=[self.undo_outputs]),
        ):
            handle = await client.start_workflow(
                UndoWorkflow.run, UNDO, id=undo_id(UNDO.request, None), task_queue=WORKFLOWS
            )
            async with asyncio.timeout(PATIENCE_SEC):
                while not (state := await handle.query(UndoWorkflow.state)).problem:
                    await asyncio.sleep(0.05)
                self.told = state
                undone = await handle.result()
            replayer = Replayer(workflows=[UndoWorkflow], data_converter=pydantic_data_converter)
            await replayer.replay_workflow(await handle.fetch_history())
            return undone


async def test_what_cannot_be_taken_back_is_tried_again_and_reported() -> None:
    undoing = Undoing(failing=8)
    async with await skipping_server() as environment:
        assert (await undoing.run(environment.client)).datasets == 1
    assert undoing.tries == 9
    assert (undoing.told.failures, undoing.told.problem) == (1, "Rucio does not answer")
    assert undoing.told.again_at is not None
    assert [alert.kind for alert in undoing.alerts] == ["undo"] * 3, "after the sixth failure, with each"
    assert "Rucio does not answer" in undoing.alerts[0].message
