"""How long a status may last, and what happens when it lasts longer.

The tables are the rule. Nothing fails by itself: what has passed its limit is told to people, looked at or held
with a reason, and told again for as long as it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from wms2.models.progress import Sighting
from wms2.models.request import RequestStatus

NEW, SUBMITTED, QUEUED = RequestStatus.NEW, RequestStatus.SUBMITTED, RequestStatus.QUEUED
PILOT_RUNNING, PLANNING, ACTIVE = RequestStatus.PILOT_RUNNING, RequestStatus.PLANNING, RequestStatus.ACTIVE
PARTIAL, HELD = RequestStatus.PARTIAL, RequestStatus.HELD
STOPPING, RESUBMITTING = RequestStatus.STOPPING, RequestStatus.RESUBMITTING

TIME_LIMITS: Mapping[RequestStatus, timedelta] = {
    NEW: timedelta(days=30),
    SUBMITTED: timedelta(hours=1),
    QUEUED: timedelta(days=7),
    PILOT_RUNNING: timedelta(days=1),
    PLANNING: timedelta(hours=1),
    ACTIVE: timedelta(days=30),
    PARTIAL: timedelta(hours=1),
    HELD: timedelta(days=7),
    STOPPING: timedelta(hours=1),
    RESUBMITTING: timedelta(minutes=10),
}
"""Unless the settings say otherwise."""


def limits_with(hours: Mapping[RequestStatus, float]) -> dict[RequestStatus, timedelta]:
    """All limits, with those that are configured."""
    return {**TIME_LIMITS, **{status: timedelta(hours=number) for status, number in hours.items()}}


LAST_WORD = timedelta(minutes=10)
"""How long a follower has to tell of a DAG that was seen to be gone."""


GRACE = timedelta(minutes=30)
"""How far off a request's own alarm may be: its clock is not the record's, and it may first look for the DAG."""
RECORDED_ANEW = timedelta(days=1)
"""Alerts with the same words are recorded once in this time."""


class Handling(StrEnum):
    """What is done about a status that has lasted too long."""

    REMIND = "remind"
    """It waits for others; people hear of it."""
    HOLD = "hold"
    """It should have been quick, and trying longer does not help: it is broken off and the request held."""
    LOOK = "look"
    """It may just be slow: its DAG is looked for on its submit host, and that decides."""


HANDLING: Mapping[RequestStatus, Handling] = {
    NEW: Handling.REMIND,
    SUBMITTED: Handling.HOLD,
    QUEUED: Handling.REMIND,
    PILOT_RUNNING: Handling.LOOK,
    PLANNING: Handling.HOLD,
    ACTIVE: Handling.LOOK,
    PARTIAL: Handling.HOLD,
    HELD: Handling.REMIND,
    # By then the story has asked for the removal of the DAG a second time, and holds the request if that is in vain.
    STOPPING: Handling.REMIND,
    RESUBMITTING: Handling.HOLD,
}


@dataclass(frozen=True)
class Overrun:
    """A request whose status has passed its limit, and what is known of it."""

    status: RequestStatus
    since: datetime
    dag_id: str = ""
    """The DAG that runs; empty where none does."""
    host: str = ""
    sighting: Sighting | None = None
    """What became of that DAG; None where nobody looked."""
    waits_for: str = ""
    """What it waits for, in words; empty where that is not known."""


@dataclass(frozen=True)
class Step:
    """What is done about an overrun: people are told, and the request may be held, with the same words."""

    alert: str
    """The kind of the alert."""
    words: str
    hold: bool = False


@dataclass(frozen=True)
class Standing:
    """How long a request has its status, as the record knows it."""

    request_name: str
    status: RequestStatus
    since: datetime
    alerted_at: datetime | None = None
    """When an alert about it was last recorded."""


def is_unattended(standing: Standing, limit: timedelta, now: datetime) -> bool:
    """Whether a status has passed its limit and nobody has said so, or not for long: its own watch does not work."""
    end = standing.since + limit
    told_since = max(end - GRACE, now - limit - RECORDED_ANEW - GRACE)
    is_told = standing.alerted_at is not None and standing.alerted_at >= told_since
    return now > end + GRACE and not is_told


def unattended_step(standing: Standing) -> Step:
    lasted = _lasted(standing.status, standing.since)
    return Step(f"long_{standing.status}", f"{lasted}, and its workflow has not said that this is too long")


def needs_a_look(status: RequestStatus) -> bool:
    return HANDLING[status] is Handling.LOOK


def step_for(overrun: Overrun) -> Step:
    """The decision on a status that has passed its limit."""
    lasted = _lasted(overrun.status, overrun.since)
    match HANDLING[overrun.status]:
        case Handling.HOLD:
            return Step(f"long_{overrun.status}", f"{lasted}, which should not take so long", hold=True)
        case Handling.LOOK if overrun.sighting is not None:
            return _seen(overrun, overrun.sighting, lasted)
        case Handling.LOOK if overrun.waits_for:
            return Step("slow_outputs", f"{lasted} and waits for {overrun.waits_for}")
    waiting = f" and waits for {overrun.waits_for}" if overrun.waits_for else ""
    return Step(f"long_{overrun.status}", f"{lasted}{waiting}")


def _lasted(status: RequestStatus, since: datetime) -> str:
    return f"has been {status} since {since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _seen(overrun: Overrun, sighting: Sighting, lasted: str) -> Step:
    """A schedd or a host that is away may come back: whether its work is given up is a person's word."""
    dag, host = overrun.dag_id, overrun.host
    return {
        Sighting.QUEUED: Step("slow_dag", f"{lasted}; its DAG {dag} is in the queue of {host}"),
        Sighting.GONE: Step(
            "lost_dag",
            f"{lasted}; its DAG {dag} has left the queue of {host}, and nobody could tell how it ended",
            hold=True,
        ),
        Sighting.NO_SCHEDD: Step("schedd_unreachable", f"{lasted}; the schedd of {host} does not answer"),
        Sighting.NO_WORKER: Step("lost_host", f"{lasted}; no worker on {host} looks for its DAG {dag}"),
    }[sighting]
