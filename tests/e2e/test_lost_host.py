"""A submit host that is lost in the middle of a round, and comes back when nobody waits for it: on the real engines."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.documents import waits
from tests.e2e.stand import ROOT, WMS2, Stand, own_stand
from tests.e2e.test_stories import at_once, job
from wms2.models.ledger import WorkUnitStatus

pytestmark = pytest.mark.pool

LOST, OTHER = "submit-1", "submit-2"


def start_worker(stand: Stand, host: str) -> None:
    stand.environment["WMS2_HOST"] = host
    stand.start_worker()


def hosts(stand: Stand) -> list[str]:
    """Those that admission lends slots on; none while it does not answer."""
    shown = stand._run("admission", "show", "--json")
    return [host["host"] for host in json.loads(shown.stdout)["hosts"]] if shown.returncode == 0 else []


def test_a_round_of_a_lost_host_goes_on_elsewhere_and_what_the_host_still_runs_counts_for_nothing() -> None:
    with own_stand() as stand:
        start_worker(stand, LOST)
        gate = stand.gate("lost")
        name = stand.submit(at_once("lost_host", stand, 3, waits(gate, job(2))))
        stand.wait(
            lambda: stand.overview(name).ledger.units.get(WorkUnitStatus.PRODUCED) == 2,
            lambda: stand.tale(name),
        )
        stand.kill_worker()
        start_worker(stand, OTHER)
        stand.wait(lambda: OTHER in hosts(stand), stand.log)
        stand.wms2("host", "lost", LOST, "--reason", "its disk is broken", "--yes")
        stand.until(name, "held")
        stand.wait(lambda: hosts(stand) == [OTHER], stand.log)
        stand.wms2("request", "release", name)
        stand.until(name, "completed")
        assert [round_.submit_host for round_ in stand.overview(name).rounds] == [LOST, OTHER]

        with returned(stand):
            stand.wait(lambda: not queued(stand, f"{name}:0:1"), stand.log)
            stand.wait(lambda: hosts(stand) == [LOST, OTHER], stand.log)
        stand.open(gate)
        stand.assert_exactly_once(name, "0:1", "1:1")


@contextmanager
def returned(stand: Stand) -> Iterator[None]:
    """The worker of the lost host, once more."""
    with (stand.folder / "worker.log").open("ab") as log:
        worker = subprocess.Popen(
            [WMS2, "worker", "run", "--host", LOST], env=stand.environment, cwd=ROOT, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        worker.kill()
        worker.wait()


def queued(stand: Stand, dag_id: str) -> bool:
    return bool(stand.ask_condor("condor_q", f'WMS2_DagId == "{dag_id}"', "ClusterId"))
