"""What failed in a DAG: each node that gave up, the causes counted, and the input files that could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime

from wms2.models.base import Count, Model
from wms2.models.dag import DagStatus
from wms2.models.request import RequestStatus

UNEXPLAINED = "unexplained"
"""The category of a work unit that failed and no node says why."""


class FailedNode(Model):
    """A node that gave up, as the record of its last attempt tells; the work unit itself where no node does."""

    work_unit: Count
    node: str
    """Empty for a work unit that no node explains."""
    cluster: int | None = None
    attempts: Count = 0
    category: str
    exit_code: int | None = None
    site: str | None = None
    rule: str = ""
    confidence: str = ""
    message: str = ""
    bad_input_files: tuple[str, ...] = ()
    log_tail: str = ""


class FileFailure(Model):
    """An input file that an attempt named as the reason of its failure."""

    work_unit: Count
    node: str
    cluster: Count
    lfn: str
    site: str | None
    category: str
    exit_code: int | None


class Cause(Model):
    """Failures of one kind, at one site. A work unit counts for its main cause alone."""

    category: str
    exit_code: int | None
    site: str | None
    units: Count
    nodes: Count


class FailureSummary(Model):
    """The failures of a DAG in numbers. Bounded, however many nodes failed."""

    units: Count
    """All work units of the round."""
    units_failed: Count
    units_unfinished: Count = 0
    """Without output, and without a failure of their own: the DAG ended before them."""
    units_waiting: Count = 0
    """Those that wait for a person's verdict."""
    units_judged: Count = 0
    """Those that a verdict, given after they failed, lets have another attempt."""
    nodes_failed: Count
    causes: tuple[Cause, ...] = ()
    """The most frequent ones, the main one first."""
    note: str = ""
    """What there is to say of the DAG itself."""
    log_tail: str = ""

    def by_category(self) -> Counter[str]:
        return self._count(lambda cause: cause.category)

    def by_site(self) -> Counter[str]:
        return self._count(lambda cause: cause.site or "-")

    def by_exit_code(self) -> Counter[str]:
        return self._count(lambda cause: "-" if cause.exit_code is None else str(cause.exit_code))

    def _count(self, key: Callable[[Cause], str]) -> Counter[str]:
        counted: Counter[str] = Counter()
        for cause in self.causes:
            counted[key(cause)] += cause.nodes
        return counted


class DagFailures(Model):
    """All that is known of the failures of a DAG, on its way into the database."""

    summary: FailureSummary
    nodes: tuple[FailedNode, ...] = ()
    """The first ones; the summary counts all."""
    files: tuple[FileFailure, ...] = ()
    looked_at: tuple[int, ...] = ()
    """Work units whose records were read: what is known of their files is in `files`, whole."""


class RecordedFailures(Model):
    """The failures of one DAG, as the database keeps them."""

    dag_id: str
    round: Count
    attempt: Count
    status: DagStatus
    ended_at: datetime | None
    summary: FailureSummary
    nodes: tuple[FailedNode, ...]


class ExcludedFile(Model):
    """An input file that is not processed, and why."""

    lfn: str
    state: str
    reason: str


class ShortFile(Model):
    """An input file of which fewer events were read than the catalogue says it has. That is no failure."""

    lfn: str
    work_unit: Count
    events: Count
    """As the catalogue says."""
    read_events: Count


class RequestErrors(Model):
    """What failed in a request so far."""

    dags: tuple[RecordedFailures, ...]
    files: tuple[FileFailure, ...]
    excluded: tuple[ExcludedFile, ...]
    short: tuple[ShortFile, ...] = ()


class ErrorReport(RequestErrors):
    """What failed in a request, with where it stands, what to do, and all failures counted."""

    request_name: str
    status: RequestStatus
    reason: str
    advice: str
    """What a person can do next, in one sentence."""
    by_category: dict[str, Count]
    by_site: dict[str, Count]
    by_exit_code: dict[str, Count]
