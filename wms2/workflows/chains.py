"""Chains: now and then requests are let go whose input is there."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wms2.models.chain import Advanced
    from wms2.temporal.retries import RECORD


@workflow.defn
class ChainWorkflow:
    """Runs by schedule, from the record alone: whatever a run did not come to, the next one does."""

    @workflow.run
    async def run(self) -> Advanced:
        found: Advanced = await workflow.execute_activity(
            "advance_chains", result_type=Advanced, summary="let go what can read its input", **RECORD
        )
        workflow.set_current_details(str(found))
        return found
