"""What operators do with requests that fail, on the real engines. Afterwards the ledger is exact."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e import stories
from tests.e2e.documents import PILOT_JOB, pilot_only, waits
from tests.e2e.dying_worker import REMEDIES
from tests.e2e.stand import Stand, own_stand
from tests.e2e.test_kills import Mortal
from wms2.db.audit import audit_trail
from wms2.db.session import transaction
from wms2.models.ledger import WorkUnitStatus
from wms2.models.request import RequestStatus

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("stories")]


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with own_stand() as stand:
        stand.start_worker()
        yield stand


def test_a_release_with_changes_closes_the_round_and_completes(stand: Stand) -> None:
    name = "e2e_changed"
    stories.is_released_with_changes(stand, name)
    stand.assert_exactly_once(name, "0:1", "1:1")
    assert set(stand.overview(name).avoided_sites) == {"T1_US_FNAL"}
    planned = (stand.home / "submit" / name / "round_01" / "round.inc").read_text()
    assert "T1_US_FNAL" not in planned
    assert "T2_DE_DESY" in planned


def test_a_release_with_a_rescue_goes_on_with_the_same_round(stand: Stand) -> None:
    name = "e2e_rescued"
    stories.is_released_with_a_rescue(stand, name)
    stand.assert_exactly_once(name, "0:1", "0:2")
    round_ = stand.home / "submit" / name / "round_00"
    assert "T1_US_FNAL" not in (round_ / "round.inc").read_text()
    assert "proc_000001_memory = 600" in (round_ / "mg_000001" / "memory.inc").read_text()


def test_a_request_completes_without_the_work_unit_that_was_dropped(stand: Stand) -> None:
    name = "e2e_dropped"
    stories.is_completed_without_a_part(stand, name)
    seen = stand.overview(name)
    assert seen.ledger.units == {WorkUnitStatus.PRODUCED: 1, WorkUnitStatus.ABANDONED: 1}
    assert (seen.ledger.events_produced, seen.ledger.events_dropped) == (20, 20)
    assert stand.events(name) == Counter(range(1, 21))
    stand.assert_ledger_is_exact(name)


def test_a_restart_removes_the_old_dag_and_completes_the_next_version(stand: Stand) -> None:
    name = "e2e_restarted"
    stories.is_restarted(stand, name)
    old, new = stand.overview(name), stand.overview(f"{name}_v2")
    assert (old.record.status, old.record.superseded_by_request) == (RequestStatus.FAILED, f"{name}_v2")
    assert new.record.request.previous_version_request == name
    assert new.outputs[0].dataset.endswith("-v2/GEN-SIM")
    assert stand.dag_ids(name) == [f"{name}:0:1"]
    stand.assert_exactly_once(f"{name}_v2", "0:1")
    stand.assert_ledger_is_exact(name)


def test_queued_jobs_and_those_to_come_get_the_new_priority(stand: Stand) -> None:
    name = "e2e_prioritised"
    stories.is_prioritised(stand, name)
    stand.assert_exactly_once(name, "0:1")
    seen = stand.overview(name)
    assert (seen.record.priority, seen.record.request.priority) == (7, 100_000)


def test_a_failed_request_tells_where_the_list_of_its_outputs_is(stand: Stand) -> None:
    name = "e2e_failed"
    stories.is_held_by_failures(stand, name)
    stand.wms2("request", "fail", name, "--reason", "wrong conditions", "--yes")
    stand.until(name, "held", "failed")
    listed = stand.overview(name).invalidation
    assert listed is not None
    assert listed.path == str(stand.home / "submit" / name / "invalidation.json")
    assert "to invalidate" in stand.wms2("request", "show", name)


# A worker that is killed ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mortal(stand: Stand) -> Mortal:
    stand.kill_worker()
    return Mortal(stand)


def steps(kind: str) -> list[str]:
    return [place for place in REMEDIES if place.startswith(kind)]


def audited(stand: Stand, name: str, action: str) -> int:
    with transaction(stand.engine) as session:
        return sum(entry.action.action == action for entry in audit_trail(session, name))


def test_a_worker_killed_in_a_restart_leaves_one_next_version(stand: Stand, mortal: Mortal) -> None:
    name = "e2e_killed_restart"
    gate = stand.gate(name)
    stand.submit(pilot_only(name, stand.folder, waits(gate, PILOT_JOB)))
    stand.until(name, "pilot_running")
    mortal.arm(name, *steps("restarting"))
    stand.wms2("request", "restart", name, "--yes")
    mortal.die()
    stand.until(name, "stopping", "failed")
    stand.open(gate)
    stand.until(f"{name}_v2", "completed")
    stand.assert_exactly_once(f"{name}_v2", "0:1")
    assert audited(stand, name, "restart") == 1


def test_a_worker_killed_in_a_release_with_a_rescue_submits_one_dag(stand: Stand, mortal: Mortal) -> None:
    name = "e2e_killed_rescue"
    stories.is_held_by_failures(stand, name)
    mortal.arm(name, *steps("rescuing"), *steps("releasing"))
    stand.wms2("request", "release", name, "--rescue", "--memory-mb", "600", "--avoid-site", "T1_US_FNAL")
    mortal.die()
    stand.until(name, "completed")
    stand.assert_exactly_once(name, "0:1", "0:2")
    assert audited(stand, name, "release") == 1


def test_a_worker_killed_in_a_drop_drops_once(stand: Stand, mortal: Mortal) -> None:
    name = "e2e_killed_drop"
    stories.is_held_by_failures(stand, name)
    mortal.arm(name, *steps("dropping"))
    stand.wms2("request", "drop", name, "--units", "mg_000001", "--yes")
    mortal.die()
    stand.wms2("request", "release", name)
    stand.until(name, "completed")
    assert stand.overview(name).ledger.events_dropped == 20
    stand.assert_ledger_is_exact(name)


def test_a_worker_killed_in_a_fail_lists_the_outputs_once(stand: Stand, mortal: Mortal) -> None:
    name = "e2e_killed_fail"
    stories.is_held_by_failures(stand, name)
    mortal.arm(name, *steps("failing"))
    stand.wms2("request", "fail", name, "--yes")
    mortal.die()
    stand.until(name, "held", "failed")
    assert (audited(stand, name, "fail"), audited(stand, name, "invalidation")) == (1, 1)
