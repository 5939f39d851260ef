"""`round.inc` and `memory.inc` as the worker writes them: nodes that are submitted later read them.

`round.inc` is the worker's alone, and changes by rename. To `memory.inc`, which belongs to the scripts, it adds lines
only while no DAG of the round runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from wms2.core.bans import remaining

ROUND_INCLUDE, MEMORY_INCLUDE = "round.inc", "memory.inc"

_PRIORITY = re.compile(r"^round_priority = (\d+)$", re.MULTILINE)
_BASE = re.compile(r"^# base_priority = (\d+)\n?", re.MULTILINE)
_CREDENTIALS = re.compile(r"^(?:x509userproxy|job_token) = .*\n", re.MULTILINE)
_SITES = re.compile(r"^allowed_sites = (.*)$", re.MULTILINE)


def round_priority(folder: Path) -> int:
    """What the jobs of the round are to have now."""
    found = _PRIORITY.search((folder / ROUND_INCLUDE).read_text())
    return int(found[1]) if found else 0


def base_priority(folder: Path, planned: int) -> int:
    """The priority of the round apart from what its last work units are raised by: as planned, or as set since."""
    found = _BASE.search((folder / ROUND_INCLUDE).read_text())
    return int(found[1]) if found else planned


def set_priorities(folder: Path, base: int, now: int) -> None:
    """The priority apart from any raise, and what the jobs are to have now."""
    text = _BASE.sub("", (folder / ROUND_INCLUDE).read_text())
    _write(folder, f"# base_priority = {base:d}\n" + _PRIORITY.sub(f"round_priority = {now:d}", text))


def allowed_sites(folder: Path) -> list[str]:
    """Where work units of the round may still land."""
    found = _SITES.search((folder / ROUND_INCLUDE).read_text())
    return [site for site in (found[1] if found else "").split(",") if site]


def leave_out_sites(folder: Path, sites: Iterable[str]) -> tuple[str, ...]:
    """The sites that are still allowed. Work units that elected one of the others elect again when they run."""
    left = remaining(allowed_sites(folder), sites)
    text = (folder / ROUND_INCLUDE).read_text()
    _write(folder, _SITES.sub(f"allowed_sites = {','.join(left)}", text))
    return left


def set_credentials(folder: Path, proxy: Path | None, token: Path | None) -> None:
    """What jobs carry from the next node on.

    HTCondor brings a proxy that was renewed to jobs that run. A token is sent once, when its job starts.
    """
    text = _CREDENTIALS.sub("", (folder / ROUND_INCLUDE).read_text())
    text += f"x509userproxy = {proxy}\n" if proxy else ""
    # It follows the names of other files.
    text += f"job_token = , {token}\n" if token else ""
    _write(folder, text)


def set_memory(unit_folder: Path, memory_mb: int) -> None:
    """Another memory for the processing jobs of a work unit, whatever they had."""
    nodes = json.loads((unit_folder / "manifest.json").read_bytes())["nodes"]
    lines = "".join(f"{node}_memory = {memory_mb:d}\n" for node in nodes)
    with (unit_folder / MEMORY_INCLUDE).open("a", encoding="utf-8") as include:
        include.write(lines)


def _write(folder: Path, text: str) -> None:
    path = folder / ROUND_INCLUDE
    if path.read_text() == text:
        return
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.rename(path)
