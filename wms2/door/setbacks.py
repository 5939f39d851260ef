"""What keeps an output dataset from getting on, or from being taken back, as its workflows know it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from wms2.models.output_list import ListedOutput, OutputProblem
from wms2.models.output_state import OutputState
from wms2.models.undo import UndoState
from wms2.temporal.ids import output_id, undo_id

ANSWER_TIMEOUT = timedelta(seconds=3)

State = TypeVar("State")


async def problems_of(client: Client, output: ListedOutput) -> list[OutputProblem] | None:
    """Why it does not get on; None where no worker answers. What has ended has no problems."""
    name, dataset = output.request, output.dataset
    try:
        followed, *undone = await asyncio.gather(
            _state(client, output_id(name, dataset), OutputState),
            *(_state(client, undo_id(name, which), UndoState) for which in (None, dataset)),
        )
    except (RPCError, WorkflowQueryFailedError):
        return None
    found = _of_output(followed) if isinstance(followed, OutputState) else []
    return found + [_of_undo(state) for state in undone if isinstance(state, UndoState) and state.problem]


async def _state(client: Client, workflow_id: str, kind: type[State]) -> State | None:
    """What a workflow knows; None where it has ended or never was."""
    try:
        state: State = await client.get_workflow_handle(workflow_id).query(
            "state",
            result_type=kind,
            reject_condition=QueryRejectCondition.NOT_OPEN,
            rpc_timeout=ANSWER_TIMEOUT,
        )
    except WorkflowQueryRejectedError:
        return None
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return state


def _of_output(state: OutputState) -> list[OutputProblem]:
    found = [
        OutputProblem(
            step=step, problem=setback.problem, failures=setback.failures, again_at=setback.again_at
        )
        for step, setback in state.setbacks.items()
    ]
    if state.trouble:
        found.append(OutputProblem(step="transfer", problem=state.trouble, since=state.trouble_since))
    return found


def _of_undo(state: UndoState) -> OutputProblem:
    return OutputProblem(step="undo", problem=state.problem, failures=state.failures, again_at=state.again_at)
