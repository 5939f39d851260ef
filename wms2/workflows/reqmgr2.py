"""ReqMgr2: now and then it is asked for new requests, and told how far the others are."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from wms2.models.imports import Imported, Reported
    from wms2.temporal.retries import OUTPUT


@workflow.defn
class ReqMgr2Workflow:
    """Runs by schedule, from the record alone. No request waits for it: what fails now, the next run does."""

    @workflow.run
    async def run(self) -> Reported:
        trouble = None
        try:
            imported: Imported = await workflow.execute_activity(
                "import_assigned", result_type=Imported, summary="take on what is assigned to WMS2", **OUTPUT
            )
            workflow.set_current_details(str(imported))
        except ActivityError as error:
            trouble = error
        reported: Reported = await workflow.execute_activity(
            "report_statuses", result_type=Reported, summary="tell how far requests are", **OUTPUT
        )
        if trouble is not None:
            raise trouble
        workflow.set_current_details(f"{imported}; {reported}")
        return reported
