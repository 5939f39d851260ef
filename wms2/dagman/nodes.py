"""The nodes of a round, as the status files of its groups and the POST scripts' records tell of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from wms2.dagman.dag_files import GROUP_DAG
from wms2.dagman.posts import PostRecord, attempts_by_node, newest_post
from wms2.dagman.round_folder import RoundFile, read_round
from wms2.dagman.status import read_status
from wms2.models.nodes import NodeRow, NodesOrder, NodesPage


def read_nodes(folder: Path, planned: RoundFile, skip: int = 0) -> Iterator[NodeRow]:
    """Every node of every unit that has begun, but for the first so many; a unit without a status file has not."""
    for unit in planned.work_units:
        status = read_status(folder / unit.name / f"{GROUP_DAG}.status")
        nodes = list(status.nodes.items()) if status else []
        wanted, skip = nodes[skip:], max(0, skip - len(nodes))
        attempts = attempts_by_node(folder / unit.name) if wanted else {}
        for name, standing in wanted:
            post = newest_post(folder / unit.name, name) or PostRecord()
            yield NodeRow(
                unit=unit.name,
                node=name,
                status=standing.name,
                attempts=len(attempts.get(name, [])),
                site=post.site,
                exit_code=post.exit_code,
                category=post.category or None,
                cluster=post.cluster,
            )


def nodes_page(order: NodesOrder) -> NodesPage:
    """Some of them, in the order of the plan; the records of those before and after the page are not read."""
    planned = read_round(order.folder)
    rows: Iterator[NodeRow]
    if order.failed:
        failed = (row for row in read_nodes(order.folder, planned) if row.exit_code)
        rows = islice(failed, order.offset, None)
    else:
        rows = read_nodes(order.folder, planned, skip=order.offset)
    # One more than is wanted shows whether there is a next page.
    found = list(islice(rows, order.limit + 1))
    has_more = len(found) > order.limit
    return NodesPage(nodes=tuple(found[: order.limit]), next=order.offset + order.limit if has_more else None)
