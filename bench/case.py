"""A case: something to prepare, something to measure, at some sizes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

leaving = ExitStack()
"""What cases leave to be done when one is over, however it ends: servers are stopped while their files are there."""


@dataclass(frozen=True, slots=True)
class Case:
    """`prepare` makes what `run` works on; only `run` is timed, and it returns counts of what it made.

    The folder is empty at first, and removed in the end.
    """

    name: str
    unit: str
    """What a size counts, such as files."""
    sizes: tuple[int, ...]
    prepare: Callable[[int, Path], Any]
    run: Callable[[Any], Mapping[str, int]]
    afterwards: Callable[[Any, float], Mapping[str, float]] | None = None
    """More to tell of what was made, from what was prepared and the CPU seconds of the run; not timed."""


def measure(case: Case, size: int, below: Path) -> dict[str, Any]:
    """Run a case here, its files in a folder below that one.

    The peak of the memory is that of the whole process, so it wants one of its own.
    """
    with TemporaryDirectory(prefix="wms2-bench-", dir=below) as folder, leaving:
        prepared = case.prepare(size, Path(folder))
        prepared_mb = _peak_mb()
        wall, cpu = time.perf_counter(), time.process_time()
        counts = case.run(prepared)
        cpu_sec, wall_sec = time.process_time() - cpu, time.perf_counter() - wall
        peak_mb = _peak_mb()
        more = case.afterwards(prepared, cpu_sec) if case.afterwards else {}
    return {
        "case": case.name,
        "size": size,
        "unit": case.unit,
        "cpu_sec": round(cpu_sec, 4),
        "wall_sec": round(wall_sec, 4),
        "prepared_mb": prepared_mb,
        "peak_mb": peak_mb,
        **counts,
        **more,
    }


def measure_apart(subject: str, case: Case, size: int, below: Path) -> dict[str, Any]:
    """Run a case in a process of its own."""
    command = [sys.executable, "-m", "bench.worker", subject, case.name, str(size), str(below)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def _peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
