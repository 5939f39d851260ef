"""Submit hosts: from time to time those that are known are held against what the collector knows."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wms2.models.host import HostSurvey
    from wms2.temporal.retries import RECORD


@workflow.defn
class HostsWorkflow:
    """Runs by schedule. A host that comes is told of by its own worker, at once; who goes says nothing."""

    @workflow.run
    async def run(self) -> HostSurvey:
        found: HostSurvey = await workflow.execute_activity(
            "survey_hosts", result_type=HostSurvey, summary="which submit hosts can be used?", **RECORD
        )
        workflow.set_current_details(str(found))
        return found
