"""The clerk writes down what happens to a request."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wms2.core.logbook import LINES, details, entry
    from wms2.models.messages import Alert, OperatorAction, StatusRecord
    from wms2.models.progress import RoundProgress
    from wms2.models.request import RequestStatus
    from wms2.models.request_state import RequestState
    from wms2.temporal import attributes
    from wms2.temporal.queues import WORKFLOWS
    from wms2.temporal.retries import RECORD, Preset

WMS2 = "wms2"
"""The actor of everything that nobody asked for."""


class Clerk:
    """Keeps the record of a request: its status for everyone, its page in the Web UI, its alerts."""

    state: RequestState
    last_progress: RoundProgress | None = None
    audit_in_order: asyncio.Lock

    async def enter(self, status: RequestStatus, reason: str = "", actor: str = WMS2) -> None:
        state, now = self.state, workflow.now()
        state.status = status
        state.status_since = now
        state.sequence += 1
        state.logbook = (*state.logbook, entry(now, status, reason))[-LINES:]
        self.describe()
        workflow.upsert_search_attributes(
            [
                attributes.STATUS.value_set(status),
                attributes.ROUND.value_set(max(0, state.next_round - 1)),
                attributes.PRIORITY.value_set(state.priority),
                attributes.HELD_REASON.value_set(state.held_reason[:200]),
                attributes.SUBMIT_HOST.value_set(state.slot_host or ""),
            ]
        )
        record = StatusRecord(
            request=state.request_name, status=status, sequence=state.sequence, actor=actor, reason=reason
        )
        await self.call("record_status", record, preset=RECORD, summary=f"{status}: {reason}"[:200])

    def note_down(self, words: str) -> None:
        """A line in the logbook that is no change of status."""
        line = entry(workflow.now(), self.state.status, words)
        self.state.logbook = (*self.state.logbook, line)[-LINES:]
        self.describe()

    async def audit(
        self, asked: OperatorAction, detail: dict[str, Any] | None = None, activity: str = "record_action"
    ) -> None:
        """Record what a person asked for; words that come together are recorded in the order in which they came."""
        audited = asked.audited(self.state.request_name, **(detail or {}))
        async with self.audit_in_order:
            await self.call(activity, audited, preset=RECORD, summary=asked.words[:200])

    def describe(self) -> None:
        """What the Web UI shows."""
        workflow.set_current_details(details(self.state, self.last_progress))

    async def alert(self, kind: str, message: str) -> None:
        alert = Alert(request=self.state.request_name, kind=kind, message=message)
        await self.call("raise_alert", alert, preset=RECORD, summary=f"Alert: {message}"[:200])

    async def call(
        self,
        name: str,
        *words: Any,
        result: Any = None,
        queue: str = WORKFLOWS,
        preset: Preset,
        summary: str,
    ) -> Any:
        placed: Preset = {"task_queue": queue, **preset}
        return await workflow.execute_activity(
            name, args=words, result_type=result, summary=summary, **placed
        )
