"""When a step must be ended. Pure: it is given what was measured, and answers with the reason or with nothing.

It must never end a healthy step. So nothing is decided by one measurement: a process that forks, or ends, while it is
looked at can be counted twice. And only time in which the step was watched counts: a job that was suspended with its
wrapper has lost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.failure import SCRATCH_FULL, STALLED, TOO_LONG, TOO_MUCH_MEMORY
from sandbox.limits import Limits
from sandbox.usage import CpuSeconds

# A living program uses at least this part of one core: 60 s of CPU in half an hour.
LEAST_CPU_SHARE = 1 / 30
MIB = 1024**2


@dataclass(frozen=True)
class Verdict:
    """Why a step must end: the long exit code, and a sentence with the measured value and its limit."""

    code: int
    message: str


@dataclass(frozen=True)
class Sample:
    """One look at a running step. `now` and `watched_sec` (since the look before) are seconds."""

    now: float
    watched_sec: float
    memory_bytes: float
    disk_bytes: float
    cpu_sec: CpuSeconds
    written: tuple[int, int, int]


class Watchdog:
    """Looks at the samples of one step, in their order."""

    def __init__(self, limits: Limits, stall_sec: float, silent_sec: float | None = None) -> None:
        self._limits = limits
        self._idle = _Idle(stall_sec)
        self._silence = _Silence(silent_sec)
        self._suspicion = 0

    @property
    def suspects(self) -> bool:
        """Whether the newest sample was above a limit, and the next one should come soon."""
        return self._suspicion != 0

    def judge(self, sample: Sample) -> Verdict | None:
        over = self._over_a_size(sample)
        confirmed = over is not None and over.code == self._suspicion
        self._suspicion = over.code if over else 0
        idle, silent = self._idle.judge(sample), self._silence.judge(sample)
        return (over if confirmed else None) or self._too_long(sample) or idle or silent

    def _over_a_size(self, sample: Sample) -> Verdict | None:
        memory, disk = self._limits.memory_bytes, self._limits.disk_bytes
        if memory is not None and sample.memory_bytes > memory:
            told = f"memory: {sample.memory_bytes / MIB:.0f} MiB are above the job's limit of {memory / MIB:.0f} MiB"
            return Verdict(TOO_MUCH_MEMORY, told)
        if disk is not None and sample.disk_bytes > disk:
            told = f"disk: {sample.disk_bytes / MIB:.1f} MiB in the job's folder are above its limit of"
            return Verdict(SCRATCH_FULL, f"{told} {disk / MIB:.1f} MiB")
        return None

    def _too_long(self, sample: Sample) -> Verdict | None:
        wall, limit = sample.now - self._limits.started, self._limits.wall_sec
        if limit is None or wall <= limit:
            return None
        told = f"wall time: the job has run for {wall:.0f} s, and may run for {limit:.0f} s"
        return Verdict(TOO_LONG, f"{told} before its report must be sent")


class _Idle:
    """Neither CPU nor output for a whole window: looping, or waiting for what never comes."""

    def __init__(self, stall_sec: float) -> None:
        self._stall_sec = stall_sec
        self._watched_sec = 0.0
        self._used_sec = 0.0
        self._known: CpuSeconds = {}
        self._written: tuple[int, int, int] | None = None

    def judge(self, sample: Sample) -> Verdict | None:
        self._watched_sec += sample.watched_sec
        # Each process for itself: the time of one that ended must not be taken off that of the others.
        self._used_sec += sum(
            max(0.0, seconds - self._known.get(process, 0.0)) for process, seconds in sample.cpu_sec.items()
        )
        self._known = sample.cpu_sec
        self._written = self._written or sample.written
        if self._watched_sec < self._stall_sec:
            return None
        watched, used = self._watched_sec, self._used_sec
        idle = used < watched * LEAST_CPU_SHARE and sample.written == self._written
        self._watched_sec, self._used_sec, self._written = 0.0, 0.0, sample.written
        if not idle:
            return None
        told = f"looping: the step used {used:.1f} s of CPU and wrote nothing for {watched:.0f} s"
        return Verdict(STALLED, f"{told}, and its limit is {self._stall_sec:g} s")


class _Silence:
    """No output for so long, CPU or not; only for steps that ask for it, because many are silent and well."""

    def __init__(self, silent_sec: float | None) -> None:
        self._silent_sec = silent_sec
        self._watched_sec = 0.0
        self._written: tuple[int, int, int] | None = None

    def judge(self, sample: Sample) -> Verdict | None:
        if sample.written != self._written:
            self._watched_sec, self._written = 0.0, sample.written
            return None
        self._watched_sec += sample.watched_sec
        if self._silent_sec is None or self._watched_sec < self._silent_sec:
            return None
        told = f"looping: the step computed but wrote nothing for {self._watched_sec:.0f} s"
        return Verdict(STALLED, f"{told}, and its limit is {self._silent_sec:g} s")
