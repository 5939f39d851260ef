"""Requests of both kinds on the real engines, and people who interfere."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e.documents import EVENTS_PER_FILE, INPUT_FILES, SECOND_JOB, reprocessing, simulation, waits
from tests.e2e.stand import Stand, own_stand

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("requests")]


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with own_stand() as stand:
        stand.start_worker()
        yield stand


def test_requests_of_both_kinds_complete_side_by_side_with_every_event_once(stand: Stand) -> None:
    fails_once = {"node": SECOND_JOB, "exit_code": 8028, "times": 1}
    simulated = stand.submit(simulation("e2e_simulation", stand.folder, fails_once))
    reprocessed = stand.submit(reprocessing("e2e_reprocessing", stand.folder))
    for name in (simulated, reprocessed):
        stand.until(name, "completed")
        stand.assert_exactly_once(name, "0:1", "1:1")
    assert stand.events(simulated) == Counter(range(1, 101))
    assert stand.events(reprocessed) == Counter(range(1, INPUT_FILES * EVENTS_PER_FILE + 1))


def test_a_stop_resumes_and_an_abort_ends(stand: Stand) -> None:
    gate = stand.gate("stopped")
    name = stand.submit(simulation("e2e_stopped", stand.folder, waits(gate, SECOND_JOB)))
    stand.until(name, "active")
    stand.wms2("request", "stop", name, "--reason", "maintenance")
    stand.until(name, "stopping", "resubmitting", "queued", "active")
    stand.wms2("request", "abort", name, "--yes")
    stand.until(name, "stopping", "aborted")
    events = stand.events(name)
    assert set(events.values()) == {1}
    assert len(events) == stand.overview(name).ledger.events_produced
    assert stand.dag_ids(name) == [f"{name}:{dag}" for dag in ("0:1", "1:1", "1:2")]
