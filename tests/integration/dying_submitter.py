"""A submitter that dies by SIGKILL at one step, run as a process of its own: `dying_submitter HOME FOLDER STEP`."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wms2.activities import dags
from wms2.adapters.condor import Condor
from wms2.cli.by_hand import ByHand
from wms2.config import load_settings

STEPS = (
    "before the intent",
    "after the intent",
    "under the lock",
    "after looking for it",
    "while condor_submit_dag runs",
    "while condor_submit runs",
    "after the submission",
    "before the record",
    "after the record",
)


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_after(function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        await function(*args, **kwargs)
        die()

    return wrapped


def die_while_it_runs(program: str) -> None:
    """Start the real program and die at once: it goes on alone, with the lock in its hands."""
    start = subprocess.Popen

    def popen(command: Any, **options: Any) -> Any:
        if command[0] != program:
            return start(command, **options)
        start(command, **(options | {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}))
        return die()

    subprocess.Popen = popen  # type: ignore[misc,assignment]


def arrange(step: str) -> None:
    record = dags.DagActivities.record
    changes: dict[str, Callable[[], None]] = {
        "before the intent": lambda: setattr(dags.DagActivities, "submit_dag", die),
        "after the intent": lambda: setattr(dags.DagActivities, "record", dying_after(record)),
        "under the lock": lambda: setattr(dags.DagActivities, "_find", die),
        "after looking for it": lambda: setattr(Condor, "submit_dag", die),
        "while condor_submit_dag runs": lambda: die_while_it_runs("condor_submit_dag"),
        "while condor_submit runs": lambda: die_while_it_runs("condor_submit"),
        "after the submission": lambda: setattr(Condor, "submit_dag", dying_after(Condor.submit_dag)),
        "before the record": lambda: setattr(Condor, "schedd_name", die),
        "after the record": lambda: setattr(
            dags.DagActivities, "submit_dag", dying_after(dags.DagActivities.submit_dag)
        ),
    }
    changes[step]()


if __name__ == "__main__":
    home, folder, step = sys.argv[1:]
    by_hand = ByHand(load_settings(Path(home)))
    arrange(step)
    asyncio.run(by_hand.start_round(Path(folder)))
