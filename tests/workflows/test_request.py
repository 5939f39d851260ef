"""The life of a request on the time-skipping server, with the activities replaced by a small world."""

import asyncio

import pytest
from temporalio.client import WorkflowUpdateFailedError

from tests.patience import PATIENCE_SEC
from tests.workflows.life import DATASET, HOST, Life, QuietOutput
from wms2.core.lifecycle import FITS
from wms2.models.actions import Action
from wms2.models.messages import (
    OperatorAction,
    OutputOrder,
)
from wms2.models.next_round import Need
from wms2.models.progress import DagOutcome
from wms2.models.request import RequestStatus
from wms2.models.request_state import RequestState
from wms2.temporal.ids import output_id
from wms2.temporal.queues import WORKFLOWS, host_queue, planning_queue


async def test_a_request_lives_from_submission_to_completion(life: Life) -> None:
    await life.begin()
    state = await life.end()
    assert state.status is RequestStatus.COMPLETED
    assert life.world.statuses == [
        "submitted", "queued", "pilot_running", "queued", "planning", "active", "active", "completed",
    ]  # fmt: skip
    assert life.world.attempts == ["0:1", "1:1"]
    assert state.next_lumi == 21


async def test_a_request_whose_slot_it_never_heard_of_asks_again_when_somebody_sees_that(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    async with asyncio.timeout(PATIENCE_SEC):
        while not life.world.asked:
            await asyncio.sleep(0.05)
        life.world.lend_slots = True
        await life.handle.signal("ask_again")
        # No time is skipped here: the twelve hours after which it asks by itself do not pass.
        while len(life.world.asked) < 2:
            await asyncio.sleep(0.05)
    first, second = life.world.asked[:2]
    assert first == second
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_a_few_failures_are_rescued_with_the_slot_kept(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.ends = [DagOutcome.PARTIAL, DagOutcome.PARTIAL]
    await life.begin()
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2", "0:3"]
    assert life.world.statuses.count("partial") == 2
    assert life.world.done.count("give_back_slot") == 1


async def test_many_failures_hold_the_request_and_release_closes_the_round(life: Life) -> None:
    life.world.rounds = [Need.ROUND, Need.ROUND]
    life.world.ends = [DagOutcome.PARTIAL]
    life.world.failed_units = 2
    await life.begin()
    await life.until(RequestStatus.HELD)
    assert (
        "2 of 10 work units failed"
        in (await life.handle.query("state", result_type=RequestState)).held_reason
    )
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert "round given up" in life.world.closed[0].reason
    assert life.world.attempts == ["0:1", "1:1"]


async def test_rescues_that_do_not_help_hold_the_request(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.ends = [DagOutcome.PARTIAL] * 4
    await life.begin()
    await life.until(RequestStatus.HELD)
    assert life.world.attempts == ["0:1", "0:2", "0:3", "0:4"]
    await life.say(Action.FAIL)
    assert (await life.end()).status is RequestStatus.FAILED


async def test_a_dag_that_people_remove_again_and_again_uses_no_rescue_up_and_is_held_in_the_end(
    life: Life,
) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.ends = [DagOutcome.STOPPED] * 4
    await life.begin()
    await life.until(RequestStatus.HELD)
    state = await life.state()
    assert "the DAG was removed 4 times by hand" in state.held_reason
    assert life.world.attempts == ["0:1", "0:2", "0:3", "0:4"]
    assert state.open_round is not None
    assert (state.open_round.failure_rescues, state.open_round.retried) == (0, False)
    await life.say(Action.ABORT)
    await life.end()


async def test_a_stop_resumes_the_same_round_and_does_not_count_as_a_rescue(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await life.say(Action.STOP)
    state = await life.end()
    assert state.status is RequestStatus.COMPLETED
    assert life.world.statuses[3:7] == ["active", "stopping", "resubmitting", "queued"]
    assert life.world.attempts == ["0:1", "0:2"]


async def test_a_hold_stops_and_waits_and_a_release_goes_on_where_it_was(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await life.say(Action.HOLD)
    await life.until(RequestStatus.HELD)
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2"]
    assert [order.reason for order in life.world.closed] == [""]


async def test_an_abort_ends_a_running_request_without_failing_it(life: Life) -> None:
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.PILOT_RUNNING)
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED
    assert "stop_dag" in life.world.done
    assert "abort by operator" in life.world.closed[0].reason


async def test_a_stop_that_fails_holds_the_request_and_its_dag_is_followed_again(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    life.world.broken = {"stop_dag"}
    await life.say(Action.STOP)
    await life.until(RequestStatus.HELD)
    life.world.broken, life.world.hang_in_follow = set(), False
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1"]


async def test_a_hold_in_the_queue_leaves_the_queue(life: Life) -> None:
    life.world.lend_slots = False
    await life.begin()
    await life.until_asked()
    await life.say(Action.HOLD)
    await life.until_done("give_back_slot")
    assert life.world.statuses[-1] == "held"
    life.world.lend_slots = True
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_a_request_kept_back_waits_for_its_release(life: Life) -> None:
    await life.begin(RequestStatus.NEW)
    await life.until(RequestStatus.NEW)
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED


@pytest.mark.parametrize("broken", ["next_round", "plan_round", "submit_dag", "follow_dag", "close_round"])
async def test_whatever_breaks_for_good_holds_the_request_and_release_tries_again(
    life: Life, broken: str
) -> None:
    life.world.broken = {broken}
    await life.begin()
    await life.until(RequestStatus.HELD)
    state: RequestState = await life.handle.query("state", result_type=RequestState)
    assert f"{broken} is broken" in state.held_reason
    life.world.broken = set()
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "1:1"]


@pytest.mark.parametrize("action", [Action.RELEASE, Action.FAIL])
async def test_what_does_not_fit_is_refused_in_words_and_leaves_no_trace(life: Life, action: Action) -> None:
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.PILOT_RUNNING)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await life.say(action)
    assert f"{action} needs one that is" in str(refused.value.cause)
    life.world.hang_in_follow = False
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_the_same_action_twice_has_one_effect(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await asyncio.gather(life.say(Action.STOP, "same"), life.say(Action.STOP, "same"))
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.done.count("stop_dag") == 1


async def test_signals_work_as_the_updates_do(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    asked = OperatorAction(action=Action.STOP, actor="operator", action_id="x")
    await life.handle.signal("stop", asked)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2"]


async def test_temporals_own_cancel_is_a_stop(real_life: Life) -> None:
    real_life.world.rounds = [Need.ROUND]
    real_life.world.hang_in_follow = True
    await real_life.begin()
    await real_life.until(RequestStatus.ACTIVE)
    await real_life.handle.cancel()
    state = await real_life.end()
    assert state.status is RequestStatus.COMPLETED
    assert real_life.world.statuses[3:7] == ["active", "stopping", "resubmitting", "queued"]
    assert real_life.world.attempts == ["0:1", "0:2"]


async def test_a_cancel_where_no_stop_fits_changes_nothing(real_life: Life) -> None:
    await real_life.begin(RequestStatus.NEW)
    await real_life.until(RequestStatus.NEW)
    await real_life.handle.cancel()
    await real_life.say(Action.RELEASE)
    assert (await real_life.end()).status is RequestStatus.COMPLETED


async def test_a_ledger_that_does_not_add_up_holds_the_request(life: Life) -> None:
    life.world.discrepancies = ("90 events planned in work units, 100 in rounds",)
    await life.begin()
    await life.until(RequestStatus.HELD)
    state: RequestState = await life.handle.query("state", result_type=RequestState)
    assert state.held_reason.startswith("the ledger does not add up: 90 events planned")
    life.world.discrepancies = ()
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_outputs_hear_of_units_that_a_dead_follower_credited(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.ends = [DagOutcome.RUNNING, DagOutcome.RUNNING]
    await life.begin()
    await life.end()
    assert life.world.told == [0, 9, 9]


async def test_an_abort_of_a_request_that_is_held_removes_the_dag_that_nobody_could_follow(
    life: Life,
) -> None:
    life.world.broken = {"follow_dag"}
    await life.begin()
    await life.until(RequestStatus.HELD)
    assert "stop_dag" not in life.world.done
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED
    assert life.world.done.index("stop_dag") < life.world.done.index("close_round")


async def test_an_output_workflow_that_lives_already_is_used(life: Life) -> None:
    order = OutputOrder(request=life.name, dataset=DATASET)
    await life.env.client.start_workflow(
        QuietOutput.run, order, id=output_id(life.name, DATASET), task_queue=WORKFLOWS
    )
    await life.begin()
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_an_abort_does_not_wait_for_an_output_workflow_that_is_gone(life: Life) -> None:
    life.world.broken = {"close_round"}
    await life.begin()
    await life.until(RequestStatus.HELD)
    await life.env.client.get_workflow_handle(output_id(life.name, DATASET)).terminate()
    life.world.broken = set()
    await life.say(Action.ABORT)
    assert (await life.end()).status is RequestStatus.ABORTED


def test_no_action_fits_a_request_that_has_ended() -> None:
    for statuses in FITS.values():
        assert not any(status.is_final for status in statuses)


async def test_a_round_with_much_news_keeps_every_history_short(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    looks_of_thirty_days, news = 30 * 4, 300
    life.world.ends = [DagOutcome.RUNNING] * (looks_of_thirty_days + news)
    await life.begin()
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert len(life.world.followed_in) == looks_of_thirty_days + news + 1
    runs = set(life.world.followed_in)
    assert len(runs) > 1, "the round went on in another history"
    for run in runs:
        told = await life.env.client.get_workflow_handle(life.handle.id, run_id=run).describe()
        assert told.history_length < 2_000


@pytest.mark.parametrize(
    ("from_catalogues", "queue"), [(False, host_queue(HOST)), (True, planning_queue(HOST))]
)
async def test_what_is_planned_from_catalogues_waits_for_them_in_a_queue_of_its_own(
    life: Life, from_catalogues: bool, queue: str
) -> None:
    life.world.from_catalogues = from_catalogues
    await life.begin()
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.planned_by == [queue, queue]
