"""Looking at files of a submit host for people who are elsewhere."""

from __future__ import annotations

import asyncio

from temporalio import activity

from wms2.dagman.nodes import nodes_page
from wms2.errors import UserError
from wms2.models.nodes import NodesOrder, NodesPage


class InspectionActivities:
    @activity.defn
    async def read_nodes(self, order: NodesOrder) -> NodesPage:
        """Some nodes of a DAG, as DAGMan's own files tell of them now. Raises UserError where those are gone."""
        try:
            return await asyncio.to_thread(nodes_page, order)
        except (OSError, UserError):
            raise UserError(
                f"the files of {order.dag_id} cannot be read in {order.folder} on {order.host}; "
                "they are removed, or the worker there may not read them"
            ) from None
