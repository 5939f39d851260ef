"""The desk where people's words arrive: handlers note them, the story takes them up at its next wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from wms2.core.lifecycle import objection
    from wms2.models.actions import Action
    from wms2.models.messages import OperatorAction
    from wms2.models.request_state import RequestState

R = TypeVar("R")

REMEMBERED_ACTIONS = 50


class Interrupted(Exception):
    """A person asked for something while the story was waiting."""

    def __init__(self, asked: OperatorAction) -> None:
        super().__init__(asked.action)
        self.asked = asked


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
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(outcome, BaseException) and not is_cancelled_exception(outcome):
            workflow.logger.warning("what was interrupted failed as well: %s", outcome)
        raise Interrupted(self.take_the_word())

    def check(self, asked: OperatorAction) -> None:
        """Refuse what does not fit, before anything is recorded."""
        if asked.action_id in self.state.handled_actions:
            return
        if why := objection(asked.action, self.state.status):
            raise ApplicationError(why, type="NotNow", non_retryable=True)
        if self.asked is not None:
            raise ApplicationError(
                f"{self.asked.action} was just asked for by {self.asked.actor}; wait for it", type="NotNow",
                non_retryable=True,
            )  # fmt: skip

    def note(self, asked: OperatorAction) -> str:
        if asked.action_id not in self.state.handled_actions:
            self.asked = asked
            self.state.handled_actions = (*self.state.handled_actions, asked.action_id)[-REMEMBERED_ACTIONS:]
        return f"{asked.action} of {self.state.request_name} is noted; it is {self.state.status} now"

    def note_if_it_fits(self, asked: OperatorAction) -> None:
        """Signals have no answer: one that does not fit has no effect."""
        if self.asked is None and objection(asked.action, self.state.status) is None:
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
    async def release(self, asked: OperatorAction) -> str:
        return self.note(asked)

    @release.validator
    def check_release(self, asked: OperatorAction) -> None:
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

    @workflow.signal(name="release")
    def release_signal(self, asked: OperatorAction) -> None:
        self.note_if_it_fits(asked)

    @workflow.signal(name="stop")
    def stop_signal(self, asked: OperatorAction) -> None:
        self.note_if_it_fits(asked)

    @workflow.signal(name="fail")
    def fail_signal(self, asked: OperatorAction) -> None:
        self.note_if_it_fits(asked)
