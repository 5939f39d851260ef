"""Rescue files: which nodes a resubmitted DAG need not run again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

HIGHEST_NUMBER = 100
"""DAGMan's own limit (DAGMAN_MAX_RESCUE_NUM): there it writes the last file again, and so do we."""

_RESCUE = re.compile(r"\.rescue(\d{3,})$")
_DONE = re.compile(r"^DONE\s+(\S+)", re.MULTILINE)


def newest_rescue(dag: Path) -> Path | None:
    """The rescue file that DAGMan would read: the one with the highest number."""
    found = [
        (int(match[1]), path)
        for path in dag.parent.glob(f"{dag.name}.rescue*")
        if (match := _RESCUE.search(path.name))
    ]
    return max(found)[1] if found else None


def done_nodes(rescue: Path | None) -> set[str]:
    """Nodes marked DONE; none when there is no file."""
    if rescue is None:
        return set()
    try:
        return set(_DONE.findall(rescue.read_text()))
    except OSError:
        return set()


def complete_rescue(dag: Path, done: Iterable[str]) -> Path | None:
    """Make sure that these nodes are DONE for a resubmission, by writing the next rescue file where one is not.

    Returns what was written, or None when nothing was missing.
    """
    newest = newest_rescue(dag)
    missing = set(done) - done_nodes(newest)
    if not missing:
        return None
    path = dag.with_name(f"{dag.name}.rescue{_next_number(newest):03d}")
    partial = path.with_name(path.name + ".partial")
    kept = newest.read_text() if newest else "# Rescue DAG file, written by WMS2\n"
    partial.write_text(kept + "".join(f"DONE {name}\n" for name in sorted(missing)))
    partial.rename(path)
    return path


def _next_number(newest: Path | None) -> int:
    match = _RESCUE.search(newest.name) if newest else None
    return min(int(match[1]) + 1, HIGHEST_NUMBER) if match else 1
