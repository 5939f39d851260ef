"""Looking at the nodes of a DAG, whose files are on its submit host."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from wms2.dagman.nodes import nodes_page
from wms2.door.asking import NO_WORKER, refusal
from wms2.door.servers import Servers
from wms2.errors import Contradiction, Silent, UserError
from wms2.models.dag import DAG
from wms2.models.nodes import MOST_NODES, NodesOrder, NodesPage
from wms2.temporal.launch import start_inspection

ANSWER_TIMEOUT = timedelta(seconds=15)


async def page_of_nodes(
    servers: Servers, dag: DAG, *, failed: bool, offset: int, limit: int = MOST_NODES
) -> NodesPage:
    """Some of its nodes, in the order of the plan, as DAGMan's own files tell of them now."""
    order = NodesOrder(
        dag_id=dag.intent.dag_id,
        host=dag.submit_host,
        folder=Path(dag.intent.submit_dir),
        failed=failed,
        offset=offset,
        limit=limit,
    )
    if order.host is None:
        return await servers.of_files(nodes_here, order)
    return await nodes_there(await servers.temporal(), order)


async def nodes_there(client: Client, order: NodesOrder) -> NodesPage:
    """As the worker of the submit host reads them."""
    try:
        looking = await start_inspection(client, order)
        async with asyncio.timeout(ANSWER_TIMEOUT.total_seconds()):
            found = await looking.result()
    except RPCError as error:
        raise refusal(error, f"a look at the nodes of {order.dag_id}") from error
    except (TimeoutError, WorkflowFailureError):
        raise Silent(NO_WORKER) from None
    if found.page is None:
        raise (Silent if found.silent else Contradiction)(found.problem)
    return found.page


def nodes_here(order: NodesOrder) -> NodesPage:
    """Of a round that was run by hand, if that was on this machine."""
    try:
        return nodes_page(order)
    except (OSError, UserError):
        raise Contradiction(
            f"{order.dag_id} was run by hand, and its files in {order.folder} cannot be read from here; "
            f"`wms2 dag nodes {order.folder}` lists its nodes where it was run"
        ) from None
