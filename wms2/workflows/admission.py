"""Admission: one workflow for the whole system lends the slots that active rounds need."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from wms2.core import admission
    from wms2.core.admission import AdmissionState
    from wms2.models.messages import AdmissionOrder, HostList, Slot, SlotRequest
    from wms2.temporal.ids import request_id
    from wms2.temporal.retries import RECORD
    from wms2.workflows.history import history_is_long

BETWEEN_LOOKS = timedelta(hours=1)
NAMES_IN_A_CALL = 500
RECORDED_FIRST = "slots-are-recorded-before-they-are-told"
SIGNALS_AT_ONCE = 500
"""The server refuses a workflow task that leaves 2,000 signals pending."""


@workflow.defn
class AdmissionWorkflow:
    """Lives for ever. Handlers note what came in; the loop lends."""

    @workflow.init
    def __init__(self, state: AdmissionState) -> None:
        self._state = state
        self._settled: AdmissionState | None = None
        """The state when all that was due in it had been lent and told."""
        self._words_in_order = asyncio.Lock()

    @workflow.run
    async def run(self, _state: AdmissionState) -> None:
        """Lend slots, and look every hour for requests that ended without giving theirs back."""
        await asyncio.gather(self._lend_slots(), self._look_for_the_gone())

    @workflow.signal
    def ask(self, asked: SlotRequest) -> None:
        self._state = admission.ask(self._state, asked)

    @workflow.signal
    def give_back(self, returned: SlotRequest) -> None:
        self._state = admission.give_back(self._state, returned)

    @workflow.signal
    def forget(self, gone: list[str]) -> None:
        self._state = admission.forget(self._state, gone)

    @workflow.signal
    def remember(self, slots: list[Slot]) -> None:
        self._state = admission.remember(self._state, slots)

    @workflow.signal
    def know_hosts(self, listed: HostList) -> None:
        self._state = admission.know_hosts(self._state, listed)

    @workflow.update
    async def change(self, asked: AdmissionOrder) -> AdmissionState:
        """In force at once; the answer, which is the state after it, waits until it is recorded."""
        self._state = changed = admission.change(self._state, asked)
        # The record keeps the last word, so they reach it one after the other.
        async with self._words_in_order:
            await workflow.execute_activity(
                "record_action",
                asked.audited(),
                summary=f"admission {asked.action} by {asked.actor}"[:200],
                **RECORD,
            )
        return changed

    @change.validator
    def check_change(self, asked: AdmissionOrder) -> None:
        if mistakes := admission.mistakes(self._state, asked):
            raise ApplicationError("; ".join(mistakes), type="NotNow", non_retryable=True)

    @workflow.query
    def state(self) -> AdmissionState:
        return self._state

    async def _lend_slots(self) -> None:
        while True:
            await workflow.wait_condition(lambda: self._state is not self._settled or _begins_anew())
            self._state = lent = admission.lend(self._state)
            slots = now = admission.untold(lent)[:SIGNALS_AT_ONCE]
            if slots and workflow.patched(RECORDED_FIRST):
                now = await self._recorded(slots)
            # What came in while they were recorded may have made more of them due.
            settled = self._state is lent and now == admission.untold(lent)
            self._state = admission.told(self._state, now)
            self._settled = self._state if settled else None
            await asyncio.gather(*(self._tell(slot) for slot in now))
            workflow.set_current_details(admission.as_markdown(self._state))
            if _begins_anew():
                # A signal that comes in now makes the server hand the task back, and it is read first.
                workflow.continue_as_new(self._state)

    async def _recorded(self, slots: list[Slot]) -> list[Slot]:
        """Those that are in the record now, and that nobody has given back meanwhile.

        Should this workflow be lost, the one that begins anew knows of every slot that any request was told of.
        """
        await self._note("record_slots", slots, f"{len(slots)} slots are lent")
        while gone := [slot for slot in slots if not admission.is_lent(self._state, slot)]:
            slots = [slot for slot in slots if slot not in gone]
            await self._note("strike_slots", [slot.request for slot in gone], f"{len(gone)} were given back")
        return slots

    async def _note(self, activity: str, content: list[Slot] | list[str], summary: str) -> None:
        try:
            await workflow.execute_activity(activity, content, summary=summary, **RECORD)
        except ActivityError as error:
            # Whatever ails the record, lending must go on.
            workflow.logger.error("The record of slots is not exact: %s", error.cause)

    async def _tell(self, slot: Slot) -> None:
        request = workflow.get_external_workflow_handle(request_id(slot.request))
        try:
            await request.signal("slot_granted", slot)
        except FailureError as error:
            workflow.logger.warning("The slot of %s is free again: %s", slot.request, error)
            self._state = admission.unreachable(self._state, slot)

    async def _look_for_the_gone(self) -> None:
        while True:
            look_at = self._state.look_at or workflow.now() + BETWEEN_LOOKS
            self._state = self._state.model_copy(update={"look_at": look_at})
            if (wait := look_at - workflow.now()) > timedelta():
                await workflow.sleep(wait, summary="until requests that are gone are looked for")
            known = sorted({*self._state.leases, *self._state.waiting})
            try:
                for first in range(0, len(known), NAMES_IN_A_CALL):
                    await self._forget_the_gone(known[first : first + NAMES_IN_A_CALL])
            except ActivityError as error:
                # Whatever comes of a look, lending must go on.
                workflow.logger.error("Requests that are gone were not looked for: %s", error.cause)
            self._state = self._state.model_copy(update={"look_at": workflow.now() + BETWEEN_LOOKS})

    async def _forget_the_gone(self, names: list[str]) -> None:
        gone = await workflow.execute_activity(
            "closed_requests",
            names,
            result_type=list[str],
            summary=f"which of {len(names)} requests are gone",
            **RECORD,
        )
        if gone:
            workflow.logger.warning("Gone without giving their slots back: %s", ", ".join(gone))
            self._state = admission.forget(self._state, gone)


def _begins_anew() -> bool:
    """When the history is long; not while a person's word waits to be recorded, which is no reason to lend nothing."""
    return history_is_long() and workflow.all_handlers_finished()
