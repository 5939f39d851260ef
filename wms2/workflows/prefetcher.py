"""Has the input of a request brought to where the request wants it, and lets it go at the end."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from wms2.models.input_rule import FetchedInput
    from wms2.models.request import RequestStatus
    from wms2.temporal.retries import OUTPUT, SERVICE
    from wms2.workflows.clerk import Clerk

LOOK_AGAIN = timedelta(minutes=5)


class Prefetcher(Clerk):
    fetched: FetchedInput | None = None
    """The last look."""

    async def input_is_there(self) -> bool:
        """Where nobody asked for it to be elsewhere it is; else Rucio is asked to bring it, and how far it is."""
        state = self.state
        if not state.prefetch or state.input_is_there:
            return True
        if state.status is not RequestStatus.QUEUED:
            await self.enter(RequestStatus.QUEUED, f"its input is fetched to {state.prefetch}")
        seen: FetchedInput = await self.call(
            "fetch_input", state.request_name, result=FetchedInput, preset=SERVICE,
            summary=f"Is the input at {state.prefetch}?",
        )  # fmt: skip
        self.fetched = seen
        state.input_is_there, state.input_progress = seen.progress.is_there, str(seen.progress)
        if state.input_is_there:
            self.note_down(f"its input is there: {state.input_progress}")
        self.describe()
        return state.input_is_there

    def input_trouble(self) -> str:
        """Why a person is needed for the input: Rucio has been stuck with it for too long. Empty when none is."""
        state, seen = self.state, self.fetched
        if seen is None or not seen.progress.problem:
            state.input_stuck_since = None
            return ""
        state.input_stuck_since = state.input_stuck_since or workflow.now()
        if workflow.now() - state.input_stuck_since < timedelta(hours=seen.patience_hours):
            return ""
        # Whoever releases it gives it this time once more.
        state.input_stuck_since = None
        return f"its input does not come to {state.prefetch}: {seen.progress.problem}"

    async def let_the_input_go(self) -> None:
        """However the request ended. Where Rucio is away, reconciliation does it later."""
        if not self.state.prefetch:
            return
        try:
            await self.call(
                "release_input", self.state.request_name, preset=OUTPUT, summary="Let the input go"
            )
        except ActivityError as error:
            workflow.logger.warning("the input of %s is let go later: %s", self.state.request_name, error)
