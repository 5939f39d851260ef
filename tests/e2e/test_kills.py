"""Requests on the real engines while everything beside the pool is killed: they complete, and nothing is twice."""

import signal
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.documents import PILOT_JOB, SECOND_JOB, reprocessing, simulation, waits
from tests.e2e.dying_worker import PLACES, death
from tests.e2e.stand import Stand, own_stand

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("kills")]

SIMULATION, REPROCESSING = "killed_simulation", "killed_reprocessing"
IN_THE_PILOT = (
    death("planning, before the folder", SIMULATION),
    death("planning, after the folder and before the rows", REPROCESSING),
    death("planning, after the rows", SIMULATION),
    death("submitting, after the submission and before the record", REPROCESSING),
    death("following", SIMULATION),
)
BETWEEN_ROUNDS = (
    death("crediting, after the commit", SIMULATION),
    death("closing, before the commit", REPROCESSING),
    death("closing, after the commit", SIMULATION),
    death("between rounds, at the beginning of a new history", REPROCESSING),
    death("between rounds, after asking admission", SIMULATION),
)
IN_THE_ROUND = (death("following", REPROCESSING),)
AT_THE_END = (
    death("registering, after DBS and before the record", REPROCESSING),
    death("announcing, after DBS and before the record", SIMULATION),
)
HISTORY_EVENTS = 400
"""The most that a run of a workflow has here, deaths included; Temporal's own limit is 51,200."""


class Mortal:
    """A worker that dies, and somebody who starts it again."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.armed = stand, stand.folder / "armed"
        self.armed.mkdir()
        self.deaths_to_come = 0
        self.start()

    def start(self) -> None:
        self.stand.start_worker(sys.executable, "-m", "tests.e2e.dying_worker", self.armed)

    def arm(self, *deaths: str) -> None:
        """What it is to die of as soon as it comes there: said before anything can come there."""
        for name in deaths:
            (self.armed / name).touch()
            self.deaths_to_come += 1

    def die(self) -> None:
        """Of all that it is armed with, one after the other; then it lives again."""
        for _ in range(self.deaths_to_come):
            self.stand.wait(lambda: self.stand.worker_ended() is not None, self.tale)
            assert self.stand.worker_ended() == -signal.SIGKILL, self.stand.log()
            self.start()
        self.deaths_to_come = 0
        assert self.left() == []

    def left(self) -> list[str]:
        return sorted(path.name for path in self.armed.iterdir())

    def tale(self) -> str:
        return "\n".join(
            [f"still to die of: {self.left()}", self.stand.tale(SIMULATION), self.stand.tale(REPROCESSING)]
        )


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with own_stand() as stand:
        yield stand


def test_the_worker_is_killed_at_every_place() -> None:
    killed = {
        name.rpartition(" - ")[0] for name in (*IN_THE_PILOT, *BETWEEN_ROUNDS, *IN_THE_ROUND, *AT_THE_END)
    }
    assert killed == set(PLACES)


def test_requests_of_both_kinds_outlive_a_worker_that_is_killed_at_every_step_and_both_servers(
    stand: Stand,
) -> None:
    pilot, round_ = stand.gate("pilot"), stand.gate("round")
    mortal = Mortal(stand)
    mortal.arm(*IN_THE_PILOT)
    for make, name in ((simulation, SIMULATION), (reprocessing, REPROCESSING)):
        stand.submit(make(name, stand.folder, waits(pilot, PILOT_JOB), waits(round_, SECOND_JOB)))
    mortal.die()
    mortal.arm(*BETWEEN_ROUNDS)
    stand.open(pilot)
    mortal.die()
    for name in (SIMULATION, REPROCESSING):
        stand.until(name, "active")
    for server in ("temporal", "postgres"):
        stand.kill(server)
        stand.mend()
    mortal.arm(*IN_THE_ROUND)
    mortal.die()
    mortal.arm(*AT_THE_END)
    stand.open(round_)
    mortal.die()

    for name in (SIMULATION, REPROCESSING):
        stand.until(name, "completed")
        stand.assert_exactly_once(name, "0:1", "1:1")
        for lengths in stand.history_lengths(name).values():
            assert max(lengths) < HISTORY_EVENTS
