"""Reconciliation: now and then the record is held against what lives."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wms2.models.reconciliation import Reconciled
    from wms2.temporal.retries import RECORD


@workflow.defn
class ReconciliationWorkflow:
    """Runs by schedule: a request whose submission was cut off is started, one whose workflow is gone reported."""

    @workflow.run
    async def run(self) -> Reconciled:
        found: Reconciled = await workflow.execute_activity(
            "reconcile_requests",
            result_type=Reconciled,
            summary="hold the record against the workflows that live",
            **RECORD,
        )
        workflow.set_current_details(str(found))
        return found
