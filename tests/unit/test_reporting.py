"""What ReqMgr2 is told of a request, and the way there."""

import pytest

from wms2.core.chains import may_start, waiting_words
from wms2.core.reporting import TRANSITIONS, wanted, way
from wms2.local.reqmgr2 import TRANSITIONS as REAL
from wms2.models.chain import Waiting
from wms2.models.imports import Member
from wms2.models.request import RequestStatus as Status

QUEUED = Member(status=Status.QUEUED)
RUNNING = Member(status=Status.ACTIVE, rounds=2, has_open_round=True)
ANNOUNCING = Member(status=Status.ACTIVE, rounds=2)
WAITING = Member(status=Status.NEW)
DONE, FAILED, ABORTED = (
    Member(status=status, rounds=1) for status in (Status.COMPLETED, Status.FAILED, Status.ABORTED)
)


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ([Member(status=Status.SUBMITTED)], "acquired"),
        ([QUEUED], "acquired"),
        ([Member(status=Status.HELD)], "acquired"),
        ([Member(status=Status.PILOT_RUNNING, rounds=1, has_open_round=True)], "running-open"),
        ([Member(status=Status.QUEUED, rounds=1)], "running-open"),
        ([Member(status=Status.HELD, rounds=1)], "running-open"),
        ([RUNNING], "running-open"),
        ([ANNOUNCING], "running-closed"),
        ([DONE], "completed"),
        ([FAILED], "failed"),
        ([ABORTED], "aborted"),
    ],
)
def test_a_request_is_told_by_its_status_and_its_rounds(members: list[Member], status: str) -> None:
    assert wanted(members) == status


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ([QUEUED, WAITING], "acquired"),
        ([RUNNING, WAITING], "running-open"),
        ([ANNOUNCING, WAITING], "running-open"),
        ([DONE, WAITING], "running-open"),
        ([DONE, RUNNING], "running-open"),
        ([DONE, ANNOUNCING], "running-closed"),
        ([DONE, DONE], "completed"),
        ([FAILED, WAITING], "running-open"),
        ([DONE, FAILED], "failed"),
        ([FAILED, ABORTED], "failed"),
        ([DONE, ABORTED], "aborted"),
    ],
)
def test_a_chain_is_told_by_all_of_its_requests(members: list[Member], status: str) -> None:
    assert wanted(members) == wanted(members[::-1]) == status


@pytest.mark.parametrize(
    ("now", "to", "steps"),
    [
        ("assigned", "acquired", ["staging", "staged", "acquired"]),
        ("staged", "running-open", ["acquired", "running-open"]),
        ("acquired", "completed", ["running-open", "running-closed", "completed"]),
        ("acquired", "failed", ["failed"]),
        ("running-open", "failed", ["aborted"]),
        ("running-closed", "aborted", ["aborted"]),
        ("running-closed", "running-open", []),
        ("announced", "completed", []),
        ("aborted-completed", "failed", []),
        ("completed", "completed", []),
        ("aborted", "running-open", None),
        ("completed", "running-open", None),
        ("rejected", "completed", None),
        ("new", "acquired", None),
    ],
)
def test_the_way_goes_along_the_transitions_and_never_back(
    now: str, to: str, steps: list[str] | None
) -> None:
    assert way(now, to) == steps


def test_every_transition_is_one_of_reqmgr2() -> None:
    assert all(after in REAL[before] for before, afters in TRANSITIONS.items() for after in afters)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.ACTIVE, "waits for /A/B-v1/RAW of first"),
        (Status.HELD, "waits for /A/B-v1/RAW of first, which is held"),
        (Status.FAILED, "waits for /A/B-v1/RAW of first, which has failed: abort this one, or release it"),
    ],
)
def test_who_waits_is_told_what_became_of_whom_it_waits_for(status: Status, words: str) -> None:
    waiting = Waiting(request="second", parent="first", dataset="/A/B-v1/RAW", parent_status=status)
    assert waiting_words(waiting).startswith(words)
    assert not may_start(waiting)
    assert may_start(waiting.model_copy(update={"parent_status": Status.COMPLETED}))
