"""What ReqMgr2 is told of a request: a pure function of how its requests stand, and the way to it there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from wms2.models.imports import Member
from wms2.models.request import RequestStatus

ACQUIRED, OPEN, CLOSED, COMPLETED = "acquired", "running-open", "running-closed", "completed"
FAILED, ABORTED = "failed", "aborted"
ENDS = frozenset({COMPLETED, FAILED, ABORTED})
"""After these ReqMgr2 hears nothing more."""
IMPORTABLE = ("assigned", "staging", "staged", ACQUIRED)

# ReqMgr2's own table, as far as WMS2 goes; people and other services go further.
TRANSITIONS: dict[str, tuple[str, ...]] = {
    "assigned": ("staging", ABORTED),
    "staging": ("staged", ABORTED),
    "staged": (ACQUIRED, FAILED, ABORTED),
    ACQUIRED: (OPEN, FAILED, ABORTED),
    OPEN: (CLOSED, ABORTED),
    CLOSED: (COMPLETED, ABORTED),
    "force-complete": (COMPLETED,),
}
# Where nothing is to be told any more: what comes after an end is the business of others.
_BEYOND: dict[str, tuple[str, ...]] = {
    # A request that is held at its end, or begins anew, does not go back.
    ACQUIRED: (OPEN, CLOSED),
    OPEN: (CLOSED,),
    COMPLETED: ("closed-out", "announced", "normal-archived"),
    ABORTED: ("aborted-completed", "aborted-archived"),
    FAILED: (ABORTED, "aborted-completed", "aborted-archived"),
}


def wanted(members: Sequence[Member]) -> str:
    """The status that a request of ReqMgr2 should have: of a chain, all of its requests count."""
    if all(member.status.is_final for member in members):
        return _end(members)
    stages = [_stage(member) for member in members]
    if all(stage in (CLOSED, COMPLETED) for stage in stages):
        return CLOSED
    return OPEN if any(stage != ACQUIRED for stage in stages) else ACQUIRED


def _end(members: Sequence[Member]) -> str:
    statuses = {member.status for member in members}
    if statuses == {RequestStatus.COMPLETED}:
        return COMPLETED
    return FAILED if RequestStatus.FAILED in statuses else ABORTED


def _stage(member: Member) -> str:
    """Closed is one whose rounds are all done: it waits for its outputs to be announced."""
    if member.status.is_final:
        return COMPLETED
    if member.status is RequestStatus.ACTIVE and not member.has_open_round:
        return CLOSED
    return OPEN if member.rounds else ACQUIRED


def way(now: str, to: str) -> list[str] | None:
    """The statuses to go through, the last one is where it ends; None where no way leads there.

    A request that is further already stays where it is. One that fails while it runs can only be aborted.
    """
    path = [] if now in _BEYOND.get(to, ()) else _path(now, to)
    return _path(now, ABORTED) if path is None and to == FAILED else path


def _path(start: str, end: str) -> list[str] | None:
    paths = deque([[start]])
    while paths:
        path = paths.popleft()
        if path[-1] == end:
            return path[1:]
        paths.extend([*path, after] for after in TRANSITIONS.get(path[-1], ()))
    return None
