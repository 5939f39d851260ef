"""Reading DAGMan's node status files: ClassAd text, rewritten while it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path


class NodeStatus(IntEnum):
    """DAGMan's own numbers."""

    NOT_READY = 0
    READY = 1
    PRE = 2
    SUBMITTED = 3
    POST = 4
    DONE = 5
    ERROR = 6
    FUTILE = 7

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DagStatusFile:
    """A whole status file. `counts` are DAGMan's totals, such as NodesDone."""

    counts: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, NodeStatus] = field(default_factory=dict)


_COUNT = re.compile(r"^  (Nodes\w+|JobProcs\w+|DagStatus) = (-?\d+)", re.MULTILINE)
# It begins with plain text instead of `^`, which the search finds several times as fast.
_NODE = re.compile(r'\n  Node = "([^"]+)";\n  NodeStatus = (\d+);')
_STATUSES = {str(status.value): status for status in NodeStatus}


_TOTALS_BYTES = 2048
"""More than the totals take, at the beginning of the file."""


def read_totals(path: str) -> dict[str, int] | None:
    """DAGMan's totals alone, such as NodesDone; None when there is no file yet, or it is torn."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a Path takes longer than the reading
            totals, end, _ = file.read(_TOTALS_BYTES).decode(errors="replace").partition("\n]")
    except OSError:
        return None
    return {name: int(value) for name, value in _COUNT.findall(totals)} if end else None


def read_status(path: Path) -> DagStatusFile | None:
    """None when there is no file yet, or it is torn: look again later."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError:
        return None
    if "StatusEnd" not in text:
        return None
    totals, _, _ = text.partition('"NodeStatus"')
    return DagStatusFile(
        counts={name: int(value) for name, value in _COUNT.findall(totals)},
        nodes={node[1]: _STATUSES[node[2]] for node in _NODE.finditer(text) if node[2] in _STATUSES},
    )
