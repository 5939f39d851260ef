"""Requests of both kinds on the real engines, and people who interfere."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.documents import (
    EVENTS_PER_FILE,
    INPUT_FILES,
    PILOT_JOB,
    SECOND_JOB,
    reprocessing,
    simulation,
    task_chain,
    waits,
)
from tests.e2e.stand import Stand, own_stand
from wms2.temporal.client import connect
from wms2.temporal.ids import CHAINS, REQMGR2

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("kills")]


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


def test_a_chain_of_tasks_from_reqmgr2_runs_task_by_task_and_reqmgr2_hears_of_its_end(stand: Stand) -> None:
    name, first, second = "e2e_chain", "e2e_chain_Task1", "e2e_chain_Task2"
    gate = stand.gate("chain")
    document = task_chain(name, stand.folder, waits(gate, PILOT_JOB))
    url = f"{stand.settings.needed('services_url')}/reqmgr2/data/request"
    httpx.post(url, json=document, trust_env=False).raise_for_status()
    for _ in range(2):
        stand.wms2("request", "import", name)
    stand.until(second, "new")
    assert stand.record(second).status_reason == f"waits for {document['OutputDatasets'][0]} of {first}"
    stand.open(gate)
    stand.until(first, "completed")
    trigger(stand, CHAINS)
    stand.until(second, "completed")
    assert stand.statuses(second)[:2] == ["new", "submitted"]
    assert stand.events(second) == stand.events(first) != Counter()
    trigger(stand, REQMGR2)
    stand.wait(lambda: told_reqmgr2(url, name)[-1] == "completed", stand.log)
    assert told_reqmgr2(url, name)[-4:] == ["acquired", "running-open", "running-closed", "completed"]


def trigger(stand: Stand, schedule: str) -> None:
    """Now, instead of within some minutes."""

    async def run() -> None:
        await (await connect(stand.settings)).get_schedule_handle(schedule).trigger()

    asyncio.run(run())


def told_reqmgr2(url: str, name: str) -> list[str]:
    """What the request went through in ReqMgr2."""
    (answer,) = httpx.get(f"{url}/{name}", trust_env=False).raise_for_status().json()["result"]
    return [change["Status"] for change in answer[name]["RequestTransition"]]
