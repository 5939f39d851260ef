"""What keeps an output dataset from getting on, or from being taken back: what its workflows and Temporal know."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta
from typing import TypeVar

from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from wms2.models.output_list import ListedOutput, OutputProblem
from wms2.models.output_state import OutputState
from wms2.models.undo import UndoState
from wms2.temporal.ids import output_id, undo_id

ANSWER_TIMEOUT = timedelta(seconds=3)
STEPS = {
    "protect_outputs": "protect",
    "register_blocks": "register",
    "place_blocks": "place",
    "announce_output": "announce",
    "undo_outputs": "undo",
}
"""The steps by the activities that do them."""

Handle = WorkflowHandle[object, object]
State = TypeVar("State", OutputState, UndoState)


async def problems_of(client: Client, output: ListedOutput) -> list[OutputProblem] | None:
    """Why it does not get on; None where no worker answers. What has ended has no problems."""
    name, dataset = output.request, output.dataset
    undos = [client.get_workflow_handle(undo_id(name, which)) for which in (None, dataset)]
    try:
        found = await asyncio.gather(
            _of_output(client.get_workflow_handle(output_id(name, dataset))), *map(_of_undo, undos)
        )
    except (RPCError, WorkflowQueryFailedError):
        return None
    return [problem for problems in found for problem in problems]


async def _of_output(handle: Handle) -> list[OutputProblem]:
    if (trying := await _trying(handle)) is None:
        return []
    state = await _state(handle, OutputState)
    found = {
        step: OutputProblem(
            step=step, problem=setback.problem, failures=setback.failures, again_at=setback.again_at
        )
        for step, setback in state.setbacks.items()
    }
    if state.trouble:
        found["transfer"] = OutputProblem(step="transfer", problem=state.trouble, since=state.trouble_since)
    return _with(found, trying)


async def _of_undo(handle: Handle) -> list[OutputProblem]:
    if (trying := await _trying(handle)) is None:
        return []
    state = await _state(handle, UndoState)
    told = OutputProblem(step="undo", problem=state.problem, failures=state.failures, again_at=state.again_at)
    return _with({"undo": told} if state.problem else {}, trying)


def _with(found: dict[str, OutputProblem], trying: list[OutputProblem]) -> list[OutputProblem]:
    """What was last heard of a step counts; how often it failed before, its workflow knows."""
    for newer in trying:
        before = found.get(newer.step)
        found[newer.step] = newer.model_copy(update={"failures": before.failures}) if before else newer
    return list(found.values())


async def _trying(handle: Handle) -> list[OutputProblem] | None:
    """The steps that are under way and have failed before; None where the workflow has ended or never was.

    A service may want to be left alone for an hour, and the workflow hears of it when all tries were in vain.
    """
    try:
        seen = await handle.describe(rpc_timeout=ANSWER_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    if seen.status is not WorkflowExecutionStatus.RUNNING:
        return None
    pending = seen.raw_description.pending_activities
    return [
        _tried(one) for one in pending if one.HasField("last_failure") and one.activity_type.name in STEPS
    ]


def _tried(activity: PendingActivityInfo) -> OutputProblem:
    waits = activity.HasField("next_attempt_schedule_time")
    return OutputProblem(
        step=STEPS[activity.activity_type.name],
        problem=activity.last_failure.message,
        failures=activity.attempt - 1,
        again_at=activity.next_attempt_schedule_time.ToDatetime(UTC) if waits else None,
    )


async def _state(handle: Handle, kind: type[State]) -> State:
    state: State = await handle.query("state", result_type=kind, rpc_timeout=ANSWER_TIMEOUT)
    return state
