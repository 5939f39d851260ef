"""The desk where people's words arrive: handlers note them, the story takes them up at its next wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from wms2.core.lifecycle import objection
    from wms2.core.remedies import drop_mistakes, host_mistakes, judge_mistakes, release_mistakes
    from wms2.models.actions import Action
    from wms2.models.messages import (
        DropAction,
        HostLostAction,
        JudgeAction,
        OperatorAction,
        ReleaseAction,
        RestartAction,
    )
    from wms2.models.request_state import RequestState

R = TypeVar("R")

REMEMBERED_ACTIONS = 50


class Interrupted(Exception):
    """A person asked for something while the story was waiting."""

    def __init__(self, asked: OperatorAction) -> None:
        super().__init__(asked.action)
        self.asked = asked


class NeedsAPerson(Exception):
    """The story cannot go on by itself."""

    def __init__(self, reason: str, *, close_round: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.close_round = close_round


class Desk:
    """Takes the words of people for a request. One word at a time; a repeated one has no second effect."""

    state: RequestState
    asked: OperatorAction | None = None

    async def next_word(self) -> OperatorAction:
        """The next word that fits: one that came for an earlier status has been overtaken."""
        while True:
            await workflow.wait_condition(lambda: self.asked is not None)
            asked = self.take_the_word()
            if objection(asked.action, self.state.status) is None:
                return asked

    def take_the_word(self) -> OperatorAction:
        assert self.asked is not None
        asked, self.asked = self.asked, None
        return asked

    async def wait(self, reached: Callable[[], bool], limit: timedelta, summary: str) -> None:
        """Until it is reached, the time is over, or a person asks for something."""
        try:
            await workflow.wait_condition(
                lambda: reached() or self.asked is not None, timeout=limit, timeout_summary=summary
            )
        except TimeoutError:
            return
        if not reached() and self.asked:
            raise Interrupted(self.take_the_word())

    async def interruptible(self, work: Awaitable[R]) -> R:
        """The result of the work, unless a person asks for something before it is there."""
        task = asyncio.ensure_future(work)
        await workflow.wait_condition(lambda: task.done() or self.asked is not None)
        if task.done():
            return await task
        await break_off(task)
        raise Interrupted(self.take_the_word())

    async def unless_host_is_lost(self, work: Awaitable[R]) -> R:
        """The result of work on a submit host, unless a person says before that the host does not come back."""
        task = asyncio.ensure_future(work)
        try:
            await workflow.wait_condition(lambda: task.done() or isinstance(self.asked, HostLostAction))
        except asyncio.CancelledError:
            # The chapter that waits is broken off itself.
            await break_off(task)
            raise
        if task.done():
            return await task
        await break_off(task)
        raise Interrupted(self.take_the_word())

    def check(self, asked: OperatorAction) -> None:
        """Refuse what does not fit, before anything is recorded."""
        if asked.action_id in self.state.handled_actions:
            return
        mistakes = self.mistakes_in(asked)
        if self.asked is not None and not mistakes:
            mistakes = [f"{self.asked.action} was just asked for by {self.asked.actor}; wait for it"]
        if mistakes:
            raise ApplicationError("; ".join(mistakes), type="NotNow", non_retryable=True)

    def mistakes_in(self, asked: OperatorAction) -> list[str]:
        """Why it cannot be done, a sentence each."""
        if why := objection(asked.action, self.state.status):
            return [why]
        try:
            asked.audited(self.state.request_name)
        except ValidationError as error:
            return [f"the record cannot hold it: {error.errors()[0]['msg']}"]
        match asked:
            case ReleaseAction():
                return release_mistakes(asked, self.state)
            case DropAction():
                return drop_mistakes(asked)
            case JudgeAction():
                return judge_mistakes(asked, self.state)
            case HostLostAction():
                return host_mistakes(asked, self.state)
        return []

    def note(self, asked: OperatorAction) -> str:
        if self.remember(asked.action_id):
            self.asked = asked
        return f"{asked.action} of {self.state.request_name} is noted; it is {self.state.status} now"

    def remember(self, action_id: str) -> bool:
        """Whether it is new."""
        if action_id in self.state.handled_actions:
            return False
        self.state.handled_actions = (*self.state.handled_actions, action_id)[-REMEMBERED_ACTIONS:]
        return True

    def note_if_it_fits(self, asked: OperatorAction) -> None:
        """Signals have no answer: one that does not fit has no effect."""
        if self.asked is None and not self.mistakes_in(asked):
            self.note(asked)

    def hear_a_cancel(self) -> None:
        """Temporal's own cancel, from its Web UI or its command line: a stop, where one fits."""
        self.note_if_it_fits(
            OperatorAction(
                action=Action.STOP,
                actor="temporal",
                reason=workflow.cancellation_reason() or "cancelled in Temporal",
                action_id=f"cancel-{workflow.info().run_id}",
            )
        )

    @workflow.update
    async def release(self, asked: ReleaseAction) -> str:
        return self.note(asked)

    @release.validator
    def check_release(self, asked: ReleaseAction) -> None:
        self.check(asked)

    @workflow.update
    async def stop(self, asked: OperatorAction) -> str:
        return self.note(asked)

    @stop.validator
    def check_stop(self, asked: OperatorAction) -> None:
        self.check(asked)

    @workflow.update(name="hold")
    async def hold_update(self, asked: OperatorAction) -> str:
        return self.note(asked)

    @hold_update.validator
    def check_hold(self, asked: OperatorAction) -> None:
        self.check(asked)

    @workflow.update
    async def fail(self, asked: OperatorAction) -> str:
        return self.note(asked)

    @fail.validator
    def check_fail(self, asked: OperatorAction) -> None:
        self.check(asked)

    @workflow.update
    async def abort(self, asked: OperatorAction) -> str:
        return self.note(asked)

    @abort.validator
    def check_abort(self, asked: OperatorAction) -> None:
        self.check(asked)

    @workflow.update
    async def restart(self, asked: RestartAction) -> str:
        return self.note(asked)

    @restart.validator
    def check_restart(self, asked: RestartAction) -> None:
        self.check(asked)

    @workflow.update(name="drop")
    async def drop_update(self, asked: DropAction) -> str:
        return self.note(asked)

    @drop_update.validator
    def check_drop(self, asked: DropAction) -> None:
        self.check(asked)

    @workflow.update(name="host_lost")
    async def host_lost_update(self, asked: HostLostAction) -> str:
        return self.note(asked)

    @host_lost_update.validator
    def check_host_lost(self, asked: HostLostAction) -> None:
        self.check(asked)

    @workflow.signal(name="release")
    def release_signal(self, asked: ReleaseAction) -> None:
        self.note_if_it_fits(asked)

    @workflow.signal(name="stop")
    def stop_signal(self, asked: OperatorAction) -> None:
        self.note_if_it_fits(asked)

    @workflow.signal(name="fail")
    def fail_signal(self, asked: OperatorAction) -> None:
        self.note_if_it_fits(asked)


async def break_off(task: asyncio.Future[Any]) -> None:
    """End what nobody waits for any more, and see it ended."""
    task.cancel()
    outcome: object
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, BaseException) and not is_cancelled_exception(outcome):
        workflow.logger.warning("what was interrupted failed as well: %s", outcome)
