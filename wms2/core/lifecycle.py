"""A request's life: which action fits which status.

The table is the rule; everything that lets people act asks it.
"""

from __future__ import annotations

from wms2.models.actions import Action
from wms2.models.request import RequestStatus

NEW, SUBMITTED, QUEUED = RequestStatus.NEW, RequestStatus.SUBMITTED, RequestStatus.QUEUED
PILOT_RUNNING, PLANNING, ACTIVE = RequestStatus.PILOT_RUNNING, RequestStatus.PLANNING, RequestStatus.ACTIVE
PARTIAL, HELD = RequestStatus.PARTIAL, RequestStatus.HELD
STOPPING, RESUBMITTING = RequestStatus.STOPPING, RequestStatus.RESUBMITTING


_BEFORE_A_DAG = {SUBMITTED, QUEUED, PLANNING, RESUBMITTING}
_WITH_A_DAG = {PILOT_RUNNING, ACTIVE}
_NOT_FINAL = frozenset(status for status in RequestStatus if not status.is_final)

FITS: dict[Action, frozenset[RequestStatus]] = {
    Action.RELEASE: frozenset({NEW, HELD}),
    Action.STOP: frozenset(_WITH_A_DAG),
    Action.HOLD: frozenset(_BEFORE_A_DAG | _WITH_A_DAG),
    Action.FAIL: frozenset({HELD}),
    Action.ABORT: frozenset({NEW, HELD} | _BEFORE_A_DAG | _WITH_A_DAG),
    Action.RESTART: frozenset({HELD} | _BEFORE_A_DAG | _WITH_A_DAG),
    Action.DROP: frozenset({HELD}),
    Action.SIZE: _NOT_FINAL,
    Action.PRIORITY: _NOT_FINAL,
    Action.JUDGE: _NOT_FINAL,
    Action.HOST_LOST: frozenset({PARTIAL, HELD, STOPPING} | _BEFORE_A_DAG - {SUBMITTED} | _WITH_A_DAG),
}


def objection(action: Action, status: RequestStatus) -> str | None:
    """Why an action does not fit a status, in words for the person who asked; None when it fits."""
    if status in FITS[action]:
        return None
    if status.is_final:
        return f"the request is {status}, and that is final"
    fitting = ", ".join(sorted(FITS[action]))
    return f"the request is {status}; {action} needs one that is {fitting}"
