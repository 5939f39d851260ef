"""Inspection: a look at the files of a submit host, for somebody who waits."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, TimeoutError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from wms2.models.nodes import Inspected, NodesOrder, NodesPage
    from wms2.temporal.retries import glance_at


@workflow.defn
class InspectionWorkflow:
    """Only the worker of a submit host can read there, and only a workflow can ask it. What it finds is the result,
    also that it finds nothing: nothing has failed that anybody should look after.
    """

    @workflow.run
    async def run(self, order: NodesOrder) -> Inspected:
        assert order.host is not None
        try:
            page: NodesPage = await workflow.execute_activity(
                "read_nodes",
                order,
                result_type=NodesPage,
                summary=f"read nodes of {order.dag_id}",
                **glance_at(order.host),
            )
        except ActivityError as error:
            return _nothing(order, error.cause)
        return Inspected(page=page)


def _nothing(order: NodesOrder, cause: BaseException | None) -> Inspected:
    if not isinstance(cause, TimeoutError):
        problem = cause.message if isinstance(cause, FailureError) else str(cause)
        return Inspected(problem=problem)
    problem = f"the files of {order.dag_id} on {order.host} take too long to read; ask again"
    if cause.type is TimeoutType.SCHEDULE_TO_START:
        problem = (
            f"no worker answers on {order.host}; start it there with `wms2 worker run`, "
            f"or look there with `wms2 dag nodes {order.folder}`"
        )
    return Inspected(problem=problem, silent=True)
