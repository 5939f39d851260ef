"""`wms2 request release | stop | hold | fail | abort`: what a person asks of a request that lives."""

from __future__ import annotations

import asyncio
import getpass
import uuid
from datetime import timedelta
from typing import Annotated, NoReturn

import typer
from rich.markup import escape
from temporalio.client import (
    Client,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.service import RPCError, RPCStatusCode

from wms2.cli.by_hand import connect_database
from wms2.cli.screen import say
from wms2.config import Settings, load_settings
from wms2.core.lifecycle import objection
from wms2.db.requests import request_record
from wms2.db.session import transaction
from wms2.errors import UserError
from wms2.models.actions import Action
from wms2.models.messages import OperatorAction
from wms2.models.request import RequestRecord
from wms2.temporal.client import connect
from wms2.temporal.ids import request_id

ANSWER_TIMEOUT = timedelta(seconds=15)
NO_WORKER = "no worker answers; is one running? start it with `wms2 worker run`"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the record.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Leave a signal and go; nobody tells if it does not fit.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to `wms2 request`."""
    for verb in (release, stop, hold, fail, abort):
        app.command()(verb)


def release(name: Name, reason: Reason = "", no_wait: NoWait = False) -> None:
    """Let a request go on that is held, or that was submitted with --hold.

    Examples: [bold]wms2 request release NAME[/]   [bold]wms2 request release NAME --reason "site is back"[/]
    """
    act(Action.RELEASE, name, reason, wait=not no_wait)


def stop(name: Name, reason: Reason = "", no_wait: NoWait = False) -> None:
    """Stop a request's DAG cleanly; it queues again and goes on where it was.

    Example: [bold]wms2 request stop NAME --reason "downtime of the submit host"[/]
    """
    act(Action.STOP, name, reason, wait=not no_wait)


def hold(name: Name, reason: Reason = "") -> None:
    """Stop a request and keep it held until somebody releases it.

    Example: [bold]wms2 request hold NAME --reason "wrong conditions?"[/]
    """
    act(Action.HOLD, name, reason)


def fail(name: Name, reason: Reason = "", no_wait: NoWait = False, yes: Yes = False) -> None:
    """Give up a request that is held. This is final.

    Example: [bold]wms2 request fail NAME --reason "the input is corrupt" --yes[/]
    """
    _ask(f"Fail {name}? This is final.", yes)
    act(Action.FAIL, name, reason, wait=not no_wait)


def abort(name: Name, reason: Reason = "", yes: Yes = False) -> None:
    """Cancel a request: its jobs are removed. This is final.

    Example: [bold]wms2 request abort NAME --reason "asked for by mistake" --yes[/]
    """
    _ask(f"Abort {name}? Its jobs are removed, and this is final.", yes)
    act(Action.ABORT, name, reason)


def act(action: Action, name: str, reason: str, *, wait: bool = True) -> None:
    """Ask the request's workflow and tell its answer; a refusal is a UserError."""
    settings = load_settings()
    record = _record(settings, name)
    actor = getpass.getuser()
    order = OperatorAction(action=action, actor=actor, reason=reason, action_id=f"{actor}-{uuid.uuid4().hex}")
    say(escape(asyncio.run(_send(settings, record, order, wait=wait))))


async def _send(settings: Settings, record: RequestRecord, order: OperatorAction, *, wait: bool) -> str:
    client = await connect(settings)
    name = record.request.request_name
    try:
        if wait:
            return await _update(client, name, order)
        await client.get_workflow_handle(request_id(name)).signal(str(order.action), order)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            _explain_absence(record, order.action)
        raise UserError(f"Temporal refused the {order.action} of {name}: {error.message}") from error
    return f"A signal to {order.action} {name} is sent; `wms2 request show {name}` tells what came of it."


async def _update(client: Client, name: str, order: OperatorAction) -> str:
    """The workflow's own sentence. The client gives up after a time limit: without a worker nobody answers."""
    handle = client.get_workflow_handle(request_id(name))
    try:
        update = await handle.start_update(
            str(order.action),
            order,
            id=order.action_id,
            wait_for_stage=WorkflowUpdateStage.ACCEPTED,
            result_type=str,
            rpc_timeout=ANSWER_TIMEOUT,
        )
        answer: str = await update.result(rpc_timeout=ANSWER_TIMEOUT)
        return answer
    except WorkflowUpdateFailedError as error:
        text = getattr(error.cause, "message", None) or str(error.cause)
        raise UserError(f"{name}: {text}") from None
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        # The server keeps what it was asked: a worker that comes back may still do it.
        raise UserError(f"{NO_WORKER}, and look at {name} before you ask again") from None


def _explain_absence(record: RequestRecord, action: Action) -> NoReturn:
    """There is no running workflow: the request has ended, was never started, or its workflow was terminated."""
    name = record.request.request_name
    if record.status.is_final:
        raise UserError(f"{name}: {objection(action, record.status)}")
    if record.status_sequence == 0:
        raise UserError(f"{name} is not started yet; a worker starts it within ten minutes, then ask again")
    raise UserError(
        f"the workflow of {name} was ended in Temporal while the request was {record.status}; "
        f"`temporal workflow reset --type LastWorkflowTask --workflow-id {request_id(name)}` revives it"
    )


def _record(settings: Settings, name: str) -> RequestRecord:
    with transaction(connect_database(settings)) as session:
        return request_record(session, name)


def _ask(question: str, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True, err=True)
