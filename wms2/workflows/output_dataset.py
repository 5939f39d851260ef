"""The life of one output dataset: its files are registered as they come, and in the end it is announced."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError

with workflow.unsafe.imports_passed_through():
    from wms2.models.messages import OutputAnnounced
    from wms2.models.output_state import OutputState
    from wms2.temporal.ids import request_id
    from wms2.temporal.retries import SERVICE

TRY_AGAIN = timedelta(hours=1)
T = TypeVar("T")


@workflow.defn
class OutputDatasetWorkflow:
    """Follows one dataset of a request, until it is announced or frozen."""

    @workflow.init
    def __init__(self, state: OutputState) -> None:
        self._state = state
        self._call: workflow.ActivityHandle[Any] | None = None

    @workflow.run
    async def run(self, _: OutputState) -> OutputAnnounced | None:
        """What was announced; None when it was frozen. It is started with an OutputOrder."""
        while not self._state.frozen:
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._state)
            self._tell()
            await self._wait_for_news()
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
        """No more will come: register what is there, and announce."""
        self._state.news = self._state.finishing = True

    @workflow.signal
    def freeze(self) -> None:
        """Start nothing more, and say when nothing is under way."""
        self._state.frozen = True
        if self._call is not None:
            self._call.cancel()

    @workflow.query
    def state(self) -> OutputState:
        return self._state

    async def _wait_for_news(self) -> None:
        """Until there is something to do; after a failure no longer than until it is time to try again."""
        try:
            await workflow.wait_condition(
                lambda: self._state.news or self._state.frozen,
                timeout=TRY_AGAIN if self._state.problem else None,
                timeout_summary="try again",
            )
        except TimeoutError:
            self._state.news = True

    async def _work(self) -> OutputAnnounced | None:
        """Register what is there and, if no more will come, announce. A failure is kept for people to read."""
        if self._state.frozen:
            return None
        # Taken together: news that come while files are registered are looked at in one more round.
        self._state.news = False
        finishing = self._state.finishing
        self._tell()
        try:
            self._state.registered += await self._do("register_outputs", int, "register files in DBS")
            self._state.problem = ""
            if finishing and not self._state.news and not self._state.frozen:
                return await self._do("announce_output", OutputAnnounced, "announce the dataset")
        except ActivityError as error:
            if not self._state.frozen:
                cause = error.cause
                self._state.problem = cause.message if isinstance(cause, FailureError) else str(error)
                workflow.logger.warning("%s: %s", self._state.dataset, self._state.problem)
        return None

    async def _do(self, activity: str, result: type[T], summary: str) -> T:
        self._call = workflow.start_activity(
            activity,
            self._state.order,
            result_type=result,
            summary=f"{summary}: {self._state.dataset}",
            # Frozen means that no call is in flight, so a cancelled one is waited for.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            **SERVICE,
        )
        try:
            answer: T = await self._call
            return answer
        finally:
            self._call = None

    async def _report(self, signal: str, content: OutputAnnounced | str) -> None:
        """Tell the request. One that is gone needs no telling: the database knows as well."""
        self._tell(signal.replace("output_", "").capitalize())
        request = workflow.get_external_workflow_handle(request_id(self._state.request))
        try:
            await request.signal(signal, content)
        except FailureError as error:
            workflow.logger.warning("%s could not be told of %s: %s", self._state.request, signal, error)

    def _tell(self, stage: str = "") -> None:
        state = self._state
        stage = stage or ("Last files before it is announced" if state.finishing else "Files come in")
        lines = [
            f"**{self._state.dataset}** of `{self._state.request}`",
            f"- {stage}",
            f"- {state.registered} files registered",
        ]
        if state.problem:
            lines.append(f"- **Problem**, tried again within an hour or with the next news: {state.problem}")
        workflow.set_current_details("\n".join(lines))
