"""The twelve failure points of a dispatcher on the real engines, one after the other: `make faults`.

Each is injected into a request of its own. In the end that request must be COMPLETED, with every event once in the
merged files, a ledger that is exact and one DAG; how long WMS2 needed stands beside what Wip needs.
"""

import argparse
import json
import signal
import sys
import textwrap
import time
from dataclasses import dataclass
from typing import Any

from tests.e2e.fault_points import POINTS, Point, Recovery, Scene
from tests.e2e.stand import own_stand

NOTHING = "nothing"
WIDTHS = (3, 30, 34, 36, 10, 10, 17)
HEADINGS = ("", "where Wip fails", "injected", "what WMS2 does", "lost", "recovered", "Wip's estimate")


@dataclass(frozen=True)
class Outcome:
    point: Point
    recovery: Recovery | None
    lost: str

    @property
    def is_well(self) -> bool:
        return self.recovery is not None and self.lost == NOTHING

    def as_json(self) -> dict[str, Any]:
        point, recovery = self.point, self.recovery
        return {
            "number": point.number,
            "wip": point.wip,
            "injected": point.injected,
            "happens": point.happens,
            "lost": self.lost,
            "recovery_sec": round(recovery.took_sec, 1) if recovery else None,
            "measured": recovery.measured if recovery else "",
            "wip_estimate": point.estimate,
        }

    def cells(self) -> tuple[str, ...]:
        point, took = self.point, f"{self.recovery.took_sec:.1f} s" if self.recovery else "never"
        lost = self.lost if self.lost == NOTHING else "see below"
        return str(point.number), point.wip, point.injected, point.happens, lost, took, point.estimate


def try_out(scene: Scene, point: Point) -> Outcome:
    """Inject it, wait for the recovery, and hold what came of the request against the ledger."""
    recovery = None
    try:
        recovery = point.inject(scene, point.request)
        scene.stand.until(point.request, "completed")
        scene.stand.assert_exactly_once(point.request, *recovery.dags)
    except Exception as error:
        # Whatever breaks is what came of this point; the others are tried all the same.
        scene.have_a_worker()
        return Outcome(point, recovery, f"{type(error).__name__}: {error}")
    return Outcome(point, recovery, NOTHING)


def row(cells: tuple[str, ...]) -> str:
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, WIDTHS, strict=True)]
    lines = [
        "  ".join(
            (column[number] if number < len(column) else "").ljust(width)
            for column, width in zip(wrapped, WIDTHS, strict=True)
        ).rstrip()
        for number in range(max(map(len, wrapped)))
    ]
    return "\n".join(lines)


def run(points: list[Point], *, quiet: bool) -> list[Outcome]:
    def say(text: str) -> None:
        if not quiet:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    outcomes = []
    with own_stand() as stand:
        scene = Scene(stand)
        say(row(HEADINGS))
        say("  ".join("-" * width for width in WIDTHS))
        for point in points:
            outcome = try_out(scene, point)
            outcomes.append(outcome)
            say(row(outcome.cells()))
            if not outcome.is_well:
                say(f"NOT WELL: {outcome.lost}")
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="faults",
        description="Inject the twelve failure points, and measure how long WMS2 takes to recover.",
    )
    parser.add_argument(
        "--only",
        type=int,
        nargs="+",
        metavar="N",
        choices=range(1, len(POINTS) + 1),
        help="these points alone",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object in the end, and nothing else"
    )
    options = parser.parse_args()
    # Whoever is asked to end stops the stack first, as with Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    chosen = [point for point in POINTS if not options.only or point.number in options.only]
    try:
        outcomes = run(chosen, quiet=options.json)
    except KeyboardInterrupt:
        sys.exit("interrupted; the stack is stopped")
    bad = [outcome for outcome in outcomes if not outcome.is_well]
    if options.json:
        faults = [outcome.as_json() for outcome in outcomes]
        told = {"well": not bad, "took_sec": round(time.monotonic() - began, 1), "faults": faults}
        sys.stdout.write(f"{json.dumps(told, indent=2)}\n")
    else:
        sys.stdout.write(f"{len(outcomes) - len(bad)} of {len(outcomes)} recovered with nothing lost, ")
        sys.stdout.write(f"in {time.monotonic() - began:.0f} s\n")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
