"""When a DAGMan that HTCondor holds is released."""

import pytest

from wms2.activities.held import RELEASE_AFTER_SEC, released_at
from wms2.adapters.condor import HELD, HELD_BY_A_PERSON, DagmanAd

BY_THE_SYSTEM, SINCE = 3, 1000


def dagman(holds: int, code: int = BY_THE_SYSTEM) -> DagmanAd:
    return DagmanAd(cluster=1, job_status=HELD, hold_code=code, holds=holds, since=SINCE)


@pytest.mark.parametrize(("holds", "after"), [(0, 5), (1, 5), (2, 60), (3, 600)])
def test_each_hold_of_a_dagman_lasts_longer_than_the_one_before(holds: int, after: int) -> None:
    assert released_at(dagman(holds)) == SINCE + after


def test_what_is_held_again_and_again_or_by_a_person_is_a_persons_business() -> None:
    assert released_at(dagman(len(RELEASE_AFTER_SEC) + 1)) is None
    assert released_at(dagman(1, HELD_BY_A_PERSON)) is None
