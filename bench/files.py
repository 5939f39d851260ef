"""The files of a round: its snapshot, its DAGs, and the status that DAGMan writes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from bench.case import Case
from bench.dataset import snapshot_of
from wms2.core.planning import plan_round
from wms2.dagman.round_folder import write_round
from wms2.dagman.snapshot_file import Frozen, freeze, read_frozen
from wms2.dagman.status import read_status
from wms2.models.plan import RoundPlan, Snapshot

SIZES = (10_000, 100_000)

STATUS_HEADER = """[
  Type = "DagStatus";
  DagFiles = {{
    "group.dag"
  }};
  Timestamp = 1763268000; /* "Sun Nov 16 04:40:00 2025" */
  DagStatus = 3; /* "STATUS_SUBMITTED ()" */
  NodesTotal = {nodes};
  NodesDone = {done};
  NodesPre = 0;
  NodesQueued = {queued};
  NodesPost = 0;
  NodesReady = 0;
  NodesUnready = 0;
  NodesFutile = 0;
  NodesFailed = 0;
  JobProcsHeld = 0;
  JobProcsIdle = 0; /* includes held */
]
"""
STATUS_NODE = """[
  Type = "NodeStatus";
  Node = "{name}";
  NodeStatus = {status}; /* "STATUS_DONE" */
  StatusDetails = "";
  RetryCount = 0;
  JobProcsQueued = 0;
  JobProcsHeld = 0;
]
"""
STATUS_END = """[
  Type = "StatusEnd";
  EndTime = 1763268001; /* "Sun Nov 16 04:40:01 2025" */
  NextUpdate = 1763268031; /* "Sun Nov 16 04:40:31 2025" */
]
"""


class ToFreeze(NamedTuple):
    snapshot: Snapshot
    path: Path


class ToWrite(NamedTuple):
    """A round, its snapshot frozen beforehand, as a worker does it."""

    plan: RoundPlan
    frozen: Frozen
    folder: Path


def _snapshot(files: int) -> Snapshot:
    return snapshot_of(files, "FileBased", {"files_per_job": 1})


def _to_freeze(files: int, folder: Path) -> ToFreeze:
    return ToFreeze(_snapshot(files), folder / "snapshot")


def _freeze(given: ToFreeze) -> dict[str, int]:
    return {"files": len(freeze(given.snapshot, given.path).snapshot.inputs)}


def _bytes_of_snapshot(given: ToFreeze, _: float) -> dict[str, int]:
    return {"bytes": given.path.stat().st_size}


def _to_read(files: int, folder: Path) -> Path:
    """Frozen by another process: the memory that it takes would hide what reading takes."""
    path = folder / "snapshot"
    other = get_context("spawn").Process(target=_freeze_new, args=(files, path))
    other.start()
    other.join()
    return path


def _freeze_new(files: int, path: Path) -> None:
    freeze(_snapshot(files), path)


def _read(path: Path) -> dict[str, int]:
    frozen = read_frozen(path)
    return {"files": len(frozen.snapshot.inputs) if frozen else 0}


def _to_write(nodes: int, folder: Path) -> ToWrite:
    frozen = freeze(_snapshot(nodes), folder / "snapshot")
    return ToWrite(plan_round(frozen.snapshot), frozen, folder / "round")


def _write(given: ToWrite) -> dict[str, int]:
    write_round(given.plan, given.folder, given.frozen)
    return {"jobs": given.plan.jobs, "work_units": len(given.plan.work_units)}


def _compare_with_one_file(given: ToWrite, cpu_sec: float) -> dict[str, float]:
    """The snapshot is not counted: the round only gives its file another name."""
    paths = [path for path in given.folder.rglob("*") if path.is_file()]
    written = [path for path in paths if not path.samefile(given.frozen.path)]
    one_file_sec = _into_one_file(written, given.folder.parent / "one_file")
    return {
        "files": len(paths),
        "bytes": sum(path.stat().st_size for path in written),
        "one_file_cpu_sec": round(one_file_sec, 4),
        "ratio_to_one_file": round(cpu_sec / max(one_file_sec, 1e-6), 1),
    }


def _into_one_file(sources: Iterable[Path], target: Path) -> float:
    """CPU seconds to write all of it, and to have it on disk; reading it does not count."""
    seconds = 0.0
    with target.open("wb", buffering=0) as file:
        for source in sources:
            content = source.read_bytes()
            start = time.process_time()
            file.write(content)
            seconds += time.process_time() - start
        start = time.process_time()
        os.fsync(file)
        return seconds + time.process_time() - start


def status_text(nodes: Mapping[str, int]) -> str:
    """A status file as DAGMan writes it, for nodes with their status."""
    done, queued = (sum(1 for status in nodes.values() if status == which) for which in (5, 3))
    return (
        STATUS_HEADER.format(nodes=len(nodes), done=done, queued=queued)
        + "".join(STATUS_NODE.format(name=name, status=status) for name, status in nodes.items())
        + STATUS_END
    )


def _status_file(nodes: int, folder: Path) -> Path:
    path = folder / "group.dag.status"
    path.write_text(status_text({f"proc_{number:06d}": 5 for number in range(nodes)}))
    return path


def _read_status(path: Path) -> dict[str, int]:
    status = read_status(path)
    return {"nodes": len(status.nodes) if status else 0}


CASES = (
    Case("snapshot, freezing", "files", SIZES, _to_freeze, _freeze, _bytes_of_snapshot),
    Case("snapshot, reading", "files", SIZES, _to_read, _read),
    Case("DAG files, writing", "nodes", SIZES, _to_write, _write, _compare_with_one_file),
    Case("status file, reading", "nodes", SIZES, _status_file, _read_status),
)
