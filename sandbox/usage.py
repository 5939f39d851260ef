"""What processes and folders use, as the kernel tells it now.

Processes and files come and go while they are looked at: what vanishes under the reader counts as gone, never as an
error.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Collection, Dict, Iterator, Tuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
_BLOCK = 512

# A process is known by its number and its start: numbers are given out again.
CpuSeconds = Dict[Tuple[int, int], float]


@dataclass(frozen=True)
class ProcessUse:
    """Resident bytes of all processes together, pages that they share counted for each; CPU of each so far."""

    rss_bytes: int
    cpu_sec: CpuSeconds


@dataclass(frozen=True)
class FolderUse:
    """`bytes` on the disk; `mark` changes whenever anything is written."""

    bytes: int
    mark: tuple[int, int, int]


def descendants(root: int) -> list[int]:
    """All processes that come from this one, and orphans that were handed to it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        stat = _stat(int(entry)) if entry.isdigit() else None
        if stat:
            children.setdefault(int(stat[1]), []).append(int(entry))
    found, queue = [], [root]
    while queue:
        for pid in children.get(queue.pop(), []):
            found.append(pid)
            queue.append(pid)
    return found


def of_processes(pids: Collection[int]) -> ProcessUse:
    rss, cpu_sec = 0, {}
    for pid in pids:
        stat = _stat(pid)
        if stat:
            rss += int(stat[21]) * _PAGE
            # With that of children it has waited for.
            cpu_sec[pid, int(stat[19])] = sum(int(stat[i]) for i in (11, 12, 13, 14)) / _TICKS
    return ProcessUse(rss, cpu_sec)


def memory(pids: Collection[int]) -> int:
    """Bytes that the processes hold together, shared pages divided among those that share them."""
    return sum(_proportional(pid) for pid in pids)


def of_folder(folder: Path) -> FolderUse:
    """Everything below a folder; a file with several names is there once, and holes take no room."""
    total, on_disk, newest, seen = 0, 0, 0, set()
    for stat in _files_below(folder):
        if (stat.st_dev, stat.st_ino) in seen:
            continue
        seen.add((stat.st_dev, stat.st_ino))
        total += stat.st_size
        on_disk += min(stat.st_size, stat.st_blocks * _BLOCK)
        newest = max(newest, stat.st_mtime_ns)
    return FolderUse(on_disk, (total, newest, len(seen)))


def _files_below(folder: Path) -> Iterator[os.stat_result]:
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                yield os.lstat(os.path.join(root, name))


def _proportional(pid: int) -> int:
    """PSS; the resident size where the kernel does not tell it."""
    with contextlib.suppress(OSError):
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
        if found:
            return int(found.group(1)) * 1024
    stat = _stat(pid)
    return int(stat[21]) * _PAGE if stat else 0


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the program's name, which may hold anything."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 21 else None
