"""What travels between workflows, activities and people: small models, never lists of files."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from wms2.models.actions import Action
from wms2.models.audit import Action as AuditedAction
from wms2.models.base import Count, Flag, Fraction, Model, PositiveCount
from wms2.models.next_round import NextRound
from wms2.models.policy import MOST_ATTEMPTS, FailureRule
from wms2.models.progress import RoundProgress
from wms2.models.request import CleanupPolicy, Priority, RequestStatus
from wms2.models.sizing import KnownSizing, MeasuredSizing, SizingOverride
from wms2.patterns import HostName, Lfn, RequestName, SiteName

NAMES_TOLD = 3

Attempts = Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)]


class DagOrder(Model):
    """One submission of a round's DAG: attempt 1 is the first, each rescue is one more."""

    request: RequestName
    round: Count
    attempt: PositiveCount
    folder: Path
    idle_jobs: PositiveCount | None = None
    """How many jobs each of its DAGMans may keep idle; None for what was planned."""

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


class RankOrder(Model):
    """The priority that the jobs of a round are to have, apart from the raise of its last work units."""

    request: RequestName
    round: Count
    folder: Path
    priority: Count


class RescueOrder(Model):
    """A round whose DAG is to run once more, and what a person changed for that run."""

    folder: Path
    avoid_sites: tuple[SiteName, ...] = ()
    memory_mb: PositiveCount | None = None


class RulesOrder(Model):
    """What people decided on failures, for the policy of a round: rules made of their verdicts, and attempts."""

    folder: Path
    rules: tuple[FailureRule, ...]
    attempts: Attempts | None = None


class FollowOrder(Model):
    """A DAG to follow until there is news: its end, or more work units done than were told already."""

    dag: SubmittedDag
    units_told: Count


class JudgedSites(Model):
    """What came of judging the sites of a DAG: what there is to say of bans, and where its rescue may run."""

    banned: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class DagObservation(Model):
    """A look at a DAG: how far it is."""

    progress: RoundProgress
    conflicts: tuple[str, ...] = ()
    """Units that are complete on disk and cannot be credited, each with the reason."""
    causes: str = ""
    """Why units have no output, in a few words."""
    page: str = ""
    """What failed, for people who look: bounded, in markdown."""
    units_waiting: Count = 0
    """Units that wait for a person's verdict on what failed."""
    units_judged: Count = 0
    """Units that gave up over failures which a verdict now calls worth another attempt."""


class OperatorAction(Model):
    """What a person asks of a request. The id is chosen by the caller: asking twice has one effect."""

    action: Action
    actor: str
    reason: str = ""
    action_id: str

    def audited(self, request: str, **detail: Any) -> AuditedAction:
        """As the audit trail keeps it; a ValidationError says what it could not hold."""
        return AuditedAction(
            action_id=self.action_id,
            actor=self.actor,
            action=self.action,
            request_name=request,
            reason=self.reason,
            detail=detail,
        )

    @property
    def words(self) -> str:
        return f"{self.action} by {self.actor}" + (f": {self.reason}" if self.reason else "")


class Changes(Model):
    """What a release changes before it takes effect. What is not given stays as it was."""

    exclude_files: tuple[Lfn, ...] = Field((), max_length=1000)
    avoid_sites: tuple[SiteName, ...] = Field((), max_length=1000)
    memory_mb: PositiveCount | None = None
    hold_threshold: Fraction | None = None
    max_rescues: Annotated[int, Field(ge=0, le=100)] | None = None
    attempts: Attempts | None = None

    @property
    def given(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_defaults=True)


class ReleaseAction(OperatorAction):
    """Let a request go on; with `rescue` it goes on with the same DAG, its rescues counted anew."""

    action: Action = Action.RELEASE
    rescue: Flag = False
    changes: Changes = Changes()

    @property
    def words(self) -> str:
        ways = ["with a rescue"] if self.rescue else []
        ways += [f"{name} {_said(value)}" for name, value in self.changes.given.items()]
        given = f" ({'; '.join(ways)})" if ways else ""
        return f"{self.action} by {self.actor}{given}" + (f": {self.reason}" if self.reason else "")


def _said(value: Any) -> str:
    """Many names are told by their number."""
    names = value if isinstance(value, list) else [value]
    return ", ".join(map(str, names)) if len(names) <= NAMES_TOLD else f"{len(names)} of them"


class DropAction(OperatorAction):
    """Do without a part of what was asked for: one of the four."""

    action: Action = Action.DROP
    files: tuple[Lfn, ...] = Field((), max_length=1000)
    units: tuple[Count, ...] = Field((), max_length=1000)
    files_left: Flag = False
    events_left: Flag = False

    @property
    def given(self) -> dict[str, Any]:
        return self.model_dump(
            mode="json", include={"files", "units", "files_left", "events_left"}, exclude_defaults=True
        )


class Dropped(Model):
    """What a drop came to: files of the input, or events of a simulation."""

    files: Count = 0
    events: Count = 0


