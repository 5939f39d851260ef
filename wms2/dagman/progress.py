"""Reading how far a round is. Stateless, and at ease with files that are torn, missing or stale."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from wms2.dagman.dag_files import GROUP_DAG, WORKFLOW_DAG
from wms2.dagman.metrics import DagEnd, read_metrics
from wms2.dagman.round_folder import RoundFile, RoundUnit
from wms2.dagman.status import NodeStatus, read_status
from wms2.models.progress import DagOutcome, NodeFailure, RoundProgress, UnitFailure

NODES_BESIDE_PROCESSING = 3
"""Landing, merge and cleanup."""


class QueuedDagman(Protocol):
    """A DAGMan that is in the queue; `node` is the work unit it runs, None for the outer one."""

    @property
    def node(self) -> str | None: ...
    @property
    def held(self) -> bool: ...
    @property
    def hold_reason(self) -> str | None: ...
    @property
    def nodes_done(self) -> int: ...
    @property
    def nodes_failed(self) -> int: ...
    @property
    def jobs_idle(self) -> int: ...
    @property
    def jobs_running(self) -> int: ...
    @property
    def jobs_held(self) -> int: ...


def read_progress(
    folder: Path,
    planned: RoundFile,
    cluster: int,
    queued: Sequence[QueuedDagman],
    produced: Collection[int],
) -> RoundProgress:
    """`queued` are the DAGMans of this cluster in the queue now; `produced` the units with a valid output."""
    units = planned.work_units
    groups = [dagman for dagman in queued if dagman.node is not None]
    done = [unit for unit in units if unit.number in produced]
    running = {dagman.node for dagman in groups} - {unit.name for unit in done}
    failed = [name for name in failed_units(folder) if name not in running]
    return RoundProgress(
        outcome=read_outcome(folder, planned, cluster, queued, produced),
        units_total=len(units),
        units_done=len(done),
        units_failed=len(set(failed) - {unit.name for unit in done}),
        units_running=len(running),
        nodes_total=sum(_nodes(unit) for unit in units),
        nodes_done=sum(_nodes(unit) for unit in done)
        + sum(dagman.nodes_done for dagman in groups if dagman.node in running),
        nodes_failed=sum(dagman.nodes_failed for dagman in groups)
        + sum(_failed_nodes(folder / name) for name in failed),
        jobs_idle=sum(dagman.jobs_idle for dagman in groups),
        jobs_running=sum(dagman.jobs_running for dagman in groups),
        jobs_held=sum(dagman.jobs_held for dagman in groups),
        dagmans_held=sum(dagman.held for dagman in queued),
        hold_reason=next((dagman.hold_reason or "" for dagman in queued if dagman.held), ""),
        events_total=sum(unit.events for unit in units),
        events_done=sum(unit.events for unit in done),
    )


def read_outcome(
    folder: Path,
    planned: RoundFile,
    cluster: int,
    queued: Sequence[QueuedDagman],
    produced: Collection[int],
) -> DagOutcome:
    # A DAGMan of a work unit may outlive the outer one for a moment, and finish its merge in it.
    if queued:
        return DagOutcome.RUNNING
    if len(produced) == len(planned.work_units):
        return DagOutcome.COMPLETED
    metrics = read_metrics(folder / f"{WORKFLOW_DAG}.metrics", cluster)
    if metrics is None:
        return DagOutcome.VANISHED
    ends: dict[int, DagOutcome] = {DagEnd.ABORTED: DagOutcome.ABORTED, DagEnd.REMOVED: DagOutcome.STOPPED}
    return ends.get(metrics.dag_status, DagOutcome.PARTIAL)


def failed_units(folder: Path) -> list[str]:
    """Work units that the outer DAGMan has given up, as its status file says."""
    status = read_status(folder / f"{WORKFLOW_DAG}.status")
    if status is None:
        return []
    return [name for name, node in status.nodes.items() if node.status == NodeStatus.ERROR]


def _failed_nodes(folder: Path) -> int:
    status = read_status(folder / f"{GROUP_DAG}.status")
    return status.counts.get("NodesFailed", 0) if status else 0


def explain_failures(
    folder: Path, planned: RoundFile, produced: Collection[int], outcome: DagOutcome
) -> list[UnitFailure]:
    """For each unit without output, why: its verdict, and the end of its DAGMan's log where that names no node.

    While the DAG runs, of the units that were given up so far; after a stop, of none.
    """
    if outcome is DagOutcome.STOPPED:
        return []
    if outcome is DagOutcome.VANISHED:
        tail = _tail(folder / f"{WORKFLOW_DAG}.dagman.out")
        return [
            UnitFailure(unit=WORKFLOW_DAG, verdict="the DAG left the queue without a word", log_tail=tail)
        ]
    missing = [unit for unit in planned.work_units if unit.number not in produced]
    if outcome is not DagOutcome.PARTIAL:
        given_up = set(failed_units(folder))
        missing = [unit for unit in missing if unit.name in given_up]
    return [_explain(folder / unit.name, unit) for unit in missing]


def _explain(folder: Path, unit: RoundUnit) -> UnitFailure:
    if (folder / "merge_output.json").exists():
        reason = "its merge_output.json is not valid, or belongs to another unit, or contradicts the ledger"
        return UnitFailure(unit=unit.name, verdict=reason)
    try:
        verdict = json.loads((folder / "verdict.json").read_bytes())
        nodes = tuple(NodeFailure.model_validate(node) for node in verdict.get("nodes", []))
        text = str(verdict.get("reason") or verdict["verdict"])
    except (OSError, ValueError, KeyError, AttributeError):
        nodes, text = (), "unexplained"
    tail = "" if nodes else _tail(folder / f"{GROUP_DAG}.dagman.out")
    return UnitFailure(unit=unit.name, verdict=text, nodes=nodes, log_tail=tail)


def _tail(path: Path, lines: int = 20) -> str:
    try:
        with path.open(errors="replace") as file:
            return "".join(deque(file, maxlen=lines))
    except OSError:
        return ""


def _nodes(unit: RoundUnit) -> int:
    return unit.jobs + NODES_BESIDE_PROCESSING
