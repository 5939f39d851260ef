"""What a person changes, drops, undoes or replaces: the calls that make it so."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wms2.models.messages import DropAction, Dropped, ReleaseAction, RescueOrder, RestartAction
    from wms2.models.request_state import OpenRound
    from wms2.temporal.queues import host_queue
    from wms2.temporal.retries import HOST, RECORD
    from wms2.workflows.clerk import Clerk


class Remedies(Clerk):
    async def prepare_a_rescue(self, round_: OpenRound, asked: ReleaseAction) -> None:
        """Its folder must be intact; what was changed is in force for the run to come."""
        changes = asked.changes
        order = RescueOrder(
            folder=round_.folder, avoid_sites=changes.avoid_sites, memory_mb=changes.memory_mb
        )
        await self.call(
            "prepare_rescue", order, queue=host_queue(round_.host), preset=HOST,
            summary=f"Prepare the rescue of round {round_.number}",
        )  # fmt: skip
        round_.failure_rescues = round_.removals = 0
        round_.retried = True

    async def apply_the_changes(self, asked: ReleaseAction) -> None:
        """Files and sites in the record, together with who changed them; the rest in the state."""
        changes, state = asked.changes, self.state
        audited = asked.audited(state.request_name, rescue=asked.rescue, **changes.given)
        await self.call("apply_changes", audited, changes, preset=RECORD, summary=asked.words[:200])
        if changes.hold_threshold is not None:
            state.hold_threshold = changes.hold_threshold
        if changes.max_rescues is not None:
            state.max_rescues = changes.max_rescues
        if changes.memory_mb is not None:
            state.override = state.override.model_copy(update={"memory_mb": changes.memory_mb})
        if changes.attempts is not None:
            self.change_the_attempts(changes.attempts)

    def change_the_attempts(self, attempts: int) -> None:
        """Each round gets them as it gets rules, before it is submitted. What failed already is not judged anew."""
        state = self.state
        state.attempts, state.verdicts = attempts, state.verdicts + 1
        if state.open_round:
            state.open_round.verdicts_seen = state.verdicts

    async def drop_from_the_ledger(self, asked: DropAction) -> None:
        dropped: Dropped = await self.call(
            "drop_work", asked.audited(self.state.request_name), asked, result=Dropped, preset=RECORD,
            summary=asked.words[:200],
        )  # fmt: skip
        self.note_down(f"{asked.words}; {dropped.files} files, {dropped.events} events dropped")

    async def replace(self, asked: RestartAction) -> str:
        """The name of the request that goes on in this one's place. It is recorded first, then started."""
        clone: str = await self.call(
            "supersede",
            asked.audited(self.state.request_name, **asked.given),
            result=str,
            preset=RECORD,
            summary=asked.words[:200],
        )
        self.state.superseded_by = clone
        await self.call("start_clone", clone, preset=RECORD, summary=f"Start {clone}")
        return clone
