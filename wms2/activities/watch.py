"""What a follower remembers of a DAG between two looks. Forgetting it costs only time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from wms2.adapters.condor import DagmanAd
from wms2.dagman.glance import OUTER_METRICS, OUTER_STATUS, Glance, group_status, merge_output
from wms2.dagman.metrics import read_metrics
from wms2.dagman.progress import Counts, Done, begun_units, read_counts, read_lost, read_outer_status
from wms2.dagman.round_folder import RoundFile, RoundUnit
from wms2.dagman.status import DagStatusFile
from wms2.models.dag import DagStatus, NodeCounts
from wms2.models.messages import SubmittedDag

LOOK_EVERY_SEC = 2.5
TOGETHER_SEC = 0.5
"""Followers look at the same moments, so far apart: to be woken costs more than to look."""
QUEUE_SEC = 10.0
"""How old what is known of the queue may be. A stale answer can only say of a DAG that ended that it still runs."""
RECORD_EVERY_SEC = 30.0
"""How often failures are gathered while a DAG runs: each time all of them are read."""
PATTERN_EVERY_SEC = 10.0


def until_the_next_look() -> float:
    """How long a follower sleeps now."""
    now = time.monotonic()
    return math.ceil((now + LOOK_EVERY_SEC - TOGETHER_SEC) / TOGETHER_SEC) * TOGETHER_SEC - now


class Watch:
    """One DAG, as its follower knows it."""

    def __init__(self, dag: SubmittedDag, planned: RoundFile) -> None:
        self.dag = dag
        self.planned = planned
        self.failures = FailureWatch()
        self.queued: Sequence[DagmanAd] = ()
        """Its DAGMans in the queue."""
        self.status: DagStatusFile | None = None
        """What the outer DAGMan has written of the work units last."""
        self.lost: dict[str, int] = {}
        """The units that it has given up by then, with the nodes that failed in each."""
        self.counts: dict[str, Counts] = {}
        """What the DAGMans of work units have written of their nodes last."""
        self.candidates: Sequence[RoundUnit] = planned.work_units
        """The units that may be complete on disk since the last look."""
        self.done: Done | None = None
        """The units that are credited as far as is known; None before the first look."""
        self.recorded: tuple[DagStatus, NodeCounts] | None = None
        """What stands in the database."""
        self.hurried = False
        self._begun = time.monotonic()
        self._glance = Glance(dag.order.folder)
        self._running: Sequence[str] = ()
        self._ending = False

    def queue_since(self) -> float:
        """How new the queue must be: never from before the watch, when the DAG may not have been in it.

        A DAGMan that has written how it ended is about to leave, and is looked for until it has.
        """
        now = time.monotonic()
        return now if self._ending else max(self._begun, now - QUEUE_SEC)

    def shows_news(self, queued: Sequence[DagmanAd]) -> bool:
        """Whether anything changed, in the queue or on disk; what changed is read."""
        moved = queued != self.queued
        if moved:
            self._running = [ad.node for ad in queued if ad.node is not None]
        self.queued = queued
        changed = self._glance.changed(self._running)
        if changed or moved:
            self._read(changed)
        self.candidates = self._candidates(changed, moved)
        return bool(changed) or moved or not queued

    def _read(self, changed: set[str]) -> None:
        folder = self.dag.order.folder
        if OUTER_METRICS in changed:
            self._ending = read_metrics(folder / OUTER_METRICS, self.dag.cluster) is not None
        if OUTER_STATUS in changed:
            # A file that is torn will be whole at the next glance.
            self.status = read_outer_status(folder) or self.status
            self.lost = read_lost(folder, self.status)
        self.counts = {
            unit: read_counts(folder, unit)
            if unit not in self.counts or group_status(unit) in changed
            else self.counts[unit]
            for unit in self._running
        }

    def _candidates(self, changed: set[str], moved: bool) -> Sequence[RoundUnit]:
        """The units that may be complete since the last look: at the first one and the last one, any."""
        units = self.planned.work_units
        if self.done is None or not self.queued:
            return units
        if moved or OUTER_STATUS in changed:
            return begun_units(self.planned, self.status, self.counts)
        made = {unit for unit in self.counts if merge_output(unit) in changed}
        return [unit for unit in units if unit.name in made] if made else ()


class FailureWatch:
    """What a follower remembers of a DAG's failures."""

    def __init__(self) -> None:
        self.healthy = False
        """A node succeeded, or nodes failed in different ways: the DAG has no common illness."""
        self._recorded = 0
        self._record_at = self._look_at = 0.0

    def is_time_to_record(self, units_failed: int) -> bool:
        return units_failed > self._recorded and time.monotonic() >= self._record_at

    def recorded(self, units_failed: int, took_sec: float) -> None:
        """Recording takes at most a tenth of a follower's time, however much failed."""
        self._recorded = units_failed
        self._record_at = time.monotonic() + max(RECORD_EVERY_SEC, 9 * took_sec)

    def is_time_to_look(self) -> bool:
        due = not self.healthy and time.monotonic() >= self._look_at
        if due:
            self._look_at = time.monotonic() + PATTERN_EVERY_SEC
        return due
