"""A worker that dies by SIGKILL at chosen places, run as a process of its own: `dying_worker FOLDER`.

Its planners run the same module, as `dying_worker FOLDER planner`, and take the worker with them.

A file in the folder, named by `death`, arms it: the first time that the worker comes to that place with that request,
it takes the file away and dies. So it dies of each only once, however often it is started again.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from tests.e2e.documents import word
from wms2 import planner
from wms2.activities import admission, endings, planning, records, rounds
from wms2.activities.database import DatabaseActivities
from wms2.adapters.condor import Condor
from wms2.cli.main import main
from wms2.temporal import heartbeats

PLANNER = "planner"


@dataclass(frozen=True)
class Place:
    """Before or after a call of a function. What it is called with must speak of the request and of `about`."""

    owner: Any
    function: str
    after: bool
    about: str = ""
    hangs: bool = False
    """It does not die there, it never comes back; only a call that is asynchronous can."""


def before_the_record(function: str) -> Place:
    return Place(DatabaseActivities, "record", after=False, about=f"function {function} ")


def after_the_record(function: str) -> Place:
    return Place(DatabaseActivities, "record", after=True, about=f"function {function} ")


PLACES = {
    "planning, before the folder": Place(planner, "write_round", after=False),
    "planning, after the folder and before the rows": Place(planner, "write_round", after=True),
    "planning, after the rows": Place(planner.Planner, "record", after=True, about="function record_plan "),
    "submitting, after the submission and before the record": Place(Condor, "submit_dag", after=True),
    "following": after_the_record("record_dag_status"),
    "crediting, after the commit": after_the_record("credit_work_unit"),
    "closing, before the commit": before_the_record("record_round_status"),
    "closing, after the commit": after_the_record("record_round_status"),
    "between rounds, at the beginning of a new history": Place(records, "next_round", after=False),
    "between rounds, after asking admission": Place(admission, "signal_admission", after=True, about="'ask'"),
    "protecting, after Rucio and before the record": before_the_record("record_protected"),
    "registering, after DBS and before the record": before_the_record("record_registered"),
    "placing, after Rucio and before the record": before_the_record("record_archived"),
    "announcing, after DBS and before the record": before_the_record("record_output_status"),
}


REMEDIES = {
    "releasing, after the record": after_the_record("apply_changes"),
    "rescuing, after the files": Place(rounds, "_prepare_rescue", after=True),
    "dropping, before the commit": before_the_record("drop_work"),
    "dropping, after the commit": after_the_record("drop_work"),
    "failing, after the list": Place(endings, "_place", after=True),
    "failing, after the record of the list": after_the_record("record_manifest"),
    "restarting, before the commit": before_the_record("supersede"),
    "restarting, after the commit": after_the_record("supersede"),
    "restarting, after the start": Place(endings, "start_request", after=True),
}
"""Where people's words are carried out."""


FAULTS = {
    "submitting, after the record": after_the_record("record_dag_submitted"),
    "closing, when it is done and Temporal does not know": Place(
        heartbeats._Beating, "execute_activity", after=True, about="close_round"
    ),
    "recording a status, for ever": Place(
        DatabaseActivities, "record", after=False, about="function record_status ", hangs=True
    ),
}
"""What `make faults` needs beside these."""


def death(place: str, request: str) -> str:
    """The name of the file that arms it."""
    assert place in PLACES | REMEDIES | FAULTS
    return f"{place} - {request}"


def kill_the_worker() -> None:
    if PLANNER in sys.argv:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def loop_for_ever() -> None:
    while True:
        pass


def is_due(name: str, place: Place, folder: Path, args: tuple[Any, ...]) -> bool:
    """Whether it is armed for what the call speaks of; it is armed no more then."""
    said = repr(args)
    for armed in folder.glob(f"{name} - *"):
        request = armed.name.rpartition(" - ")[2]
        # Blocks are named by the dataset, which has the request's name in its own way.
        if (request in said or word(request) in said) and place.about in said:
            armed.unlink()
            return True
    return False


def arrange(name: str, place: Place, folder: Path) -> None:
    """Put the death where it belongs; the function is otherwise as it was."""
    function: Callable[..., Any] = getattr(place.owner, place.function)

    def die(args: tuple[Any, ...]) -> None:
        if is_due(name, place, folder, args):
            kill_the_worker()

    @wraps(function)
    def sync(*args: Any, **kwargs: Any) -> Any:
        if not place.after:
            die(args)
        answer = function(*args, **kwargs)
        if place.after:
            die(args)
        return answer

    @wraps(function)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        if place.hangs and is_due(name, place, folder, args):
            await asyncio.to_thread(loop_for_ever)
        if not place.after:
            die(args)
        answer = await function(*args, **kwargs)
        if place.after:
            die(args)
        return answer

    setattr(place.owner, place.function, asynchronous if iscoroutinefunction(function) else sync)


if __name__ == "__main__":
    for name, place in (PLACES | REMEDIES | FAULTS).items():
        arrange(name, place, Path(sys.argv[1]))
    if PLANNER in sys.argv:
        planner.main()
    else:
        planning.PLANNER = (sys.executable, "-m", "tests.e2e.dying_worker", sys.argv[1], PLANNER)
        sys.argv = ["wms2", "worker", "run"]
        main()
