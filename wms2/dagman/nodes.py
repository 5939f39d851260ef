"""The nodes of a round, as the status files of its groups and the POST scripts' records tell of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wms2.dagman.dag_files import GROUP_DAG
from wms2.dagman.posts import PostRecord, attempts_by_node, newest_post
from wms2.dagman.round_folder import RoundFile
from wms2.dagman.status import read_status
from wms2.models.base import Model


class NodeRow(Model):
    """A node of a work unit: where it stands, and how its newest attempt went."""

    unit: str
    node: str
    status: str
    attempts: int
    site: str | None = None
    exit_code: int | None = None
    category: str | None = None
    cluster: int | None = None


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
