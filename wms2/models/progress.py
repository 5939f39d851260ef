"""How far a DAG is, and how it ended."""

from __future__ import annotations

from enum import StrEnum

from wms2.models.base import Model


class DagOutcome(StrEnum):
    """How a DAG stands, seen from outside."""

    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    ABORTED = "aborted"
    STOPPED = "stopped"
    VANISHED = "vanished"
    """It left the queue without a word: no metrics file of its own."""


class Sighting(StrEnum):
    """What somebody saw who looked for a DAG on its submit host."""

    QUEUED = "queued"
    GONE = "gone"
    """The schedd answers, and the DAG is not in its queue."""
    NO_SCHEDD = "no_schedd"
    """The schedd does not answer."""
    NO_WORKER = "no_worker"
    """Nobody on the host took the question up."""


class NodeFailure(Model):
    """Why a node of a work unit gave up, as its POST script recorded it."""

    node: str
    exit_code: int
    site: str | None
    category: str
    reason: str


class UnitFailure(Model):
    """A work unit that ended without output. Without an explanation, the end of its DAGMan's log stands in."""

    unit: str
    verdict: str
    nodes: tuple[NodeFailure, ...] = ()
    log_tail: str = ""


class RoundProgress(Model):
    """Counts of a round: from the disk, from the status file and from the DAGMans in the queue."""

    outcome: DagOutcome
    units_total: int
    units_done: int
    units_failed: int
    units_running: int
    nodes_total: int
    nodes_done: int
    nodes_failed: int
    jobs_idle: int
    jobs_running: int
    jobs_held: int
    dagmans_held: int = 0
    hold_reason: str = ""
    """Why a DAGMan is held: nothing of it goes on until it is released."""
    events_total: int
    events_done: int
