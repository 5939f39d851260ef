"""Gathering what failed in a DAG from its folder: linear in what failed, bounded in what is kept."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from pathlib import Path

from wms2.core.failures import Tally
from wms2.core.plain import plain_line, plain_text
from wms2.dagman.dag_files import GROUP_DAG, WORKFLOW_DAG
from wms2.dagman.posts import (
    NODE_NAME,
    STOPPED,
    PostRecord,
    attempt_post,
    attempts_by_node,
    newest_post,
    read_object,
    recorded_nodes,
    site_name,
    whole_number,
    word,
)
from wms2.dagman.progress import given_up, read_outer_status, removed_by_wms2
from wms2.dagman.round_folder import RoundFile, RoundUnit
from wms2.dagman.verdicts import Judge
from wms2.models.failure import UNEXPLAINED, DagFailures, FailedNode, FailureSummary, FileFailure
from wms2.models.progress import DagOutcome

NODES_IN_FULL = 1000
"""How many failed nodes of a DAG are kept one by one; all are counted."""
TAILS_OF_A_KIND = 5
"""How many log tails are kept of failures with the same category, exit code and site."""
TAIL_LINES = 20
PROCESSING = "proc_"


def gather_failures(
    folder: Path, planned: RoundFile, cluster: int, produced: Collection[int], outcome: DagOutcome
) -> DagFailures:
    """The failures of the DAG that ran as `cluster`. While it runs, of the work units that were given up so far."""
    failing = _Failing(folder, cluster, outcome)
    for unit in planned.work_units:
        if unit.number not in produced:
            failing.look_at(unit)
    summary = FailureSummary(
        units=len(planned.work_units),
        units_failed=failing.units,
        units_unfinished=failing.unfinished,
        units_waiting=failing.waiting,
        units_judged=failing.judged,
        nodes_failed=sum(failing.tally.nodes.values()),
        causes=failing.tally.causes(),
        note=_note(folder, cluster, outcome),
        log_tail=_tail(folder / f"{WORKFLOW_DAG}.dagman.out") if outcome is DagOutcome.VANISHED else "",
    )
    return DagFailures(
        summary=summary,
        nodes=tuple(failing.nodes),
        files=tuple(failing.files),
        looked_at=tuple(failing.looked_at),
    )


# Of a DAG that was removed the status file calls every unit failed that was not done.
_JUDGED = (DagOutcome.PARTIAL, DagOutcome.RUNNING)


def _was_refused(folder: Path) -> bool:
    """Whether the unit's own script ended it before any node ran, for example because no site was left."""
    verdict = read_object(folder / "verdict.json") or {}
    return verdict.get("verdict") == "give up" and not verdict.get("nodes")


class _Failing:
    """The failures found so far."""

    def __init__(self, folder: Path, cluster: int, outcome: DagOutcome) -> None:
        self.folder, self.cluster, self.outcome = folder, cluster, outcome
        self.given_up = set(given_up(read_outer_status(folder)))
        self.units = self.unfinished = self.waiting = self.judged = 0
        self.judge = Judge(folder)
        self.tally = Tally()
        self.nodes: list[FailedNode] = []
        self.files: list[FileFailure] = []
        self.looked_at: list[int] = []
        self._tails: Counter[tuple[str, int | None, str | None]] = Counter()

    def look_at(self, unit: RoundUnit) -> None:
        if self.outcome is DagOutcome.RUNNING and unit.name not in self.given_up:
            return
        folder = self.folder / unit.name
        failed = list(self._failed_nodes(folder, unit))
        if not failed and (self.outcome in _JUDGED or _was_refused(folder)):
            failed = [_unexplained(folder, unit)]
        if not failed:
            self.unfinished += 1
            return
        failed = self._judged(failed)
        self.units += 1
        self.tally.add(failed)
        self.nodes += map(self._within_bounds, failed[: NODES_IN_FULL - len(self.nodes)])
        if unit.first_event is None:
            self.looked_at.append(unit.number)
            self.files += _file_failures(folder, unit)

    def _failed_nodes(self, folder: Path, unit: RoundUnit) -> Iterator[FailedNode]:
        """As the unit's verdict names them; without one, all whose last attempt failed for good in this DAG."""
        told = _told_nodes(folder)
        attempts = attempts_by_node(folder)
        for name in told or recorded_nodes(folder):
            post = newest_post(folder, name) or told.get(name, PostRecord())
            earlier_dag = post.cluster is not None and 0 < post.cluster < self.cluster
            if post.succeeded or post.category == STOPPED or earlier_dag or not (told or post.final):
                continue
            yield _failed_node(unit, name, post, len(attempts.get(name, [])))

    def _judged(self, failed: list[FailedNode]) -> list[FailedNode]:
        """As the verdicts of people say that were given since."""
        judged = [self.judge.judged(node) for node in failed]
        nodes = [node for node, _ in judged]
        if self.judge.waits(nodes):
            self.waiting += 1
        elif all(again for _, again in judged):
            self.judged += 1
        return nodes

    def _within_bounds(self, node: FailedNode) -> FailedNode:
        kind = (node.category, node.exit_code, node.site)
        self._tails[kind] += 1
        return node if self._tails[kind] <= TAILS_OF_A_KIND else node.model_copy(update={"log_tail": ""})


