"""ReqMgr2: now and then it is asked for new requests, and told how far the others are."""

from __future__ import annotations

from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from wms2.models.imports import Imported, Reported
    from wms2.models.messages import InVain
    from wms2.temporal.retries import OUTPUT, RECORD

T = TypeVar("T")


@workflow.defn
class ReqMgr2Workflow:
    """Runs by schedule, from the record alone. No request waits for it: what fails now, the next run does.

    When it has failed for a day, somebody is told.
    """

    @workflow.run
    async def run(self) -> Reported:
        trouble = None
        try:
            imported = await self._ask("import_assigned", Imported, "take on what is assigned to WMS2")
            workflow.set_current_details(str(imported))
        except ActivityError as error:
            trouble = error
        reported = await self._ask("report_statuses", Reported, "tell how far requests are")
        if trouble is not None:
            raise trouble
        workflow.set_current_details(f"{imported}; {reported}")
        return reported

    async def _ask(self, activity: str, result: type[T], summary: str) -> T:
        try:
            answer: T = await workflow.execute_activity(
                activity, result_type=result, summary=summary, **OUTPUT
            )
            return answer
        except ActivityError as error:
            vain = InVain(service="ReqMgr2", asked=activity, problem=str(error.cause))
            await workflow.execute_activity(
                "asked_in_vain", vain, summary="is ReqMgr2 silent for long?", **RECORD
            )
            raise
