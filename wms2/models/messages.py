"""What travels between workflows, activities and people: small models, never lists of files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from wms2.models.actions import Action
from wms2.models.base import Count, Model, PositiveCount
from wms2.models.next_round import NextRound
from wms2.models.progress import RoundProgress
from wms2.models.request import RequestStatus
from wms2.models.sizing import MeasuredSizing
from wms2.patterns import RequestName


class DagOrder(Model):
    """One submission of a round's DAG: attempt 1 is the first, each rescue is one more."""

    request: RequestName
    round: Count
    attempt: PositiveCount
    folder: Path

    @property
    def dag_id(self) -> str:
        """The tag that the DAGMan carries as WMS2_DagId."""
        return f"{self.request}:{self.round}:{self.attempt}"


class SubmittedDag(Model):
    """A DAG that is, or was, in the queue. `found` when a submission before this one had put it there."""

    order: DagOrder
    cluster: PositiveCount
    intent_at: datetime
    found: bool


class FollowOrder(Model):
    """A DAG to follow until there is news: its end, or more work units done than were told already."""

    dag: SubmittedDag
    units_told: Count


class DagObservation(Model):
    """A look at a DAG: how far it is, and the work units credited by this look."""

    progress: RoundProgress
    newly_credited: tuple[int, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Units that are complete on disk and cannot be credited, each with the reason."""


class OperatorAction(Model):
    """What a person asks of a request. The id is chosen by the caller: asking twice has one effect."""

    action: Action
    actor: str
    reason: str = ""
    action_id: str


class SlotRequest(Model):
    """A request that waits for a slot: a lease on (request, round)."""

    request: RequestName
    round: Count
    priority: int
    host: str | None = None
    """The submit host of a round that is already planned: it can run nowhere else."""
    said: Count = 0
    """Grows from word to word of a request: a stopped round asks again, and what it said before may come late."""

    @property
    def age(self) -> tuple[int, int]:
        return self.round, self.said


class Slot(Model):
    """A slot that admission lent, and the submit host that the round is to run on."""

    request: RequestName
    round: Count
    host: str
    said: Count = 0
    """From the question that it answers."""

    @property
    def age(self) -> tuple[int, int]:
        return self.round, self.said


class HostReport(Model):
    """A submit host that is ready for work, as its worker announces it."""

    host: str
    dagmans: PositiveCount
    """How many DAGMan processes it may run."""


class OutputOrder(Model):
    """One output dataset of a request, followed by a workflow of its own."""

    request: RequestName
    dataset: str


class OutputAnnounced(Model):
    dataset: str
    files: Count
    events: Count


class StatusRecord(Model):
    """A change of status on its way into the database; older ones than what is known are ignored."""

    request: RequestName
    status: RequestStatus
    sequence: Count
    actor: str
    reason: str = ""


class Alert(Model):
    """Somebody should look at a request."""

    request: RequestName
    kind: str
    message: str


class PlanOrder(Model):
    """Plan a round on the submit host that admission chose."""

    request: RequestName
    round: Count
    host: str
    first_lumi: PositiveCount
    next: NextRound
    sizing: MeasuredSizing | None = None


class PlannedRoundReport(Model):
    """A planned round in numbers: where it is, how large, and where the lumis of the next one begin."""

    folder: Path
    work_units: PositiveCount
    jobs: PositiveCount
    events: Count
    next_lumi: PositiveCount
    problems: tuple[str, ...] = ()


class RoundOrder(Model):
    """A round that has ended. `reason` is why what it did not produce is given up; "" when all was produced."""

    request: RequestName
    round: Count
    folder: Path
    reason: str = ""
    sizing: MeasuredSizing | None = None


class ClosedRound(Model):
    """What a round came to, and what was measured in it."""

    units_produced: Count
    units_abandoned: Count
    sizing: MeasuredSizing | None = None
    discrepancies: tuple[str, ...] = ()
    """What does not add up in the ledger; nothing when every event and file is accounted for."""
