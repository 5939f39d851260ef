"""Waiting for the end of a workflow for as long as it takes."""

from temporalio.client import (
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowHistoryEventAsyncIterator,
)


class Patience(Interceptor):
    """The server that skips time answers a question for the end with nothing when that does not come soon.

    The SDK takes that for an error ("No completion event found"). Here the question is asked again.
    """

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Asking(next)


class _Asking(OutboundInterceptor):
    def fetch_workflow_history_events(
        self, input: FetchWorkflowHistoryEventsInput
    ) -> WorkflowHistoryEventAsyncIterator:
        events = super().fetch_workflow_history_events(input)
        if not input.wait_new_event:
            return events
        fetch_page = events.fetch_next_page

        async def fetch_until_there_is_something(*, page_size: int | None = None) -> None:
            await fetch_page(page_size=page_size)
            while not events.current_page:
                await fetch_page(page_size=page_size)

        events.fetch_next_page = fetch_until_there_is_something  # type: ignore[method-assign]
        return events
