"""What requests run and make, through the REST service: DAGs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from wms2.door.rest_calls import Page, RestCalls, checked
from wms2.door.undoing import outputs_to_undo
from wms2.errors import Missing
from wms2.models.dag import DAG, DagDetails
from wms2.models.nodes import NodeRow
from wms2.models.output import OutputStanding, OutputStatus
from wms2.models.output_list import ListedOutput, OutputDetails
from wms2.models.overview import RequestOverview
from wms2.models.undo import UndoOrder
from wms2.patterns import DAG_ID, REQUEST_NAME


class DagPage(Page):
    dags: list[DAG]


class NodePage(Page):
    nodes: list[NodeRow]


class OutputPage(Page):
    outputs: list[ListedOutput]


class RestWork(RestCalls):
    async def list_dags(self, request: str | None = None) -> list[DAG]:
        if request is not None and not REQUEST_NAME.fullmatch(request):
            return []
        return [one async for page in self.pages(DagPage, "dags", request=request) for one in page.dags]

    async def dag_details(self, dag: str) -> DagDetails:
        return await self.look(DagDetails, f"dags/{_checked(dag)}")

    async def nodes(self, dag: str, *, failed: bool = False) -> list[NodeRow]:
        pages = self.pages(NodePage, f"dags/{_checked(dag)}/nodes", failed=failed)
        return [one async for page in pages for one in page.nodes]

    async def list_outputs(
        self,
        request: str | None = None,
        statuses: Sequence[OutputStatus] = (),
        standings: Sequence[OutputStanding] = (),
    ) -> list[ListedOutput]:
        pages = self.pages(OutputPage, "outputs", request=request, status=statuses, standing=standings)
        return [one async for page in pages for one in page.outputs]

    async def outputs_of(self, request: str) -> list[OutputDetails]:
        return await self.look(list[OutputDetails], f"requests/{checked(request)}/outputs")

    async def outputs_to_undo(self, request: str, dataset: str | None = None) -> list[ListedOutput]:
        record = (await self.look(RequestOverview, f"requests/{checked(request)}")).record
        found = await self.list_outputs(request)
        wanted = [one for one in found if dataset in (None, one.dataset)]
        return outputs_to_undo(request, record.status, dataset, wanted)

    async def undo(self, order: UndoOrder) -> None:
        body = {"reason": order.reason, "dataset": order.dataset}
        path = f"requests/{checked(order.request)}/outputs/invalidate"
        await self.act("POST", path, order.action_id, json=body)


def _checked(dag: str) -> str:
    """The id of a DAG that can stand in an address."""
    if not DAG_ID.fullmatch(dag):
        raise Missing(f"there is no DAG with the id {dag}; `wms2 dag list` shows all")
    return dag
