"""The state of a request workflow: counters and ids, never lists of files. It travels through continue-as-new."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from wms2.models.messages import SubmittedDag
from wms2.models.request import RequestStatus
from wms2.models.sizing import MeasuredSizing


class OpenRound(BaseModel):
    """A round that is planned on a submit host and not yet closed."""

    model_config = ConfigDict(validate_assignment=True)

    number: int
    folder: Path
    host: str
    pilot: bool
    units: int
    attempt: int = 0
    """Submissions of its DAG so far: the first one and every rescue."""
    failure_rescues: int = 0
    units_told: int = 0
    """Work units whose outputs the output workflows have heard of."""
    produced: bool = False
    """Every work unit has its output: all that is left is to close the round."""
    dag: SubmittedDag | None = None
    """The submission that is running; None before one, after a stop and when it has ended."""


class RequestState(BaseModel):
    """Everything the request workflow knows. Fields are only ever added, with a default."""

    model_config = ConfigDict(validate_assignment=True)

    version: int = 1
    request_name: str
    requestor: str
    campaign: str
    priority: int
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
    release_closes_round: bool = False
    """Held because of failures: release gives up what the round did not produce, and plans a new one."""

    hold_threshold: float = 0.2
    max_rescues: int = 3
    next_round: int = 0
    next_lumi: int = 1
    open_round: OpenRound | None = None
    slot_host: str | None = None
    """The submit host of the slot that admission lent; None without a slot."""
    slot_asked: bool = False
    """Whether admission knows of this request: then it must be told when no slot is wanted any more."""
    sizing: MeasuredSizing | None = None

    outputs_started: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    logbook: tuple[str, ...] = ()
    """The latest changes of status, in words."""
    handled_actions: tuple[str, ...] = ()
    """Ids of the latest actions: a repeated one has no second effect."""
