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
from typing import Callable, Collection, Iterator, Mapping, Sequence

from sandbox import usage
from sandbox.limits import Limits
from sandbox.watchdog import Sample, Verdict, Watchdog

FIRST_SAMPLE_SEC = 0.2
LONGEST_SAMPLE_SEC = 10.0
# Of the time, at most this part goes into looking: machines have thousands of processes, jobs thousands of files.
LOOKING_SHARE = 0.01
SECOND_LOOK_SEC = 0.5
GRACE_SEC = 10.0
# cmsRun ends after the event that it is at; its children know nothing of this signal and would die of it.
_SOFTLY = (os.kill, signal.SIGUSR2)
_TERM = (os.killpg, signal.SIGTERM)
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Outcome:
    """`status` is the exit code, or minus the signal that ended the process; `ended` why the watchdog ended it."""

    status: int
    wall_sec: float
    cpu_sec: float
    peak_rss_mb: int
    ended: Verdict | None = None

    @property
    def short_code(self) -> int:
        """The status as a shell would show it: 128 + n for signal n."""
        return self.status if self.status >= 0 else 128 - self.status


@dataclass(frozen=True)
class Watched:
    """What the watchdog looks at beside the processes: the job's folder for its size, the step's for its output."""

    job_folder: Path
    step_folder: Path
    limits: Limits
    stall_sec: float
    silent_sec: float | None = None


def run(command: Sequence[str], environment: Mapping[str, str], log: Path, watched: Watched) -> Outcome:
    """Run a step in its folder, to its end or to that which the watchdog puts to it.

    OSError when the program cannot be started at all.
    """
    _adopt_orphans()
    others = set(usage.descendants(os.getpid()))
    started = time.monotonic()
    # While a step runs its watchdog keeps the time, and not the job's alarm.
    alarm_sec, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=watched.step_folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watch = _Watch(child.pid, watched, others)
        with _ending(child, others):
            watch.until_it_ends()
    wall_sec = time.monotonic() - started
    _, wait_status, used = os.wait4(child.pid, 0)
    child.returncode = _status(wait_status)
    if alarm_sec and not watch.verdict:
        signal.setitimer(signal.ITIMER_REAL, max(0.001, alarm_sec - wall_sec))
    return Outcome(
        status=child.returncode,
        wall_sec=wall_sec,
        cpu_sec=used.ru_utime + used.ru_stime,
        peak_rss_mb=max(watch.peak_rss, used.ru_maxrss * 1024) // 1_000_000,
        ended=watch.verdict,
    )


def end_all() -> None:
    """Kill everything that this process ever started: the last resort of a wrapper that is about to end."""
    _kill(usage.descendants(os.getpid()))


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
    """Samples a step until it ends or must be ended. Orphans in sessions of their own are its processes too."""

    def __init__(self, pid: int, watched: Watched, others: set[int]) -> None:
        self.peak_rss = 0
        self.verdict: Verdict | None = None
        self._pid = pid
        self._watched = watched
        self._others = others
        self._watchdog = Watchdog(watched.limits, watched.stall_sec, watched.silent_sec)

    def until_it_ends(self) -> None:
        ended = threading.Event()
        threading.Thread(target=self._wait, args=(ended,), daemon=True).start()
        pause, before = FIRST_SAMPLE_SEC, time.monotonic()
        while not ended.wait(pause):
            now, used = time.monotonic(), time.process_time()
            # Where much more than the pause has passed the machine or the whole job stood still.
            verdict = self._watchdog.judge(self._sample(now, min(now - before, 2 * pause)))
            if verdict and not ended.is_set():
                self.verdict = verdict
                return
            before = now
            pause = self._next_pause(pause, time.process_time() - used)

    def _next_pause(self, pause: float, cost_sec: float) -> float:
        if self._watchdog.suspects:
            return SECOND_LOOK_SEC
        longest = max(LONGEST_SAMPLE_SEC, cost_sec / LOOKING_SHARE)
        until_limit = max(FIRST_SAMPLE_SEC, self._watched.limits.seconds_left())
        return min(pause * 1.5, longest, self._watched.stall_sec, until_limit)

    def _wait(self, ended: threading.Event) -> None:
        # The zombie is kept: as long as it is there its process group's number cannot be given to another.
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        ended.set()

    def _sample(self, now: float, watched_sec: float) -> Sample:
        pids = set(usage.descendants(os.getpid())) - self._others
        found = usage.of_processes(pids)
        self.peak_rss = max(self.peak_rss, found.rss_bytes)
        return Sample(
            now=now,
            watched_sec=watched_sec,
            memory_bytes=self._memory(found.rss_bytes, pids),
            disk_bytes=usage.of_folder(self._watched.job_folder).bytes,
            cpu_sec=found.cpu_sec,
            written=usage.of_folder(self._watched.step_folder).mark,
        )

    def _memory(self, rss_bytes: int, pids: set[int]) -> int:
        """The exact figure is dear, and never above the resident size: it is asked for only when it can matter."""
        limit = self._watched.limits.memory_bytes
        own = usage.of_processes([os.getpid()]).rss_bytes
        if limit is None or rss_bytes + own <= limit:
            return rss_bytes + own
        return usage.memory([os.getpid(), *pids])


@contextlib.contextmanager
def _ending(child: subprocess.Popen[bytes], others: set[int]) -> Iterator[None]:
    """Whatever happens inside, the child and all that it started are gone afterwards.

    The child itself is reaped only when this block is left by an exception. `others` are spared.
    """
    try:
        yield
    except BaseException:
        _terminate(child.pid, _TERM)
        _kill_family(child.pid, others)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_SEC)
        raise
    if _is_running(child.pid):
        _terminate(child.pid, _SOFTLY, _TERM)
    _kill_family(child.pid, others)


def _is_running(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None


def _terminate(pid: int, *signals: tuple[Callable[[int, int], None], int]) -> None:
    """Ask before it is forced: a step can still write its report."""
    for send, number in signals:
        with contextlib.suppress(ProcessLookupError):
            send(pid, number)
        deadline = time.monotonic() + GRACE_SEC
        while time.monotonic() < deadline:
            if not _is_running(pid):
                return
            time.sleep(0.05)


def _kill_family(pid: int, others: set[int]) -> None:
    """The child's group, and orphans in groups of their own that were handed to this process."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _kill(set(usage.descendants(os.getpid())) - others - {pid})


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


def _status(wait_status: int) -> int:
    return -os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else os.WEXITSTATUS(wait_status)
