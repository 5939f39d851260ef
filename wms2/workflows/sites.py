"""Sites: from time to time CRIC is asked which there are."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from wms2.models.site import SyncedSites
    from wms2.temporal.retries import RECORD, SERVICE


@workflow.defn
class SitesWorkflow:
    """Runs by schedule. While CRIC is silent, what it said before holds; after a day somebody is told."""

    @workflow.run
    async def run(self) -> SyncedSites | None:
        try:
            synced: SyncedSites = await workflow.execute_activity(
                "sync_sites", result_type=SyncedSites, summary="ask CRIC for its sites", **SERVICE
            )
        except ActivityError as error:
            workflow.set_current_details(f"CRIC did not tell its sites: {error.cause}")
            await workflow.execute_activity("report_silence", summary="is CRIC silent for long?", **RECORD)
            return None
        workflow.set_current_details(str(synced))
        return synced
