"""Child processes: started in a group of their own, measured while they run, never left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Collection, Iterator, Mapping, Sequence

FIRST_SAMPLE_SEC = 0.2
LONGEST_SAMPLE_SEC = 10.0
GRACE_SEC = 10.0
# A living program uses at least this part of one core: 60 s of CPU in half an hour.
LEAST_CPU_SHARE = 1 / 30
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Outcome:
    """`status` is the exit code, or minus the signal that ended the process."""

    status: int
    wall_sec: float
    cpu_sec: float
    peak_rss_mb: int
    stalled: bool

    @property
    def short_code(self) -> int:
        """The status as a shell would show it: 128 + n for signal n."""
        return self.status if self.status >= 0 else 128 - self.status


def run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, stall_sec: float
) -> Outcome:
    """Run a step to its end; a process tree that neither computes nor writes for `stall_sec` is killed.

    OSError when the program cannot be started at all.
    """
    _adopt_orphans()
    others = set(_descendants(os.getpid()))
    started = time.monotonic()
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watch = _Watch(child.pid, folder, stall_sec)
        with _ending(child, others):
            watch.until_it_ends()
    wall_sec = time.monotonic() - started
    _, wait_status, usage = os.wait4(child.pid, 0)
    child.returncode = _status(wait_status)
    return Outcome(
        status=child.returncode,
        wall_sec=wall_sec,
        cpu_sec=usage.ru_utime + usage.ru_stime,
        peak_rss_mb=max(watch.peak_rss, usage.ru_maxrss * 1024) // 1_000_000,
        stalled=watch.stalled,
    )


def end_all() -> None:
    """Kill everything that this process ever started: the last resort of a wrapper that is about to end."""
    _kill(_descendants(os.getpid()))


def call(command: Sequence[str], timeout_sec: float) -> tuple[int, str]:
    """Run a small tool; its exit code and what it said. TimeoutExpired and OSError are the caller's."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=timeout_sec)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return child.returncode, output.decode("utf-8", "replace").strip()


class _Watch:
    """Samples a process tree until its root ends or is found stalled."""

    def __init__(self, pid: int, folder: Path, stall_sec: float) -> None:
        self.peak_rss = 0
        self.stalled = False
        self._pid = pid
        self._folder = folder
        self._stall_sec = stall_sec
        self._window_start = time.monotonic()
        self._window_cpu = 0.0
        self._window_bytes = 0

    def until_it_ends(self) -> None:
        ended = threading.Event()
        threading.Thread(target=self._wait, args=(ended,), daemon=True).start()
        pause = FIRST_SAMPLE_SEC
        while not ended.wait(min(pause, self._stall_sec)):
            rss, cpu_sec = _usage(self._pid)
            self.peak_rss = max(self.peak_rss, rss)
            if self._is_stalled(cpu_sec):
                self.stalled = True
                return
            pause = min(pause * 1.5, LONGEST_SAMPLE_SEC)

    def _wait(self, ended: threading.Event) -> None:
        # The zombie is kept: as long as it is there its process group's number cannot be given to another.
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        ended.set()

    def _is_stalled(self, cpu_sec: float) -> bool:
        elapsed = time.monotonic() - self._window_start
        if elapsed < self._stall_sec:
            return False
        written = _bytes_below(self._folder)
        idle = cpu_sec - self._window_cpu < elapsed * LEAST_CPU_SHARE and written == self._window_bytes
        self._window_start, self._window_cpu, self._window_bytes = time.monotonic(), cpu_sec, written
        return idle


@contextlib.contextmanager
def _ending(child: subprocess.Popen[bytes], others: set[int]) -> Iterator[None]:
    """Whatever happens inside, the child and all that it started are gone afterwards.

    The child itself is reaped only when this block is left by an exception. `others` are spared.
    """
    try:
        yield
    except BaseException:
        _terminate(child.pid)
        _kill_family(child.pid, others)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_SEC)
        raise
    if _is_running(child.pid):
        _terminate(child.pid)
    _kill_family(child.pid, others)


def _is_running(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None


def _terminate(pid: int) -> None:
    """Ask first: a step that gets SIGTERM can still write its report."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SEC
    while time.monotonic() < deadline:
        if not _is_running(pid):
            return
        time.sleep(0.05)


def _kill_family(pid: int, others: set[int]) -> None:
    """The child's group, and orphans in groups of their own that were handed to this process."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _kill(set(_descendants(os.getpid())) - others - {pid})


def _kill(pids: Collection[int]) -> None:
    """Kill processes and see them gone, but do not wait for ever for one that hangs in the kernel."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GRACE_SEC
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.01)


def _adopt_orphans() -> None:
    """Processes that outlive their parent become our children, so that we find and end them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _usage(root: int) -> tuple[int, float]:
    """Resident bytes and CPU seconds of a process tree, now."""
    rss, ticks = 0, 0
    for pid in [root, *_descendants(root)]:
        stat = _stat(pid)
        if stat:
            ticks += sum(int(stat[i]) for i in (11, 12, 13, 14))
            rss += int(stat[21]) * _PAGE
    return rss, ticks / _TICKS


def _descendants(root: int) -> list[int]:
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


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the program's name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()
    except OSError:
        return None


def _bytes_below(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(root, name)).st_size
    return total


def _status(wait_status: int) -> int:
    return -os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else os.WEXITSTATUS(wait_status)
