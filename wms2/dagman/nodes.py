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


def read_nodes(folder: Path, planned: RoundFile) -> Iterator[NodeRow]:
    """Every node of every unit that has begun; a unit without a status file has not."""
    for unit in planned.work_units:
        status = read_status(folder / unit.name / f"{GROUP_DAG}.status")
        attempts = attempts_by_node(folder / unit.name) if status else {}
        for name, standing in (status.nodes if status else {}).items():
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
    """Some of them, in the order of the plan; what comes after the page is not read."""
    folder = order.folder
    rows = (row for row in read_nodes(folder, read_round(folder)) if row.exit_code or not order.failed)
    # One more than is wanted shows whether there is a next page.
    found = list(islice(rows, order.offset, order.offset + order.limit + 1))
    has_more = len(found) > order.limit
    return NodesPage(nodes=tuple(found[: order.limit]), next=order.offset + order.limit if has_more else None)
