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
IN_THE_PILOT = {
    SIMULATION: ("planning, before the folder", "planning, after the rows", "following"),
    REPROCESSING: (
        "planning, after the folder and before the rows",
        "submitting, after the submission and before the record",
    ),
}
BETWEEN_ROUNDS = {
    SIMULATION: (
        "crediting, after the commit",
        "protecting, after Rucio and before the record",
        "closing, after the commit",
        "between rounds, after asking admission",
    ),
    REPROCESSING: ("closing, before the commit", "between rounds, at the beginning of a new history"),
}
IN_THE_ROUND = {REPROCESSING: ("following",)}
AT_THE_END = {
    SIMULATION: (
        "placing, after Rucio and before the record",
        "announcing, after DBS and before the record",
    ),
    REPROCESSING: ("registering, after DBS and before the record",),
}
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

    def arm(self, request: str, *places: str) -> None:
        """What it is to die of as soon as the request comes there: said before it can come there."""
        for place in places:
            (self.armed / death(place, request)).touch()
            self.deaths_to_come += 1

    def die(self) -> None:
        """Of all that it is armed with, one after the other; then it lives again.

        All of one request: a death of another could come while this one is past its place and not yet dead.
        """
        for _ in range(self.deaths_to_come):
            self.stand.wait(lambda: self.stand.worker_ended() is not None, self.tale)
            assert self.stand.worker_ended() == -signal.SIGKILL, self.stand.log()
            self.start()
        self.deaths_to_come = 0
        assert self.left() == []

    def left(self) -> list[str]:
        return sorted(path.name for path in self.armed.iterdir())

    def tale(self) -> str:
        requests = sorted({name.rpartition(" - ")[2] for name in self.left()})
        return "\n".join([f"still to die of: {self.left()}", *map(self.stand.tale, requests)])


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with own_stand() as stand:
        yield stand


def test_the_worker_is_killed_at_every_place() -> None:
    chapters = (IN_THE_PILOT, BETWEEN_ROUNDS, IN_THE_ROUND, AT_THE_END)
    killed = {place for chapter in chapters for places in chapter.values() for place in places}
    assert killed == set(PLACES)


def test_requests_of_both_kinds_outlive_a_worker_that_is_killed_at_every_step_and_both_servers(
    stand: Stand,
) -> None:
    kinds = {SIMULATION: simulation, REPROCESSING: reprocessing}
    mortal = Mortal(stand)
    for name, make in kinds.items():
        mortal.arm(name, *IN_THE_PILOT[name])
        pilot, round_ = stand.gate(f"{name}_pilot"), stand.gate(f"{name}_round")
        stand.submit(make(name, stand.folder, waits(pilot, PILOT_JOB), waits(round_, SECOND_JOB)))
        mortal.die()
    for name in kinds:
        mortal.arm(name, *BETWEEN_ROUNDS[name])
        stand.open(stand.gate(f"{name}_pilot"))
        mortal.die()
    for name in kinds:
        stand.until(name, "active")
    for server in ("temporal", "postgres"):
        stand.kill(server)
        stand.mend()
    for name, places in IN_THE_ROUND.items():
        mortal.arm(name, *places)
        mortal.die()
    for name in kinds:
        mortal.arm(name, *AT_THE_END[name])
        stand.open(stand.gate(f"{name}_round"))
        mortal.die()

    for name in kinds:
        stand.until(name, "completed")
        stand.assert_exactly_once(name, "0:1", "1:1")
        for lengths in stand.history_lengths(name).values():
            assert max(lengths) < HISTORY_EVENTS
