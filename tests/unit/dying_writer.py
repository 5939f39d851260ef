"""Writes a round and dies, or waits, on the way: `python -m tests.unit.dying_writer FOLDER STEP CALL kill|wait`.

At that call of a step of the writing it kills itself, or says so and waits for a line.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.factories import simulation, snapshot
from wms2.core.planning import plan_round
from wms2.dagman import round_folder
from wms2.models.plan import RoundPlan


def plan() -> RoundPlan:
    """Five work units."""
    return plan_round(snapshot(simulation(merge_target_bytes=300_000)))


def interrupted(step: Callable[..., Any], at_call: int, deed: Callable[[], None]) -> Callable[..., Any]:
    calls = 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at_call:
            deed()
        return step(*arguments)

    return counted


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait() -> None:
    sys.stdout.write("waiting\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main(folder: str, step: str, at_call: str, deed: str) -> None:
    inner = getattr(round_folder, step)
    setattr(round_folder, step, interrupted(inner, int(at_call), {"kill": die, "wait": wait}[deed]))
    round_folder.write_round(plan(), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
