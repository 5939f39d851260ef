"""What a person can do with a held request: release it with changes, rescue it, drop parts, fail it, restart it."""

import uuid
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from tests.workflows.life import Life
from wms2.models.actions import Action
from wms2.models.messages import Changes, DropAction, ReleaseAction, RestartAction
from wms2.models.next_round import Need
from wms2.models.progress import DagOutcome
from wms2.models.request import CleanupPolicy, RequestStatus

LFN = "/store/data/Run2024A/bad.root"


def release(rescue: bool = False, **changes: Any) -> ReleaseAction:
    return ReleaseAction(
        actor="operator",
        reason="because",
        action_id=uuid.uuid4().hex,
        rescue=rescue,
        changes=Changes(**changes),
    )


def drop(**what: Any) -> DropAction:
    return DropAction(actor="operator", reason="because", action_id=uuid.uuid4().hex, **what)


async def held_by_failures(life: Life, rounds: int = 2) -> None:
    life.world.rounds = [Need.ROUND] * rounds
    life.world.ends = [DagOutcome.PARTIAL]
    life.world.failed_units = 4
    await life.begin()
    await life.until(RequestStatus.HELD)


async def test_a_release_with_a_rescue_goes_on_with_the_same_dag_and_counts_rescues_anew(life: Life) -> None:
    await held_by_failures(life, rounds=1)
    # A low number of failures now: as many rescues as a new round would have.
    life.world.failed_units = 1
    life.world.ends = [DagOutcome.PARTIAL] * 3
    await life.ask(release(rescue=True, avoid_sites=("T2_US_Purdue",), memory_mb=4000))
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "0:2", "0:3", "0:4", "0:5"]
    assert [order.reason for order in life.world.closed] == [""]
    assert [(order.avoid_sites, order.memory_mb) for order in life.world.rescues] == [
        (("T2_US_Purdue",), 4000)
    ]


async def test_a_release_with_changes_is_in_force_before_it_takes_effect(life: Life) -> None:
    await held_by_failures(life)
    await life.ask(
        release(
            exclude_files=(LFN,),
            memory_mb=4000,
            hold_threshold=0.5,
            max_rescues=7,
            avoid_sites=("T2_DE_DESY",),
        )
    )
    state = await life.end()
    assert (state.hold_threshold, state.max_rescues, state.override.memory_mb) == (0.5, 7, 4000)
    assert [order.sizing.override.memory_mb for order in life.world.planned] == [None, 4000]
    assert life.world.changes[0].exclude_files == (LFN,)
    (told,) = life.world.audited
    assert (told.action, told.detail["avoid_sites"], told.detail["memory_mb"]) == (
        "release",
        ["T2_DE_DESY"],
        4000,
    )
    assert "memory_mb 4000" in life.world.closed[0].reason


@pytest.mark.parametrize("rescue", [False, True])
async def test_attempts_that_a_release_gives_are_in_the_round_before_it_is_submitted(
    life: Life, rescue: bool
) -> None:
    """In the same one, or in those to come; the failures that it is held over are not judged anew."""
    await held_by_failures(life, rounds=1 if rescue else 2)
    assert life.world.attempts_given == []
    await life.ask(release(rescue=rescue, attempts=6))
    state = await life.end()
    assert (state.status, state.attempts) == (RequestStatus.COMPLETED, 6)
    assert life.world.attempts_given == [6]
    assert life.world.attempts == ["0:1", "0:2"] if rescue else ["0:1", "1:1"]


async def test_excluding_a_file_closes_the_round_that_planned_it(life: Life) -> None:
    life.world.rounds = [Need.ROUND, Need.ROUND]
    life.world.hang_in_follow = True
    await life.begin()
    await life.until(RequestStatus.ACTIVE)
    await life.say(Action.HOLD)
    await life.until(RequestStatus.HELD)
    await life.ask(release(exclude_files=(LFN,)))
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "1:1"]


@pytest.mark.parametrize("broken", ["prepare_rescue", "apply_changes", "close_round"])
async def test_a_release_that_breaks_is_held_and_the_next_one_still_closes_the_round(
    life: Life, broken: str
) -> None:
    await held_by_failures(life)
    life.world.broken = {broken}
    held = life.world.statuses.count("held")
    await life.ask(release(rescue=broken == "prepare_rescue"))
    await life.until_held_again(held)
    assert f"{broken} is broken" in (await life.state()).held_reason
    life.world.broken = set()
    await life.ask(release())
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert life.world.attempts == ["0:1", "1:1"]
    assert len(life.world.closed) == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (release(rescue=True), "no round is open"),
        (release(memory_mb=10**9), "memory_mb is 1000000000"),
        (release(rescue=True, exclude_files=(LFN,)), "no file can be excluded"),
        (drop(), "say what to drop"),
        (drop(files=(LFN,), files_left=True), "say what to drop"),
    ],
)
async def test_what_does_not_fit_is_refused_in_a_sentence(life: Life, asked: Any, words: str) -> None:
    life.world.broken = {"next_round"}
    await life.begin()
    await life.until(RequestStatus.HELD)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await life.ask(asked)
    assert words in str(refused.value.cause)
    assert life.world.audited == []
    await life.say(Action.ABORT)
    await life.end()