class JudgeAction(OperatorAction):
    """A verdict on failures that no rule knows: a rule of this request from now on."""

    action: Action = Action.JUDGE
    rule: FailureRule

    @property
    def words(self) -> str:
        said = f"{self.action} by {self.actor}: {self.rule.name} is {self.rule.category}"
        return said + (f", {self.reason}" if self.reason else "")


class RestartAction(OperatorAction):
    """Begin anew with the next version of a request."""

    action: Action = Action.RESTART
    cleanup_policy: CleanupPolicy | None = None
    """What becomes of outputs that are replaced, from now on; None as the request itself says."""

    @property
    def given(self) -> dict[str, Any]:
        return self.model_dump(mode="json", include={"cleanup_policy"}, exclude_none=True)

    @property
    def words(self) -> str:
        policy = f" ({self.cleanup_policy})" if self.cleanup_policy else ""
        return f"{self.action} by {self.actor}{policy}" + (f": {self.reason}" if self.reason else "")


class HostLostAction(OperatorAction):
    """The submit host of a request's open round is gone, and its files with it."""

    action: Action = Action.HOST_LOST
    host: HostName

    @property
    def words(self) -> str:
        said = f"submit host {self.host} is lost, says {self.actor}"
        return said + (f": {self.reason}" if self.reason else "")


class PriorityAction(OperatorAction):
    """The priority of a request from now on, instead of its own and of those of its production steps."""

    action: Action = Action.PRIORITY
    priority: Priority


class SizeAction(OperatorAction):
    """What an operator decides for the rounds to come. The fields given replace earlier ones, the others stay."""

    action: Action = Action.SIZE
    change: SizingOverride = SizingOverride()
    clear: bool = False
    """Forget all that was decided; nothing else can be asked at the same time."""

    def applied_to(self, before: SizingOverride) -> SizingOverride:
        """What is in force after it."""
        return SizingOverride() if self.clear else before.model_copy(update=self.change.given)


class SlotRequest(Model):
    """A request that waits for a slot: a lease on (request, round)."""

    request: RequestName
    round: Count
    priority: int
    host: HostName | None = None
    """The submit host of a round that is already planned: it can run nowhere else."""
    said: Count = 0
    """Grows from word to word of a request: a stopped round asks again, and what it said before may come late."""
    created_at: datetime | None = None
    """When the request was recorded, by the clock of the database; None for one that asked before this was told."""

    @property
    def age(self) -> tuple[int, int]:
        return self.round, self.said


class Slot(Model):
    """A slot that admission lent, and the submit host that the round is to run on."""

    request: RequestName
    round: Count
    host: HostName
    said: Count = 0
    """From the question that it answers."""
    idle_jobs: PositiveCount | None = None
    """How many jobs each DAGMan of the round may keep idle: its share of the budget that all rounds have."""

    @property
    def age(self) -> tuple[int, int]:
        return self.round, self.said


class HostList(Model):
    """The submit hosts that may be lent slots, all of them, and how many DAGMan processes each may run."""

    at: datetime
    """When it was so, by the clock of the database: an older list that comes late is not heard."""
    dagmans: dict[HostName, PositiveCount]


class AdmissionOrder(Model):
    """What a person asks of admission. What is not given stays as it is; asking twice has one effect."""

    action: Literal["set", "drain", "resume"]
    actor: str
    reason: str = ""
    action_id: str
    limit: PositiveCount | None = None
    idle_budget: PositiveCount | None = None

    @property
    def given(self) -> dict[str, int]:
        return self.model_dump(include={"limit", "idle_budget"}, exclude_none=True)

    def audited(self) -> AuditedAction:
        """As the audit trail keeps it; a ValidationError says what it could not hold."""
        return AuditedAction(
            action_id=self.action_id,
            actor=self.actor,
            action=f"admission_{self.action}",
            reason=self.reason,
            detail=self.given,
        )


class OutputOrder(Model):
    """One output dataset of a request, followed by a workflow of its own."""

    request: RequestName
    dataset: str
    urgent: bool = False
    finishing: bool = False
    """No more files will come."""


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


class InVain(Model):
    """A service was asked for something, again and again, and did not give it."""

    service: str
    asked: str
    """The activity that asked."""
    problem: str


class TimeLimits(Model):
    """How long statuses may last, where that is not what is usual."""

    limits: dict[RequestStatus, timedelta] = Field(default_factory=dict)


class PlanOrder(Model):
    """Plan a round on the submit host that admission chose."""

    request: RequestName
    round: Count
    host: str
    first_lumi: PositiveCount
    next: NextRound
    sizing: KnownSizing = KnownSizing()
    idle_jobs: PositiveCount | None = None
    """How many jobs each DAGMan of the round may keep idle, by the slot."""


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
    folder: Path | None
    """None when its submit host is lost: then the ledger alone says what was produced."""
    reason: str = ""
    sizing: MeasuredSizing | None = None
    """What was known from the rounds before."""


class ClosedRound(Model):
    """What a round came to, and what was measured in it."""

    units_produced: Count
    units_abandoned: Count
    sizing: MeasuredSizing | None = None
    """None when nothing could be measured: what was known before holds."""
    discrepancies: tuple[str, ...] = ()
    """What does not add up in the ledger; nothing when every event and file is accounted for."""
