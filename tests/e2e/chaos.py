"""Requests of both kinds while the worker, Temporal and PostgreSQL are killed at random moments: `make chaos`.

Whatever is killed is started again as a person would do it, after a while: `wms2 up`, `wms2 worker run`. As soon as a
request completes another one is submitted, until all kills are done; then all must complete, with every event once.
"""

import argparse
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from tests.e2e.documents import reprocessing, simulation
from tests.e2e.stand import Stand, own_stand
from tests.patience import PATIENCE_SEC

WORKER = "worker"
VICTIMS = (WORKER, "temporal", "postgres")
UNTIL_THE_NEXT_SEC = (1.0, 40.0)
UNTIL_IT_IS_MENDED_SEC = (0.0, 10.0)
LOOK_EVERY_SEC = 0.5


@dataclass
class Chaos:
    """A stand under fire."""

    stand: Stand
    chance: random.Random
    at_once: int
    kills_left: int
    begun: float = field(default_factory=time.monotonic)
    statuses: dict[str, str] = field(default_factory=dict)
    """Each request and what it was when the database last answered."""
    killed: Counter[str] = field(default_factory=Counter)
    mend_at: float | None = None
    oddities: list[str] = field(default_factory=list)

    def run(self) -> None:
        self.stand.start_worker()
        next_kill = self.later(UNTIL_THE_NEXT_SEC)
        patient_until = time.monotonic() + PATIENCE_SEC
        while self.kills_left or self.mend_at is not None or self.alive():
            self.look()
            if self.mend_at is None:
                self.submit()
            elif time.monotonic() >= self.mend_at:
                self.mend()
            if self.kills_left and time.monotonic() >= next_kill:
                self.kill()
                next_kill = self.later(UNTIL_THE_NEXT_SEC)
                patient_until = time.monotonic() + PATIENCE_SEC
            assert time.monotonic() < patient_until, "\n".join(map(self.stand.tale, self.alive()))
            time.sleep(LOOK_EVERY_SEC)

    def later(self, limits: tuple[float, float]) -> float:
        return time.monotonic() + self.chance.uniform(*limits)

    def alive(self) -> list[str]:
        return [name for name, status in self.statuses.items() if status != "completed"]

    def look(self) -> None:
        for name in self.alive():
            try:
                status = str(self.stand.overview(name).record.status)
            except SQLAlchemyError:
                return
            if status == "held" and self.statuses[name] != "held":
                self.odd(f"{name} is held: {self.stand.tale(name)}")
            self.statuses[name] = status

    def submit(self) -> None:
        """As many as there should be at once, of both kinds in turn."""
        while self.kills_left and len(self.alive()) < self.at_once:
            number = len(self.statuses)
            make = (simulation, reprocessing)[number % 2]
            name = self.stand.submit(make(f"chaos_{make.__name__}_{number}", self.stand.folder))
            self.statuses[name] = "submitted"

    def kill(self) -> None:
        victim = self.chance.choice(VICTIMS)
        self.kills_left -= 1
        self.killed[victim] += 1
        stood = ", ".join(f"{name} {self.statuses[name]}" for name in self.alive())
        self.say(f"kill {sum(self.killed.values()):2}: {victim:8} while {stood}")
        self.note_a_worker_that_ended_by_itself()
        if victim == WORKER:
            self.stand.kill_worker()
        else:
            self.stand.kill(victim)
        if self.mend_at is None:
            self.mend_at = self.later(UNTIL_IT_IS_MENDED_SEC)

    def mend(self) -> None:
        self.note_a_worker_that_ended_by_itself()
        began = time.monotonic()
        self.stand.wms2("up")
        if self.stand.worker_ended() is not None:
            self.stand.start_worker()
        self.mend_at = None
        self.say(f"mended in {time.monotonic() - began:.1f} s")

    def note_a_worker_that_ended_by_itself(self) -> None:
        ended = self.stand.worker_ended()
        if ended not in (None, -signal.SIGKILL):
            self.odd(f"the worker ended by itself with {ended}: {self.stand.log()}")

    def judge(self) -> None:
        """The merged files against the ledger, the DAGs against the rounds; how long histories became."""
        longest = 0
        for name in self.statuses:
            seen = self.stand.overview(name)
            dags = [dag.intent.dag_id.partition(":")[2] for dag in seen.dags]
            self.stand.assert_exactly_once(name, *dags)
            lengths = self.stand.history_lengths(name)
            longest = max(longest, *(length for runs in lengths.values() for length in runs))
            took = (seen.record.updated_at - seen.record.created_at).total_seconds()
            self.say(
                f"{name}: {seen.ledger.events_produced} events, each once; DAGs {', '.join(dags)}; "
                f"history events {list(lengths.values())}; {took:.0f} s"
            )
        killed = ", ".join(f"{part} {times}" for part, times in sorted(self.killed.items()))
        self.say(
            f"{len(self.statuses)} requests completed; killed: {killed}; longest history {longest} events"
        )

    def odd(self, text: str) -> None:
        self.oddities.append(text)
        self.say(f"ODD: {text}")

    def say(self, text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self.begun:6.1f} s  {text}\n")
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos", description="Kill everything beside the pool, at random.")
    parser.add_argument("--requests", type=int, default=4, help="how many live at once")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10**6), help="what the moments depend on"
    )
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}\n")
    with own_stand() as stand:
        chaos = Chaos(stand, random.Random(options.seed), options.requests, options.kills)
        chaos.run()
        chaos.judge()
    if chaos.oddities:
        sys.exit(f"{len(chaos.oddities)} oddities, see above")


if __name__ == "__main__":
    main()
