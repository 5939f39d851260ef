"""The nodes of a DAG, as people look at them: some at a time, because a round may have ten thousand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from wms2.models.base import Count, Flag, Model
from wms2.models.dag import DagId
from wms2.patterns import HostName

MOST_NODES = 1000
"""In one page: some 200 kB, a tenth of what Temporal takes."""


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


class NodesOrder(Model):
    """A page of the nodes of a DAG whose files are in a folder of a submit host."""

    dag_id: DagId
    host: HostName | None
    """None for a round that was run by hand: nobody knows where."""
    folder: Path
    failed: Flag = False
    """Only nodes whose newest attempt failed."""
    offset: Count = 0
    limit: Annotated[int, Field(ge=1, le=MOST_NODES)] = MOST_NODES


class NodesPage(Model):
    nodes: tuple[NodeRow, ...]
    next: int | None
    """The offset of the next page; None for the last one."""


class Inspected(Model):
    """What came of a look at a submit host. Without a page, `problem` says in a sentence why."""

    page: NodesPage | None = None
    problem: str = ""
    silent: Flag = False
    """Nobody on the host took it up, or not in time: asking again may help."""
