"""The state of a request workflow: counters and ids, never lists of files. It travels through continue-as-new."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from wms2.models.messages import SubmittedDag
from wms2.models.policy import FailureRule
from wms2.models.request import RequestStatus
from wms2.models.sizing import KnownSizing, MeasuredSizing, SizingOverride


class OpenRound(BaseModel):
    """A round that is planned on a submit host and not yet closed."""

    model_config = ConfigDict(validate_assignment=True)

    number: int
    folder: Path
    host: str
    pilot: bool
    units: int
    priority: int | None = None
    """Of its part of the sample; None as long as the request's own holds."""
    rank: int | None = None
    """The priority that its folder was last given, apart from the raise of its last work units."""
    retried: bool = False
    """What it runs now failed before, and goes first."""
    attempt: int = 0
    """Submissions of its DAG so far: the first one and every rescue."""
    failure_rescues: int = 0
    removals: int = 0
    """How often somebody removed its DAG and WMS2 did not ask for it."""
    units_told: int = 0
    """Work units whose outputs the output workflows have heard of."""
    produced: bool = False
    """Every work unit has its output: all that is left is to close the round."""
    dag: SubmittedDag | None = None
    """The submission that is running; None before one, after a stop and when it has ended."""
    failed_dag: SubmittedDag | None = None
    """The submission over whose failures the request is held: a verdict may let it go on."""
    verdicts_written: int = 0
    """How many of the request's verdicts are in its policy file."""
    verdicts_seen: int = 0
    """How many of them were known when its failures were last looked at."""
    host_lost: bool = False
    """Its folder is out of reach for good: nothing more is asked of its host."""


class RequestState(BaseModel):
    """Everything the request workflow knows. Fields are only ever added, with a default."""

    model_config = ConfigDict(validate_assignment=True)

    version: int = 1
    request_name: str
    requestor: str
    campaign: str
    priority: int
    ranked_by_hand: bool = False
    """A person set the priority: it holds for all parts of the sample."""
    urgent: bool = False
    datasets: tuple[str, ...]
    summary: str = ""
    """What was asked for, in a line: Temporal's own summary does not outlive the first history."""

    status: RequestStatus = RequestStatus.NEW
    status_since: datetime | None = None
    alerted_at: datetime | None = None
    """When somebody was last told that a status has lasted too long."""
    sequence: int = 0
    held_reason: str = ""
    failures: str = ""
    """What failed in the DAG over which it is held, for its page in the Web UI."""
    waits_for: str = ""
    """What a request that is kept back waits for, in words; empty for one that a person keeps back."""
    release_closes_round: bool = False
    """Held because of failures: release gives up what the round did not produce, and plans a new one."""

    hold_threshold: float = 0.2
    max_rescues: int = 3
    next_round: int = 0
    next_lumi: int = 1
    open_round: OpenRound | None = None
    slot_host: str | None = None
    """The submit host of the slot that admission lent; None without a slot."""
    slot_idle_jobs: int | None = None
    """How many jobs each DAGMan of the round may keep idle, by that slot."""
    slot_asked: bool = False
    """Whether admission knows of this request: then it must be told when no slot is wanted any more."""
    sizing: MeasuredSizing | None = None
    override: SizingOverride = SizingOverride()
    """What an operator decided over it, until it is cleared."""

    rules: tuple[FailureRule, ...] = ()
    """What people made of their verdicts, for all rounds."""
    attempts: int | None = None
    """How many attempts a node has of its own, if a person decided it."""
    verdicts: int = 0
    """How often people decided on rules and attempts, also where that replaced another decision."""

    prefetch: str = ""
    """Where its input is to be before the first slot is asked for; empty where that does not matter."""
    input_is_there: bool = False
    input_progress: str = ""
    input_stuck_since: datetime | None = None
    """Since when Rucio does not get on with it; a release begins to count anew."""

    superseded_by: str = ""
    """The request that replaces this one after a restart."""
    replaces: str = ""
    """The request that this one replaces after a restart."""
    outputs_started: tuple[str, ...] = ()
    stuck_outputs: dict[str, str] = {}
    """Datasets that do not get on without a person, each with the reason."""
    announced: tuple[str, ...] = ()
    outputs_awaited: int = 0
    """The number of the status in which it waits for its outputs; of an earlier one, or 0, when it does not."""
    logbook: tuple[str, ...] = ()
    """The latest changes of status, in words."""
    handled_actions: tuple[str, ...] = ()
    """Ids of the latest actions: a repeated one has no second effect."""

    @property
    def known_sizing(self) -> KnownSizing:
        return KnownSizing(measured=self.sizing, override=self.override)
