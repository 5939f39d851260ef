"""A request that is kept back: until a person releases it, or until another request has made its input."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wms2.models.request import RequestStatus
    from wms2.workflows.clerk import Clerk
    from wms2.workflows.desk import Desk

KEPT_BACK = "kept back until it is released"


class Reader(Clerk, Desk):
    """What it waits for may change: the request that makes its input is held, fails, or is replaced."""

    @workflow.signal
    def waits_for(self, words: str) -> None:
        if self.state.status is RequestStatus.NEW:
            self.state.waits_for = words

    async def tell_what_it_waits_for(self) -> None:
        """Until a person, or its input, has something to say."""
        told = None if self.state.status_since is None else self.state.waits_for
        while self.asked is None:
            if self.state.waits_for != told:
                told = self.state.waits_for
                await self.enter(RequestStatus.NEW, told or KEPT_BACK)
            await workflow.wait_condition(
                lambda told=told: self.asked is not None or self.state.waits_for != told  # type: ignore[misc]
            )
