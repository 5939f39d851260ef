"""Notification: now and then people are told what happened."""

from __future__ import annotations

from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from wms2.models.notice import DigestState, Notified
    from wms2.temporal.retries import MESSAGE, RECORD


@workflow.defn
class NotificationWorkflow:
    """Runs by schedule, apart from all requests: none of them waits for a mail server.

    Its history knows ids of digests only. Addresses, words and passwords stay out of it.
    """

    @workflow.run
    async def run(self) -> Notified:
        due: list[UUID] = await workflow.execute_activity(
            "claim_digests", result_type=list[UUID], summary="put what waits into digests", **RECORD
        )
        told = Notified()
        for digest in due:
            told = told.with_one(await self.send(digest))
            workflow.set_current_details(str(told))
        return told

    async def send(self, digest: UUID) -> DigestState:
        """What became of it. One that breaks the worker again and again is left to the next run."""
        try:
            state: DigestState = await workflow.execute_activity(
                "send_digest", digest, result_type=DigestState, summary=f"send digest {digest}", **MESSAGE
            )
        except ActivityError:
            return DigestState.SENDING
        return state
