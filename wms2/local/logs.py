"""The logs of a stack's servers: their names, their last lines, and what is added to them."""

import time
from collections.abc import Iterator
from pathlib import Path

from wms2.errors import UserError
from wms2.local import process
from wms2.local.stack import PARTS, WORKER

WRITERS = (*PARTS, WORKER)


def log_files(home: Path) -> dict[str, Path]:
    """Each log by its name: a part of the stack, or a daemon of HTCondor (`SchedLog`, ...)."""
    parts = {name: process.log_file(home, name) for name in WRITERS}
    daemons = {path.name: path for path in sorted((home / "logs" / "condor").glob("*Log*"))}
    # HTCondor's master writes a log of its own; its output is empty unless it cannot start at all.
    condor = parts["condor"]
    if "MasterLog" in daemons and condor.exists() and condor.stat().st_size == 0:
        parts["condor"] = daemons["MasterLog"]
    return {name: path for name, path in {**parts, **daemons}.items() if path.exists()}


def chosen_logs(home: Path, name: str | None) -> dict[str, Path]:
    """One log, or those of all parts."""
    files = log_files(home)
    if not files:
        raise UserError(f"There are no logs in {home}: run `wms2 up`.")
    if name is None:
        return {part: files[part] for part in WRITERS if part in files}
    if name not in files:
        raise UserError(f"There is no log {name}: choose one of {', '.join(files)}.")
    return {name: files[name]}


def new_lines(files: dict[str, Path], interval: float = 0.5) -> Iterator[tuple[str, str]]:
    """What is added to the logs from now on, line by line, for ever. A log that is rotated is followed."""
    places = {name: file.stat().st_size for name, file in files.items()}
    return _lines_after(places, files, interval)


def _lines_after(
    places: dict[str, int], files: dict[str, Path], interval: float
) -> Iterator[tuple[str, str]]:
    while True:
        for name, file in files.items():
            for line in _added(name, file, places):
                yield name, line
        time.sleep(interval)


def _added(name: str, file: Path, places: dict[str, int]) -> list[str]:
    size = file.stat().st_size if file.exists() else 0
    if size < places[name]:
        places[name] = 0
    if size == places[name]:
        return []
    with file.open("rb") as content:
        content.seek(places[name])
        whole = content.read().rpartition(b"\n")[0]
    if whole:
        places[name] += len(whole) + 1
    return whole.decode(errors="replace").split("\n") if whole else []
