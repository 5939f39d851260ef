"""Reconciliation: now and then the record is held against what lives."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from wms2.models.reconciliation import Reconciled
    from wms2.temporal.retries import RECORD, TIDYING

KEPT_FOR_READERS = "outputs-are-kept-for-those-who-read-them"


@workflow.defn
class ReconciliationWorkflow:
    """Runs by schedule: a request whose submission was cut off is started, one whose workflow is gone reported.

    And bans of sites whose time is over are ended, outputs that were replaced long enough ago taken back, and what
    requests that have ended read is let go.
    """

    @workflow.run
    async def run(self) -> Reconciled:
        found: Reconciled = await workflow.execute_activity(
            "reconcile_requests",
            result_type=Reconciled,
            summary="hold the record against the workflows that live",
            **RECORD,
        )
        await workflow.execute_activity("expire_bans", summary="end the bans whose time is over", **RECORD)
        await workflow.execute_activity(
            "start_cleanups", summary="take back outputs that were replaced", **RECORD
        )
        await self._let_go("release_inputs", "let inputs go whose request has ended")
        if workflow.patched(KEPT_FOR_READERS):
            await self._let_go("release_sources", "let outputs go where they were made and nobody reads them")
        workflow.set_current_details(str(found))
        return found

    async def _let_go(self, activity: str, summary: str) -> None:
        try:
            await workflow.execute_activity(activity, summary=summary, **TIDYING)
        except ActivityError as error:
            workflow.logger.warning("%s is done by a later run: %s", activity, error.cause)
