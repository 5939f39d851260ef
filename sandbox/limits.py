"""What the job may use: what it asked HTCondor for, as the ad in its scratch folder says.

HTCondor itself removes a job that goes far beyond this, and then no report comes back: the watchdog has to be first.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Mapping

JOB_AD = "_CONDOR_JOB_AD"
# Of the wall time, what is kept for ending the step, taking outputs back and sending the report.
RESERVED_SHARE, LONGEST_RESERVE_SEC = 0.1, 600.0
# How much later than a step what is no step is stopped: fetching inputs, copying outputs.
ALARM_SHARE, LONGEST_ALARM_SEC = 0.05, 60.0
_LITERAL = re.compile(
    r"^(RequestMemory|RequestDisk|MaxWallTimeMins)\s*=\s*(\d+(?:\.\d+)?(?:E[+-]?\d{1,2})?)\s*$", re.I | re.M
)


@dataclass(frozen=True)
class Limits:
    """Of the whole job; None where nobody set one. `wall_sec` counts from `started`, on the monotonic clock."""

    memory_bytes: float | None = None
    disk_bytes: float | None = None
    wall_sec: float | None = None
    started: float = field(default_factory=time.monotonic)

    def seconds_left(self) -> float:
        if self.wall_sec is None:
            return float("inf")
        return self.wall_sec - (time.monotonic() - self.started)

    def seconds_to_alarm(self) -> float:
        """When the job itself must stop, whatever it does; a step is ended by its watchdog before that."""
        return self.seconds_left() + min(LONGEST_ALARM_SEC, (self.wall_sec or 0.0) * ALARM_SHARE)


def load(environment: Mapping[str, str]) -> Limits:
    """The limits of the job that runs here; a job that nobody limited, or whose ad cannot be read, has none."""
    try:
        text = Path(environment.get(JOB_AD) or "/no/such/ad").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    # Expressions are not evaluated: only plain numbers are limits.
    asked = {name.lower(): float(value) for name, value in _LITERAL.findall(text) if float(value) > 0}
    memory_mib, disk_kib = asked.get("requestmemory"), asked.get("requestdisk")
    minutes = asked.get("maxwalltimemins")
    return Limits(
        memory_bytes=memory_mib * 1024**2 if memory_mib else None,
        disk_bytes=disk_kib * 1024 if disk_kib else None,
        wall_sec=_without_reserve(minutes * 60) if minutes else None,
    )


def _without_reserve(seconds: float) -> float:
    return seconds - min(RESERVED_SHARE * seconds, LONGEST_RESERVE_SEC)
