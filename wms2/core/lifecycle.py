"""A request's life: which action fits which status, and how long a status may last.

The table is the rule; everything that lets people act asks it.
"""

from __future__ import annotations

from datetime import timedelta

from wms2.models.actions import Action
from wms2.models.request import RequestStatus

NEW, SUBMITTED, QUEUED = RequestStatus.NEW, RequestStatus.SUBMITTED, RequestStatus.QUEUED
PILOT_RUNNING, PLANNING, ACTIVE = RequestStatus.PILOT_RUNNING, RequestStatus.PLANNING, RequestStatus.ACTIVE
PARTIAL, HELD = RequestStatus.PARTIAL, RequestStatus.HELD
STOPPING, RESUBMITTING = RequestStatus.STOPPING, RequestStatus.RESUBMITTING


_BEFORE_A_DAG = {SUBMITTED, QUEUED, PLANNING, RESUBMITTING}
_WITH_A_DAG = {PILOT_RUNNING, ACTIVE}

FITS: dict[Action, frozenset[RequestStatus]] = {
    Action.RELEASE: frozenset({NEW, HELD}),
    Action.STOP: frozenset(_WITH_A_DAG),
    Action.HOLD: frozenset(_BEFORE_A_DAG | _WITH_A_DAG),
    Action.FAIL: frozenset({HELD}),
    Action.ABORT: frozenset({NEW, HELD} | _BEFORE_A_DAG | _WITH_A_DAG),
}

TIME_LIMITS: dict[RequestStatus, timedelta] = {
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
"""After this long in a status somebody is told; nothing that waits does so in silence."""


def objection(action: Action, status: RequestStatus) -> str | None:
    """Why an action does not fit a status, in words for the person who asked; None when it fits."""
    if status in FITS[action]:
        return None
    if status.is_final:
        return f"the request is {status}, and that is final"
    fitting = ", ".join(sorted(FITS[action]))
    return f"the request is {status}; {action} needs one that is {fitting}"
