"""A case: something to prepare, something to measure, at some sizes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """`prepare` makes what `run` works on; only `run` is timed, and it returns counts of what it made."""

    name: str
    unit: str
    """What a size counts, such as files."""
    sizes: tuple[int, ...]
    prepare: Callable[[int], Any]
    run: Callable[[Any], Mapping[str, int]]


def measure(case: Case, size: int) -> dict[str, Any]:
    """Run a case here. The peak of the memory is that of the whole process, so it wants one of its own."""
    prepared = case.prepare(size)
    prepared_mb = _peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    counts = case.run(prepared)
    return {
        "case": case.name,
        "size": size,
        "unit": case.unit,
        "cpu_sec": round(time.process_time() - cpu, 4),
        "wall_sec": round(time.perf_counter() - wall, 4),
        "prepared_mb": prepared_mb,
        "peak_mb": _peak_mb(),
        **counts,
    }


def measure_apart(subject: str, case: Case, size: int) -> dict[str, Any]:
    """Run a case in a process of its own."""
    command = [sys.executable, "-m", "bench.worker", subject, case.name, str(size)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def _peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