def _told_nodes(folder: Path) -> dict[str, PostRecord]:
    """The nodes that the work unit's verdict names; it knows of them what a lost record would say."""
    verdict = read_object(folder / "verdict.json") or {}
    told = verdict.get("nodes")
    nodes = [node for node in told if isinstance(node, dict)] if isinstance(told, list) else []
    return {
        node["node"]: PostRecord(
            final=True,
            category=word(node.get("category")),
            exit_code=whole_number(node.get("exit_code")),
            site=site_name(node.get("site")),
            message=plain_line(node.get("reason")),
        )
        for node in nodes
        # A name becomes a part of a path.
        if isinstance(node.get("node"), str) and NODE_NAME.fullmatch(node["node"])
    }


def _failed_node(unit: RoundUnit, name: str, post: PostRecord, attempts: int) -> FailedNode:
    return FailedNode(
        work_unit=unit.number,
        node=name,
        cluster=post.cluster,
        attempts=attempts,
        category=post.category or UNEXPLAINED,
        exit_code=post.exit_code,
        site=post.site,
        rule=post.rule,
        confidence=post.confidence,
        message=post.message,
        bad_input_files=post.bad_input_files,
        log_tail=post.log_tail,
    )


def _unexplained(folder: Path, unit: RoundUnit) -> FailedNode:
    verdict = read_object(folder / "verdict.json") or {}
    if (folder / "merge_output.json").exists():
        said = "its merge_output.json is not valid, or belongs to another unit, or contradicts the ledger"
    else:
        said = plain_line(verdict.get("reason") or verdict.get("verdict")) or "no node says why"
    tail = _tail(folder / f"{GROUP_DAG}.dagman.out")
    return FailedNode(work_unit=unit.number, node="", category=UNEXPLAINED, message=said, log_tail=tail)


def _file_failures(folder: Path, unit: RoundUnit) -> Iterator[FileFailure]:
    """Of nodes that did not succeed in the end, in all their attempts: the unit may have left a site since."""
    for node, clusters in sorted(attempts_by_node(folder).items()):
        if not node.startswith(PROCESSING):
            continue
        posts = [(cluster, attempt_post(folder, node, cluster) or PostRecord()) for cluster in clusters]
        if posts[-1][1].succeeded:
            continue
        for cluster, post in posts:
            for lfn in post.bad_input_files:
                yield FileFailure(
                    work_unit=unit.number, node=node, cluster=cluster, lfn=lfn, site=post.site,
                    category=post.category or UNEXPLAINED, exit_code=post.exit_code,
                )  # fmt: skip


def first_ends(
    folder: Path, planned: RoundFile, cluster: int, enough: int
) -> tuple[int, Counter[tuple[str, int | None]]]:
    """How the processing nodes that this DAG has finished ended: successes, and failures by category and code.

    It ends with the first success, and with the failures that are enough: who asks wants to know of no more.
    """
    failed: Counter[tuple[str, int | None]] = Counter()
    for unit in planned.work_units:
        names = [name for name in recorded_nodes(folder / unit.name) if name.startswith(PROCESSING)]
        for name in names:
            post = newest_post(folder / unit.name, name)
            if post is None or (post.cluster or 0) <= cluster or not post.final:
                continue
            if post.succeeded:
                return 1, failed
            failed[post.category, post.exit_code] += 1
            if failed.total() >= enough:
                return 0, failed
    return 0, failed


def _note(folder: Path, cluster: int, outcome: DagOutcome) -> str:
    if outcome is DagOutcome.VANISHED:
        return "the DAG left the queue without a word"
    return removed_by_wms2(folder, cluster) if outcome is DagOutcome.ABORTED else ""


def _tail(path: Path) -> str:
    try:
        with path.open(errors="replace") as file:
            return plain_text("".join(deque(file, maxlen=TAIL_LINES)))
    except OSError:
        return ""
