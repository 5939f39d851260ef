"""A worker that dies by SIGKILL at chosen places, run as a process of its own: `dying_worker FOLDER`.

A file in the folder, named by `death`, arms it: the first time that the worker comes to that place with that request,
it takes the file away and dies. So it dies of each only once, however often it is started again.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from wms2.activities import admission, planning, records
from wms2.activities.database import DatabaseActivities
from wms2.adapters.condor import Condor
from wms2.cli import main


@dataclass(frozen=True)
class Place:
    """Before or after a call of a function. What it is called with must speak of the request and of `about`."""

    owner: Any
    function: str
    after: bool
    about: str = ""


def before_the_record(function: str) -> Place:
    return Place(DatabaseActivities, "record", after=False, about=f"function {function} ")


def after_the_record(function: str) -> Place:
    return Place(DatabaseActivities, "record", after=True, about=f"function {function} ")


PLACES = {
    "planning, before the folder": Place(planning, "write_round", after=False),
    "planning, after the folder and before the rows": Place(planning, "write_round", after=True),
    "planning, after the rows": after_the_record("record_plan"),
    "submitting, after the submission and before the record": Place(Condor, "submit_dag", after=True),
    "following": after_the_record("record_dag_status"),
    "crediting, after the commit": after_the_record("credit_work_unit"),
    "closing, before the commit": before_the_record("record_round_status"),
    "closing, after the commit": after_the_record("record_round_status"),
    "between rounds, at the beginning of a new history": Place(records, "next_round", after=False),
    "between rounds, after asking admission": Place(admission, "signal_admission", after=True, about="'ask'"),
    "registering, after DBS and before the record": before_the_record("mark_registered"),
    "announcing, after DBS and before the record": before_the_record("record_output_status"),
}


def death(place: str, request: str) -> str:
    """The name of the file that arms it."""
    assert place in PLACES
    return f"{place} - {request}"


def arrange(name: str, place: Place, folder: Path) -> None:
    """Put the death where it belongs; the function is otherwise as it was."""
    function: Callable[..., Any] = getattr(place.owner, place.function)

    def die(args: tuple[Any, ...]) -> None:
        said = repr(args)
        for armed in folder.glob(f"{name} - *"):
            request = armed.name.rpartition(" - ")[2]
            if request in said and place.about in said:
                armed.unlink()
                os.kill(os.getpid(), signal.SIGKILL)

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
        if not place.after:
            die(args)
        answer = await function(*args, **kwargs)
        if place.after:
            die(args)
        return answer

    setattr(place.owner, place.function, asynchronous if iscoroutinefunction(function) else sync)


if __name__ == "__main__":
    for name, place in PLACES.items():
        arrange(name, place, Path(sys.argv[1]))
    sys.argv = ["wms2", "worker", "run"]
    main()
