"""Takes people's verdicts on failures that no rule knows: they become rules of the request, for all its rounds."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from wms2.core.remedies import with_rule
    from wms2.models.messages import DagObservation, JudgeAction, RulesOrder
    from wms2.models.request import RequestStatus
    from wms2.temporal.queues import host_queue
    from wms2.temporal.retries import HOST
    from wms2.workflows.clerk import Clerk
    from wms2.workflows.desk import Desk

WRITE_AGAIN = timedelta(minutes=10)


class Judge(Clerk, Desk):
    """A verdict interrupts nothing. Where a request is held over failures, they are looked at again with it."""

    rules_in_order: asyncio.Lock
    reviewed: DagObservation | None = None
    """The failures that a request is held over, as the newest verdicts have them."""

    @workflow.update(name="judge")
    async def judge_update(self, asked: JudgeAction) -> str:
        if self.remember(asked.action_id):
            self.state.rules = with_rule(self.state.rules, asked.rule)
            self.state.verdicts += 1
            self.note_down(asked.words)
            await self.audit(asked, {"rule": asked.rule.model_dump(mode="json", exclude_defaults=True)})
        return f"{asked.rule.name} is a rule of {self.state.request_name} now, in its open round and in all to come"

    @judge_update.validator
    def check_judge(self, asked: JudgeAction) -> None:
        if self.asked is None or self.mistakes_in(asked):
            self.check(asked)

    async def keep_the_rules(self) -> None:
        """Beside the story, because a submit host that is away must not keep people waiting for an answer."""
        while not self.state.status.is_final:
            await workflow.wait_condition(lambda: self.is_unwritten() or self.is_unreviewed())
            try:
                await self.write_the_rules()
                await self.review_the_failures()
            except FailureError as error:
                await self.alert("rules", f"its round does not have its newest rules: {error}")
                await workflow.sleep(WRITE_AGAIN, summary="until the rules are written again")

    def is_unwritten(self) -> bool:
        round_ = self.state.open_round
        return round_ is not None and not round_.host_lost and round_.verdicts_written < self.state.verdicts

    async def write_the_rules(self) -> None:
        """Into the policy of the open round. Whoever submits it waits for this."""
        async with self.rules_in_order:
            round_, verdicts = self.state.open_round, self.state.verdicts
            if round_ is None or not self.is_unwritten():
                return
            await self.call(
                "apply_rules",
                RulesOrder(folder=round_.folder, rules=self.state.rules, attempts=self.state.attempts),
                queue=host_queue(round_.host), preset=HOST, summary=f"Give round {round_.number} its newest rules",
            )  # fmt: skip
            round_.verdicts_written = verdicts

    def is_unreviewed(self) -> bool:
        """Whether the request is held over failures that were looked at before the newest verdict."""
        round_ = self.state.open_round
        return (
            self.state.status is RequestStatus.HELD
            and round_ is not None
            and round_.failed_dag is not None
            and round_.verdicts_seen < round_.verdicts_written
        )

    async def review_the_failures(self) -> None:
        round_ = self.state.open_round
        if round_ is None or round_.failed_dag is None or not self.is_unreviewed():
            return
        verdicts = round_.verdicts_written
        seen = await self.call(
            "review_dag", round_.failed_dag, result=DagObservation, queue=host_queue(round_.host), preset=HOST,
            summary=f"Look at the failures of round {round_.number} again",
        )  # fmt: skip
        # Meanwhile a person may have released it, or given it up.
        if self.is_unreviewed():
            round_.verdicts_seen, self.reviewed = verdicts, seen
