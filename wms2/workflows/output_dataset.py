"""The life of one output dataset: files are protected as they come, blocks close, and in the end it is announced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import Priority
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from wms2.models.messages import Alert, OutputAnnounced
    from wms2.models.output_state import OutputState, Setback
    from wms2.models.output_steps import OutputStuck, Placed, Protected, Registered
    from wms2.temporal.ids import request_id
    from wms2.temporal.retries import FINAL, OUTPUT, RECORD, TRANSFER, Preset
    from wms2.workflows.history import history_is_long

BACK_OFF = [timedelta(minutes=m) for m in (1, 5, 30, 2 * 60, 4 * 60, 8 * 60)]
"""How long to wait after the first failure, the second, and so on. After the last one a person is called."""
LOOK_AGAIN = timedelta(minutes=5)
"""Transfers take hours: Rucio is not asked more often."""
PROTECT, REGISTER, PLACE = "protect", "register", "place"
"""The steps. Each has its own setbacks: a service that is away stops only those that need it."""
URGENT, SOON, LATER = Priority(priority_key=1), Priority(priority_key=2), Priority(priority_key=4)
T = TypeVar("T")


class _Frozen(Exception):
    """No further step is begun."""


@workflow.defn
class OutputDatasetWorkflow:
    """Follows one dataset of a request, until it is announced or frozen."""

    @workflow.init
    def __init__(self, state: OutputState) -> None:
        self._state = state
        self._call: workflow.ActivityHandle[Any] | None = None

    @workflow.run
    async def run(self, _: OutputState) -> OutputAnnounced | None:
        """What was announced; None when it was frozen. It is started with an OutputOrder.

        Temporal's own cancel does not end it, as files would be left half-way: it is heard as a wish to try again.
        """
        life = asyncio.create_task(self._live())
        try:
            await workflow.wait_condition(life.done)
        except asyncio.CancelledError:
            if workflow.cancellation_reason() is None:
                raise
            self.retry()
            await workflow.wait_condition(life.done)
        return await life

    async def _live(self) -> OutputAnnounced | None:
        while not self._state.frozen:
            if history_is_long():
                workflow.continue_as_new(self._state)
            self._tell()
            await self._wait()
            announced = await self._work()
            if announced and not self._state.frozen:
                await self._report("output_announced", announced)
                return announced
        await self._report("output_frozen", self._state.dataset)
        return None

    @workflow.signal
    def news(self) -> None:
        """Work units were credited: the database knows which."""
        self._state.news = True

    @workflow.signal
    def finish(self) -> None:
        """No more will come: close the last blocks, and announce when all are where they should be."""
        self._state.news = self._state.finishing = True

    @workflow.signal
    def retry(self) -> None:
        """A person has mended what was broken, or wants to know whether it is."""
        self._state.retry = True
        for setback in self._state.setbacks.values():
            setback.failures, setback.again_at = 0, workflow.now()

    @workflow.signal
    def freeze(self) -> None:
        """Start nothing more, and say when nothing is under way."""
        self._state.frozen = True
        if self._call is not None:
            self._call.cancel()

    @workflow.query
    def state(self) -> OutputState:
        return self._state

    # Waiting --------------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Until there is something to do. A step that failed is tried again when its own time has come."""
        try:
            await workflow.wait_condition(
                self._is_wanted, timeout=self._patience(), timeout_summary="until it is time to look again"
            )
        except TimeoutError:
            return

    def _is_wanted(self) -> bool:
        state = self._state
        return state.frozen or state.retry or (state.news and PROTECT not in self._failing)

    @property
    def _failing(self) -> set[str]:
        """The steps that get nowhere at all, and wait for their time."""
        return {step for step, setback in self._state.setbacks.items() if not setback.partly}

    def _patience(self) -> timedelta | None:
        state = self._state
        times = [setback.again_at for setback in state.setbacks.values()]
        if state.close_at and not {PROTECT, REGISTER} & self._failing:
            times.append(state.close_at)
        if state.look_at and PLACE not in state.setbacks:
            times.append(state.look_at)
        return max(min(times) - workflow.now(), timedelta()) if times else None

    # Working --------------------------------------------------------------------------------------------

    async def _work(self) -> OutputAnnounced | None:
        """One look at everything."""
        state = self._state
        if state.frozen:
            return None
        # Taken together: news that come while files are protected are looked at once more.
        state.news = state.retry = False
        self._tell()
        try:
            return await self._get_on()
        except _Frozen:
            return None

    async def _get_on(self) -> OutputAnnounced | None:
        """Protect first: what is not protected can be lost. No step waits for another that fails."""
        state, finishing = self._state, self._state.finishing
        await self._try(PROTECT, self._protect)
        closing = state.blocks_due or finishing
        if closing or REGISTER in state.setbacks:
            await self._try(REGISTER, partial(self._register, finishing))
        is_time = state.look_at is not None and workflow.now() >= state.look_at
        if closing or is_time or PLACE in state.setbacks:
            return await self._try(PLACE, partial(self._look_where_they_are, finishing))
        return None

    async def _try(self, step: str, work: Callable[[], Awaitable[T]]) -> T | None:
        """A step whose time has come. Its failure is kept for people to read; after many of them one is called."""
        setback = self._state.setbacks.get(step)
        if setback and step in self._failing and workflow.now() < setback.again_at:
            return None
        try:
            done = await work()
        except ActivityError as error:
            if not self._state.frozen:
                await self._take_note_of(step, error)
            return None
        if setback is not None:
            await self._recover(step)
        return done

    async def _protect(self) -> None:
        try:
            done = await self._do("protect_outputs", Protected, "protect files at their sites", self._soon)
        except ActivityError as error:
            if (partly := _done_all_the_same(error)) is not None:
                self._take_over(partly)
            raise
        self._take_over(done)

    def _take_over(self, protected: Protected) -> None:
        state = self._state
        state.protected += protected.files
        state.blocks_due, state.close_at = protected.blocks_due, None
        if protected.next_due_sec is not None:
            state.close_at = workflow.now() + timedelta(seconds=max(protected.next_due_sec, 0))

    async def _register(self, finishing: bool) -> None:
        state = self._state
        registered = await self._do("register_blocks", Registered, "register blocks in DBS", self._soon)
        state.registered += registered.files
        state.blocks_due = False
        state.close_at = None if finishing else state.close_at

    async def _look_where_they_are(self, finishing: bool) -> OutputAnnounced | None:
        state = self._state
        placed = await self._do("place_blocks", Placed, "look where its blocks are", LATER, TRANSFER)
        state.waiting = placed.waiting
        await self._watch_the_trouble(placed)
        state.look_at = workflow.now() + LOOK_AGAIN if placed.waiting else None
        is_ready = finishing and placed.complete and not state.setbacks.keys() - {PLACE}
        if not is_ready or state.news or state.frozen:
            return None
        return await self._do("announce_output", OutputAnnounced, "announce the dataset", SOON)

    async def _watch_the_trouble(self, placed: Placed) -> None:
        """A transfer that does not get on for long is told to people once: it may never do so by itself."""
        state = self._state
        if placed.trouble:
            state.trouble, state.trouble_since = placed.trouble, state.trouble_since or workflow.now()
        elif not placed.left_alone:
            state.trouble, state.trouble_since, state.trouble_told = "", None, False
        if state.trouble_told or state.trouble_since is None:
            return
        if workflow.now() - state.trouble_since >= timedelta(hours=placed.patience_hours):
            message = f"{state.dataset} does not get where it should be: {state.trouble}"
            alert = Alert(request=state.request, kind="stuck_transfer", message=message)
            await workflow.execute_activity("raise_alert", alert, summary=alert.message[:200], **RECORD)
            state.trouble_told = True

    async def _do(
        self, activity: str, result: type[T], summary: str, priority: Priority, preset: Preset = OUTPUT
    ) -> T:
        if self._state.frozen:
            raise _Frozen
        self._call = workflow.start_activity(
            activity,
            self._state.order,
            result_type=result,
            summary=f"{summary}: {self._state.dataset}",
            priority=priority,
            # Frozen means that no call is in flight, so a cancelled one is waited for.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            **preset,
        )
        try:
            answer: T = await self._call
            return answer
        finally:
            self._call = None

    async def _take_note_of(self, step: str, error: ActivityError) -> None:
        """What trying again does not mend is a person's business at once, the rest when nothing has helped."""
        state, cause = self._state, error.cause
        before, partly = state.setbacks.get(step), _done_all_the_same(error) is not None
        failures, again_at = _next_try(before, partly)
        final = isinstance(cause, ApplicationError) and cause.type in FINAL
        is_stuck = final or failures > len(BACK_OFF)
        was_told = before is not None and before.told
        is_news = before is None or again_at != before.again_at or not was_told
        state.setbacks[step] = Setback(
            problem=cause.message if isinstance(cause, FailureError) else str(error),
            failures=failures,
            again_at=again_at,
            told=is_stuck or was_told,
            partly=partly,
        )
        self._sum_up()
        workflow.logger.warning("%s: %s", state.dataset, state.setbacks[step].problem)
        if is_stuck and is_news:
            await self._report("output_stuck", OutputStuck(dataset=state.dataset, problem=state.problem))

    async def _recover(self, step: str) -> None:
        """The request hears of it where it was told of the setback, and nothing else keeps a person busy."""
        state = self._state
        was_told = state.setbacks.pop(step).told
        self._sum_up()
        if was_told and not any(other.told for other in state.setbacks.values()):
            await self._report("output_recovered", state.dataset)

    def _sum_up(self) -> None:
        state, setbacks = self._state, self._state.setbacks.values()
        state.problem = "; ".join(dict.fromkeys(setback.problem for setback in setbacks))
        state.failures = max((setback.failures for setback in setbacks), default=0)

    @property
    def _soon(self) -> Priority:
        return URGENT if self._state.urgent else SOON

    # Telling --------------------------------------------------------------------------------------------

    async def _report(self, signal: str, content: OutputAnnounced | OutputStuck | str) -> None:
        """Tell the request. One that is gone needs no telling: the database knows as well."""
        if signal not in ("output_stuck", "output_recovered"):
            self._tell(signal.replace("output_", "").capitalize())
        request = workflow.get_external_workflow_handle(request_id(self._state.request))
        try:
            await request.signal(signal, content)
        except FailureError as error:
            workflow.logger.warning("%s could not be told of %s: %s", self._state.request, signal, error)

    def _tell(self, stage: str = "") -> None:
        state = self._state
        stage = stage or ("The last files before it is announced" if state.finishing else "Files come in")
        lines = [
            f"**{self._state.dataset}** of `{self._state.request}`",
            f"- {stage}",
            f"- {state.protected} files protected at their sites, {state.registered} registered in DBS",
        ]
        if state.waiting:
            lines.append(f"- {state.waiting} blocks are not yet where they should be")
        if state.trouble:
            lines.append(f"- Rucio: {state.trouble}")
        if state.problem:
            lines.append(f"- **Problem**, tried {state.failures} times: {state.problem}")
        workflow.set_current_details("\n".join(lines))


def _done_all_the_same(error: ActivityError) -> Protected | None:
    """What a step did for others before it failed for some; None where it failed for all."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.details:
        return Protected.model_validate(cause.details[0])
    return None


def _next_try(before: Setback | None, partly: bool) -> tuple[int, datetime]:
    """How often it was tried in vain by now, and when it is tried again.

    What was done before its time for the sake of others is no try. Another kind of failure begins anew.
    """
    now = workflow.now()
    same = before if before is not None and before.partly == partly else None
    if same is not None and partly and now < same.again_at:
        return same.failures, same.again_at
    failures = same.failures + 1 if same else 1
    return failures, now + BACK_OFF[min(failures, len(BACK_OFF)) - 1]
