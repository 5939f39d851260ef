"""The watch over a request: no status lasts longer than it may without something being done about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from wms2.core import time_limits
    from wms2.core.time_limits import TIME_LIMITS, Overrun, Step, needs_a_look, step_for
    from wms2.models.messages import SubmittedDag, TimeLimits
    from wms2.models.progress import Sighting
    from wms2.models.request import RequestStatus
    from wms2.temporal.queues import host_queue
    from wms2.temporal.retries import LOOK, RECORD
    from wms2.workflows.desk import NeedsAPerson, break_off
    from wms2.workflows.publisher import Publisher


class Watch(Publisher):
    limits = TimeLimits()
    overdue: tuple[int, str] | None = None
    """The status, by its number, that what the story is at has kept for too long, and why that needs a person."""
    undisturbed = False

    async def keep_watch(self) -> None:
        """Beside the story. Whatever stays beyond its limit is told again each time as long has passed once more."""
        self.limits = await self.call(
            "time_limits", result=TimeLimits, preset=RECORD, summary="How long may a status last?"
        )
        while not self.state.status.is_final:
            number, status = self.state.sequence, self.state.status
            try:
                await workflow.wait_condition(
                    lambda number=number: self.state.sequence != number,  # type: ignore[misc]
                    timeout=self.time_left(),
                    timeout_summary=f"until {status} has lasted too long",
                )
            except TimeoutError:
                self.state.alerted_at = workflow.now()
                await self.see_to_it(number)

    def limit(self, status: RequestStatus) -> timedelta:
        return self.limits.limits.get(status, TIME_LIMITS[status])

    def time_left(self) -> timedelta:
        """Until the status has lasted beyond its limit, or beyond it once more since the last alert."""
        end = max(self.since, self.state.alerted_at or self.since) + self.limit(self.state.status)
        return max(end - workflow.now(), timedelta())

    async def see_to_it(self, number: int) -> None:
        """Do what the table says about the status with this number; the watch goes on whatever comes of it."""
        try:
            overrun = await self.overrun()
            step = step_for(overrun)
            if step.hold and overrun.sighting and await self.is_told_after_all(number, overrun.dag_id):
                return
            if self.state.sequence == number:
                await self.take(step)
        except ActivityError as error:
            workflow.logger.error("%s is overdue, and that could not be told: %s", self.state.status, error)

    async def take(self, step: Step) -> None:
        """Held first: people are told of it in any case, and telling them may take long."""
        if step.hold:
            self.overdue = (self.state.sequence, step.words)
        await self.alert(step.alert, step.words)

    async def overrun(self) -> Overrun:
        """What is known of a request whose status has passed its limit; for that, its DAG is looked for."""
        status, since, dag = self.state.status, self.since, self.dag
        host = self.state.open_round.host if self.state.open_round else ""
        if dag is None or not needs_a_look(status):
            return Overrun(status=status, since=since, host=host, waits_for=self.what_is_missing())
        sighting = await self.look_for(dag, host)
        return Overrun(status=status, since=since, host=host, dag_id=dag.order.dag_id, sighting=sighting)

    async def look_for(self, dag: SubmittedDag, host: str) -> Sighting:
        try:
            seen: Sighting = await self.call(
                "look_for_dag", dag, result=Sighting, queue=host_queue(host), preset=LOOK,
                summary=f"Is {dag.order.dag_id} still there?",
            )  # fmt: skip
        except ActivityError as error:
            workflow.logger.warning("nobody looked for %s: %s", dag.order.dag_id, error)
            return Sighting.NO_WORKER
        return seen

    async def is_told_after_all(self, number: int, dag_id: str) -> bool:
        """Whether the follower of a DAG that is gone says how it ended: it may just have been about to."""

        def goes_on() -> bool:
            return self.state.sequence != number or self.dag is None or self.dag.order.dag_id != dag_id

        try:
            await workflow.wait_condition(
                goes_on, timeout=time_limits.LAST_WORD, timeout_summary=f"until {dag_id} counts as lost"
            )
        except TimeoutError:
            return False
        return True

    async def unless_overdue(self, chapter: Awaitable[None]) -> None:
        """A chapter of the story. One that keeps a status for too long is broken off: a person is needed."""
        task = asyncio.ensure_future(chapter)
        await workflow.wait_condition(lambda: task.done() or (self.is_overdue() and not self.undisturbed))
        if task.done():
            return await task
        assert self.overdue is not None
        (_, reason), self.overdue = self.overdue, None
        await break_off(task)
        raise NeedsAPerson(reason)

    def is_overdue(self) -> bool:
        return self.overdue is not None and self.overdue[0] == self.state.sequence

    @contextmanager
    def to_its_end(self) -> Iterator[None]:
        """What is done here is never broken off, however long it takes."""
        self.undisturbed = True
        try:
            yield
        finally:
            self.undisturbed = False

    @property
    def since(self) -> datetime:
        return self.state.status_since or workflow.now()

    @property
    def dag(self) -> SubmittedDag | None:
        return self.state.open_round.dag if self.state.open_round else None

    def what_is_missing(self) -> str:
        """In words, where that is not known from the status."""
        state = self.state
        if state.status is RequestStatus.NEW:
            return state.waits_for
        if state.status is RequestStatus.QUEUED and state.prefetch and not state.input_is_there:
            return f"its input: {state.input_progress or 'not looked at yet'}"
        if state.status is RequestStatus.QUEUED and state.open_round and not state.slot_host:
            return f"a slot on {state.open_round.host}, where its round is planned"
        if state.status is RequestStatus.ACTIVE and state.open_round is None:
            return ", ".join(sorted(set(state.datasets) - set(state.announced))) + " to be announced"
        return ""
