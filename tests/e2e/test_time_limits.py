"""A request whose DAG takes long, on the real engines."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.e2e.documents import SECOND_JOB, simulation, waits
from tests.e2e.stand import Stand, own_stand
from wms2.local import pool

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("kills")]


@pytest.fixture
def stand() -> Iterator[Stand]:
    with own_stand() as stand:
        stand.environment["WMS2_TIME_LIMITS_HOURS"] = json.dumps({"active": 3 / 3600})
        stand.start_worker()
        yield stand


def until_alerted(stand: Stand, kind: str, name: str) -> None:
    log, until = stand.folder / "worker.log", time.monotonic() + stand.patience_sec
    while f"ALERT [{kind}] {name}: has been active since" not in log.read_text():
        assert time.monotonic() < until, stand.log()
        time.sleep(0.5)


def test_a_dag_that_takes_long_is_looked_for_on_its_host_and_never_given_up_by_itself(stand: Stand) -> None:
    name = stand.submit(simulation("e2e_slow", stand.folder, waits(stand.gate("slow"), SECOND_JOB)))
    stand.until(name, "active")
    until_alerted(stand, "slow_dag", name)
    assert "alert: slow_dag" in stand.wms2("request", "why", name)
    stand.kill(pool.PART)
    until_alerted(stand, "schedd_unreachable", name)
    assert stand.overview(name).record.status == "active"
