"""`wms2 request stop | hold | priority | restart | fail | abort`: what a person asks of a request that lives."""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.screen import ask_first, say
from wms2.config import Settings, load_settings
from wms2.core.versions import next_version
from wms2.models.actions import Action
from wms2.models.messages import OperatorAction, PriorityAction, RestartAction
from wms2.models.request import CleanupPolicy, RequestRecord
from wms2.models.request_file import submitter

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the record.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Leave a signal and go; nobody tells if it does not fit.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]


@app.command()
def stop(name: Name, reason: Reason = "", no_wait: NoWait = False) -> None:
    """Stop a request's DAG cleanly; it queues again and goes on where it was.

    Example: [bold]wms2 request stop NAME --reason "downtime of the submit host"[/]
    """
    act(Action.STOP, name, reason, wait=not no_wait)


@app.command()
def hold(name: Name, reason: Reason = "") -> None:
    """Stop a request and keep it held until somebody releases it.

    Example: [bold]wms2 request hold NAME --reason "wrong conditions?"[/]
    """
    act(Action.HOLD, name, reason)


@app.command()
def priority(
    name: Name,
    number: Annotated[int, typer.Argument(metavar="N", min=0, max=10**9, help="A higher number goes first.")],
    reason: Reason = "",
) -> None:
    """Give a request another priority: in the queue, for the jobs that are there, and for all that follow.

    It takes the place of the request's own one and of those of its production steps.

    Example: [bold]wms2 request priority NAME 200000 --reason "needed for the conference"[/]
    """
    settings = load_settings()
    order = PriorityAction(priority=number, reason=reason, **who_asks())
    deliver(settings, recorded_request(settings, name), order)


@app.command()
def restart(
    name: Name,
    reason: Reason = "",
    cleanup_policy: Annotated[
        CleanupPolicy | None,
        typer.Option("--cleanup-policy", help="Of the outputs, instead of what the request says."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Give a request up and begin anew with the next version of it. What it made stays at least until that is complete.

    Its jobs are removed and it ends as failed. The new one is named after it, with the version, as its datasets are.

    Example: [bold]wms2 request restart NAME --reason "wrong conditions" --yes[/]
    """
    settings = load_settings()
    record = recorded_request(settings, name)
    order = RestartAction(reason=reason, cleanup_policy=cleanup_policy, **who_asks())
    waited(open_door(settings).check(record, order))
    clone = next_version(record.request).request_name
    ask_first(f"Give {name} up and begin anew as {clone}? This is final.", yes)
    deliver(settings, record, order)
    say(escape(f"{clone} starts when the DAG of {name} has left the queue."))


@app.command()
def fail(name: Name, reason: Reason = "", no_wait: NoWait = False, yes: Yes = False) -> None:
    """Give up a request that is held. This is final.

    What it registered is listed in a file for whoever takes it back; `wms2 request show` tells where that is.

    Example: [bold]wms2 request fail NAME --reason "the input is corrupt" --yes[/]
    """
    act(Action.FAIL, name, reason, wait=not no_wait, question=None if yes else f"Fail {name}? This is final.")


@app.command()
def abort(name: Name, reason: Reason = "", yes: Yes = False) -> None:
    """Cancel a request: its jobs are removed. This is final.

    Example: [bold]wms2 request abort NAME --reason "asked for by mistake" --yes[/]
    """
    question = f"Abort {name}? Its jobs are removed, and this is final."
    act(Action.ABORT, name, reason, question=None if yes else question)


def act(action: Action, name: str, reason: str, *, wait: bool = True, question: str | None = None) -> None:
    """Ask the request's workflow and tell its answer; a refusal is a UserError.

    Before it, a person is asked the question, if there is one; but only about a request that exists.
    """
    settings = load_settings()
    record = recorded_request(settings, name)
    if question:
        ask_first(question, yes=False)
    order = OperatorAction(action=action, reason=reason, **who_asks())
    deliver(settings, record, order, wait=wait)


def deliver(settings: Settings, record: RequestRecord, order: OperatorAction, *, wait: bool = True) -> None:
    """Ask, and tell the answer."""
    say(escape(asyncio.run(send(settings, record, order, wait=wait))))


def who_asks() -> dict[str, str]:
    """The actor of an action and an id of its own."""
    # In a container the user may have a number and no name.
    actor = submitter() or f"user {os.getuid()}"
    return {"actor": actor, "action_id": f"{actor}-{uuid.uuid4().hex}"}


async def send(settings: Settings, record: RequestRecord, order: OperatorAction, *, wait: bool = True) -> str:
    """The answer of the request's workflow; a refusal is a UserError."""
    return await open_door(settings).ask(record, order, wait=wait)


def recorded_request(settings: Settings, name: str) -> RequestRecord:
    return waited(open_door(settings).record(name))
