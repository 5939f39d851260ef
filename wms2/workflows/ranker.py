"""Takes a person's word on a request's priority, and keeps the jobs of its open round at what they are to have."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from wms2.core.rounds import round_priority
    from wms2.models.messages import PriorityAction, RankOrder
    from wms2.models.next_round import NextRound
    from wms2.temporal import attributes
    from wms2.temporal.queues import host_queue
    from wms2.temporal.retries import HOST
    from wms2.workflows.clerk import Clerk
    from wms2.workflows.desk import Desk

RANK_AGAIN = timedelta(minutes=10)


class Ranker(Clerk, Desk):
    """It interrupts nothing: whoever waits for a slot asks for it anew, and a round that runs is told."""

    next: NextRound | None

    @workflow.update(name="priority")
    async def priority_update(self, asked: PriorityAction) -> str:
        if self.remember(asked.action_id):
            self.state.priority, self.state.ranked_by_hand = asked.priority, True
            self.note_down(
                f"priority {asked.priority} by {asked.actor}" + (f": {asked.reason}" if asked.reason else "")
            )
            workflow.upsert_search_attributes([attributes.PRIORITY.value_set(asked.priority)])
            await self.audit(asked, {"priority": asked.priority}, "record_priority")
        return f"{self.state.request_name} has the priority {self.state.priority}"

    @priority_update.validator
    def check_priority(self, asked: PriorityAction) -> None:
        if self.asked is None or self.mistakes_in(asked):
            self.check(asked)

    @property
    def priority(self) -> int:
        """A person's word, else that of the part of the sample that is being made, else the request's own."""
        part = self.state.open_round or self.next
        if self.state.ranked_by_hand or part is None or part.priority is None:
            return self.state.priority
        return part.priority

    @property
    def wanted_rank(self) -> int | None:
        round_ = self.state.open_round
        return round_priority(self.priority, retried=round_.retried) if round_ else None

    async def keep_the_rank(self) -> None:
        """Beside the story, because it never waits for this: jobs of the wrong rank are jobs all the same."""
        while not self.state.status.is_final:
            await workflow.wait_condition(self.is_behind)
            try:
                await self.rank_the_round()
            except FailureError as error:
                await self.alert("rank", f"the jobs of its round keep their old priority: {error}")
                await workflow.sleep(RANK_AGAIN, summary="until the round is ranked again")

    def is_behind(self) -> bool:
        round_ = self.state.open_round
        return round_ is not None and not round_.host_lost and round_.rank != self.wanted_rank

    async def rank_the_round(self) -> None:
        round_, rank = self.state.open_round, self.wanted_rank
        if round_ is None or rank is None:
            return
        order = RankOrder(
            request=self.state.request_name, round=round_.number, folder=round_.folder, priority=rank
        )
        await self.call(
            "rank_round", order, queue=host_queue(round_.host), preset=HOST,
            summary=f"Give round {round_.number} the priority {rank}",
        )  # fmt: skip
        round_.rank = rank