async def test_a_request_that_was_kept_back_is_released_with_changes(life: Life) -> None:
    await life.begin(RequestStatus.NEW)
    await life.until(RequestStatus.NEW)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await life.ask(release(exclude_files=(LFN,)))
    assert "is not known before" in str(refused.value.cause)
    await life.ask(release(memory_mb=3000))
    await life.end()
    assert {order.sizing.override.memory_mb for order in life.world.planned} == {3000}


async def test_what_is_dropped_is_out_and_the_rest_may_finish(life: Life) -> None:
    await held_by_failures(life, rounds=1)
    await life.ask(drop(units=(3,)))
    await life.until_told("0 files, 0 events dropped")
    assert (await life.state()).status is RequestStatus.HELD
    await life.ask(drop(files=(LFN,)))
    await life.until_told("1 files, 0 events dropped")
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED
    assert [list(asked.given) for asked in life.world.dropped] == [["units"], ["files"]]
    assert len(life.world.closed) == 1
    assert "drop by operator" in life.world.closed[0].reason


async def test_a_dag_that_still_runs_is_stopped_before_a_part_of_it_is_dropped(life: Life) -> None:
    life.world.rounds = [Need.ROUND]
    life.world.broken = {"follow_dag"}
    await life.begin()
    await life.until(RequestStatus.HELD)
    life.world.broken = set()
    await life.ask(drop(units=(3,)))
    await life.until_told("0 files, 0 events dropped")
    await life.until(RequestStatus.HELD)
    assert life.world.statuses[-2:] == ["stopping", "held"]
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_a_drop_that_breaks_leaves_the_request_held_for_what_it_was_held_for(life: Life) -> None:
    await held_by_failures(life)
    reason = (await life.state()).held_reason
    life.world.broken = {"drop_work"}
    await life.ask(drop(units=(3,)))
    await life.until_told("drop_work is broken")
    state = await life.state()
    assert (state.status, state.held_reason) == (RequestStatus.HELD, reason)
    await life.say(Action.RELEASE)
    assert (await life.end()).status is RequestStatus.COMPLETED


async def test_a_failed_request_leaves_a_list_of_what_it_registered(life: Life) -> None:
    await held_by_failures(life)
    await life.say(Action.FAIL)
    assert (await life.end()).status is RequestStatus.FAILED
    assert life.world.done.count("write_invalidation") == 1
    assert [action.action for action in life.world.audited] == ["fail"]


@pytest.mark.parametrize("running", [True, False], ids=["running", "held"])
async def test_a_restart_removes_the_dag_first_and_then_starts_the_next_version(
    life: Life, running: bool
) -> None:
    if running:
        life.world.rounds = [Need.ROUND]
        life.world.hang_in_follow = True
        await life.begin()
        await life.until(RequestStatus.ACTIVE)
    else:
        await held_by_failures(life)
    await life.say(Action.RESTART)
    state = await life.end()
    assert (state.status, state.superseded_by) == (RequestStatus.FAILED, f"{life.name}_v2")
    steps = [
        step for step in life.world.done if step in ("stop_dag", "close_round", "supersede", "start_clone")
    ]
    assert steps == (["stop_dag"] if running else []) + ["close_round", "supersede", "start_clone"]
    assert f"{life.name}_v2 replaces it" in state.logbook[-1]
    assert [action.action for action in life.world.audited] == ["restart"]


async def test_what_a_restart_says_of_the_outputs_is_recorded_with_it(life: Life) -> None:
    await held_by_failures(life)
    policy = CleanupPolicy.IMMEDIATE_CLEANUP
    await life.ask(RestartAction(actor="operator", action_id="again", cleanup_policy=policy))
    assert (await life.end()).superseded_by == f"{life.name}_v2"
    [told] = life.world.audited
    assert (told.action, told.detail) == ("restart", {"cleanup_policy": "immediate_cleanup"})


async def test_a_restart_that_is_refused_holds_the_request(life: Life) -> None:
    await held_by_failures(life)
    life.world.broken = {"supersede"}
    held = life.world.statuses.count("held")
    await life.say(Action.RESTART)
    await life.until_held_again(held)
    assert "supersede is broken" in (await life.state()).held_reason
    await life.say(Action.FAIL)
    assert (await life.end()).status is RequestStatus.FAILED
