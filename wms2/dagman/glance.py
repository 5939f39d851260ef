"""A glance at a round's folder: what DAGMan and the merges wrote since the last one, without reading it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from wms2.dagman.dag_files import GROUP_DAG, WORKFLOW_DAG
from wms2.dagman.outputs import MERGE_OUTPUT_FILE

OUTER_STATUS, OUTER_METRICS = f"{WORKFLOW_DAG}.status", f"{WORKFLOW_DAG}.metrics"


def group_status(unit: str) -> str:
    """The status file of a work unit, as a round's folder has it."""
    return f"{unit}/{GROUP_DAG}.status"


def merge_output(unit: str) -> str:
    """What a work unit made, as a round's folder has it."""
    return f"{unit}/{MERGE_OUTPUT_FILE}"


class Glance:
    """What was written when. It takes microseconds, so hundreds of DAGs can be glanced at every few seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._seen: dict[str, int] = {}

    def changed(self, running: Iterable[str]) -> set[str]:
        """The files that came, went or are newer than at the last glance; only the work units that run write any.

        Each is put in place by a rename, so a unit whose folder is as it was has nothing new in it.
        """
        names = [OUTER_STATUS, OUTER_METRICS]
        for unit in self._news_of(running):
            names += (group_status(unit), merge_output(unit))
        return set(self._news_of(names))

    def _news_of(self, names: Iterable[str]) -> list[str]:
        news = []
        for name in names:
            written = _written(f"{self._folder}/{name}")
            if self._seen.get(name, 0) != written:
                self._seen[name] = written
                news.append(name)
        return news


def _written(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - a Path costs more than the look
    except OSError:
        return 0
