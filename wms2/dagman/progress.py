"""Reading how far a round is. Stateless, and at ease with files that are torn, missing or stale."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wms2.core.plain import plain_line, plain_text
from wms2.dagman.dag_files import GROUP_DAG, WORKFLOW_DAG
from wms2.dagman.metrics import DagEnd, read_metrics
from wms2.dagman.posts import read_object, site_name, whole_number, word
from wms2.dagman.round_folder import RoundFile, RoundUnit
from wms2.dagman.status import DagStatusFile, NodeStatus, read_status, read_totals
from wms2.models.plan import NODES_BESIDE_PROCESSING
from wms2.models.progress import DagOutcome, NodeFailure, RoundProgress, UnitFailure

REMOVAL_FILE = "removal.json"

_NOT_BEGUN = (NodeStatus.NOT_READY, NodeStatus.READY, NodeStatus.PRE)


class QueuedDagman(Protocol):
    """A DAGMan that is in the queue; `node` is the work unit it runs, None for the outer one."""

    @property
    def node(self) -> str | None: ...
    @property
    def held(self) -> bool: ...
    @property
    def hold_reason(self) -> str | None: ...


class Counts(NamedTuple):
    """Where the nodes of a work unit that runs are."""

    done: int
    failed: int
    idle: int
    running: int
    held: int


NOTHING = Counts(0, 0, 0, 0, 0)


class Done(NamedTuple):
    """The units with a valid output, and what they come to: whoever looks every few seconds adds up only once."""

    numbers: frozenset[int]
    names: frozenset[str]
    nodes: int
    events: int


def sum_up(planned: RoundFile, produced: Collection[int]) -> Done:
    """`produced` are the numbers of the units with a valid output."""
    units = [unit for unit in planned.work_units if unit.number in produced]
    return Done(
        numbers=frozenset(unit.number for unit in units),
        names=frozenset(unit.name for unit in units),
        nodes=sum(unit.jobs + NODES_BESIDE_PROCESSING for unit in units),
        events=sum(unit.events for unit in units),
    )


def read_progress(
    folder: Path,
    planned: RoundFile,
    cluster: int,
    queued: Sequence[QueuedDagman],
    done: Done,
    lost: Mapping[str, int],
    counts: Mapping[str, Counts],
) -> RoundProgress:
    """`queued` are the DAGMans of this cluster in the queue; `lost` the units that were given up, with the nodes
    that failed in each; `counts` what the DAGMans of the units that run have written last.
    """
    running = counts.keys() - done.names
    failed = [unit for unit in lost if unit not in running]
    total = Counts(*map(sum, zip(*counts.values(), strict=True))) if counts else NOTHING
    return RoundProgress(
        outcome=read_outcome(folder, planned, cluster, queued, done.numbers),
        units_total=len(planned.work_units),
        units_done=len(done.numbers),
        units_failed=len(set(failed) - done.names),
        units_running=len(running),
        nodes_total=sum(planned.nodes.values()),
        nodes_done=done.nodes + sum(counts[unit].done for unit in running),
        nodes_failed=total.failed + sum(lost[unit] for unit in failed),
        jobs_idle=total.idle,
        jobs_running=total.running,
        jobs_held=total.held,
        dagmans_held=sum(dagman.held for dagman in queued),
        hold_reason=next((dagman.hold_reason or "" for dagman in queued if dagman.held), ""),
        events_total=planned.events,
        events_done=done.events,
    )


def read_counts(folder: Path, unit: str) -> Counts:
    """From the status file of a work unit's DAGMan; nothing as long as there is none."""
    totals = read_totals(f"{folder}/{unit}/{GROUP_DAG}.status") or {}
    held, waiting = totals.get("JobProcsHeld", 0), totals.get("JobProcsIdle", 0)
    return Counts(
        done=totals.get("NodesDone", 0),
        failed=totals.get("NodesFailed", 0),
        # DAGMan counts held ones as idle, too.
        idle=max(waiting - held, 0),
        running=max(totals.get("NodesQueued", 0) - waiting, 0),
        held=held,
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
    removed = metrics is None or metrics.dag_status == DagEnd.REMOVED
    # Also one that was removed before it could leave a word.
    if removed and removed_by_wms2(folder, cluster):
        return DagOutcome.ABORTED
    if metrics is None:
        return DagOutcome.VANISHED
    if removed:
        return DagOutcome.STOPPED
    return DagOutcome.ABORTED if metrics.dag_status == DagEnd.ABORTED else DagOutcome.PARTIAL


def mark_removal(folder: Path, cluster: int, reason: str) -> None:
    """Note that WMS2 itself is about to remove the DAG, and why. Its end is then an abort and no stop."""
    partial = folder / f"{REMOVAL_FILE}.partial"
    partial.write_text(json.dumps({"cluster": cluster, "reason": reason}) + "\n")
    partial.rename(folder / REMOVAL_FILE)


def removed_by_wms2(folder: Path, cluster: int) -> str:
    """Why WMS2 removed the DAG that ran as this cluster; empty when it did not."""
    noted = read_object(folder / REMOVAL_FILE) or {}
    return plain_line(noted.get("reason")) if noted.get("cluster") == cluster else ""


def read_outer_status(folder: Path) -> DagStatusFile | None:
    """What the outer DAGMan has written of the work units last."""
    return read_status(folder / f"{WORKFLOW_DAG}.status")


def given_up(status: DagStatusFile | None) -> list[str]:
    """Work units that the outer DAGMan has given up."""
    nodes = status.nodes if status else {}
    return [name for name, standing in nodes.items() if standing is NodeStatus.ERROR]


def read_lost(folder: Path, status: DagStatusFile | None) -> dict[str, int]:
    """The units that were given up, and how many nodes of each failed: nothing runs in them, so that stays."""
    return {name: read_counts(folder, name).failed for name in given_up(status)}


def begun_units(
    planned: RoundFile, status: DagStatusFile | None, running: Collection[str]
) -> tuple[RoundUnit, ...]:
    """Those that can have an output by now; all, as long as the outer DAGMan has not written which it began."""
    if status is None:
        return planned.work_units
    return tuple(
        unit
        for unit in planned.work_units
        if unit.name in running or status.nodes.get(unit.name) not in _NOT_BEGUN
    )


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
        lost = set(given_up(read_outer_status(folder)))
        missing = [unit for unit in missing if unit.name in lost]
    return [_explain(folder / unit.name, unit) for unit in missing]


def _explain(folder: Path, unit: RoundUnit) -> UnitFailure:
    if (folder / "merge_output.json").exists():
        reason = "its merge_output.json is not valid, or belongs to another unit, or contradicts the ledger"
        return UnitFailure(unit=unit.name, verdict=reason)
    verdict = read_object(folder / "verdict.json") or {}
    told = verdict.get("nodes")
    nodes = (
        tuple(_node_failure(node) for node in told if isinstance(node, dict))
        if isinstance(told, list)
        else ()
    )
    text = plain_line(verdict.get("reason") or verdict.get("verdict")) or "unexplained"
    tail = "" if nodes else _tail(folder / f"{GROUP_DAG}.dagman.out")
    return UnitFailure(unit=unit.name, verdict=text, nodes=nodes, log_tail=tail)


def _node_failure(node: dict[str, Any]) -> NodeFailure:
    return NodeFailure(
        node=plain_line(node.get("node"), 50),
        exit_code=whole_number(node.get("exit_code")) or 0,
        site=site_name(node.get("site")),
        category=word(node.get("category")),
        reason=plain_line(node.get("reason")),
    )


def _tail(path: Path, lines: int = 20) -> str:
    try:
        with path.open(errors="replace") as file:
            return plain_text("".join(deque(file, maxlen=lines)))
    except OSError:
        return ""
