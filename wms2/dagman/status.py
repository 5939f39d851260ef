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
class NodeState:
    status: NodeStatus
    retries: int
    details: str


@dataclass(frozen=True, slots=True)
class DagStatusFile:
    """A whole status file. `counts` are DAGMan's totals, such as NodesDone."""

    counts: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, NodeState] = field(default_factory=dict)


_COUNT = re.compile(r"^  (Nodes\w+|JobProcs\w+|DagStatus) = (-?\d+)", re.MULTILINE)
_NODE = re.compile(
    r'^  Node = "(?P<node>[^"]+)";.*?\n'
    r"  NodeStatus = (?P<status>\d+);.*?\n"
    r'(?:  StatusDetails = "(?P<details>[^"]*)";.*?\n)?'
    r"(?:  RetryCount = (?P<retries>\d+);)?",
    re.MULTILINE,
)


def read_status(path: Path) -> DagStatusFile | None:
    """None when there is no file yet, or it is torn: look again later."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return None
    if "StatusEnd" not in text:
        return None
    counts = {name: int(value) for name, value in _COUNT.findall(text)}
    nodes = {
        match["node"]: NodeState(
            NodeStatus(int(match["status"])), int(match["retries"] or 0), match["details"] or ""
        )
        for match in _NODE.finditer(text)
        if int(match["status"]) in NodeStatus._value2member_map_
    }
    return DagStatusFile(counts, nodes)
