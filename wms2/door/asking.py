"""Asking a workflow to do something, and what its silence means."""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn, TypeVar

from temporalio.client import (
    Client,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.service import RPCError, RPCStatusCode

from wms2.core.lifecycle import objection
from wms2.errors import Contradiction, Silent
from wms2.models.actions import Action
from wms2.models.messages import AdmissionOrder, OperatorAction
from wms2.models.request import RequestRecord
from wms2.temporal.ids import request_id
from wms2.temporal.launch import revival

R = TypeVar("R")

ANSWER_TIMEOUT = timedelta(seconds=15)
NO_WORKER = "no worker answers; is one running? start it with `wms2 worker run`"
_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)


async def ask_workflow(
    client: Client,
    record: RequestRecord,
    order: OperatorAction,
    *,
    wait: bool = True,
    tells_where: bool = True,
) -> str:
    """The answer of the request's workflow; a refusal is a Contradiction."""
    name = record.request.request_name
    try:
        if wait:
            return await update_workflow(client, request_id(name), name, str(order.action), order, str)
        await client.get_workflow_handle(request_id(name)).signal(
            str(order.action), order, rpc_timeout=ANSWER_TIMEOUT
        )
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            explain_absence(record, order.action, client if tells_where else None)
        raise refusal(error, f"the {order.action} of {name}") from error
    return f"A signal to {order.action} {name} is sent; `wms2 request show {name}` tells what came of it."


async def update_workflow(
    client: Client,
    workflow_id: str,
    about: str,
    update: str,
    order: OperatorAction | AdmissionOrder,
    kind: type[R],
) -> R:
    """The workflow's own answer. The client gives up after a time limit: without a worker nobody answers."""
    handle = client.get_workflow_handle(workflow_id)
    try:
        asked = await handle.start_update(
            update,
            order,
            id=order.action_id,
            wait_for_stage=WorkflowUpdateStage.ACCEPTED,
            result_type=kind,
            rpc_timeout=ANSWER_TIMEOUT,
        )
        answer: R = await asked.result(rpc_timeout=ANSWER_TIMEOUT)
        return answer
    except WorkflowUpdateFailedError as error:
        text = getattr(error.cause, "message", None) or str(error.cause)
        raise Contradiction(f"{about}: {text}") from None
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        # The server keeps what it was asked: a worker that comes back may still do it.
        raise Silent(f"{NO_WORKER}, and look at {about} before you ask again") from None


def refusal(error: RPCError, what: str) -> Silent | Contradiction:
    """What Temporal's own no means."""
    if error.status in _AWAY:
        return Silent(
            f"Temporal does not answer to {what}; `wms2 status` shows the stack, `wms2 up` starts it"
        )
    if "no poller" in error.message:
        # Temporal knows that nobody has asked it for work lately, and does not let a question wait.
        return Silent(NO_WORKER)
    return Contradiction(f"Temporal refused {what}: {error.message}")


def explain_absence(record: RequestRecord, action: Action, client: Client | None) -> NoReturn:
    """There is no running workflow: the request has ended, was never started, or its workflow was terminated.

    Without the client nobody is told where Temporal is.
    """
    name = record.request.request_name
    if record.status.is_final:
        raise Contradiction(f"{name}: {objection(action, record.status)}")
    if record.status_sequence == 0:
        raise Contradiction(
            f"{name} is not started yet: submitted, it is started by a worker within four minutes; "
            "planned and run by hand, it is for `wms2 dag`"
        )
    raise Contradiction(
        f"the workflow of {name} was ended in Temporal while the request was {record.status}; {revival(name, client)}"
    )
