"""Which files go together into a block, and when a block takes no more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Load:
    """How much a block or a work unit holds."""

    files: int = 0
    size_bytes: int = 0
    lumis: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(self.files + other.files, self.size_bytes + other.size_bytes, self.lumis + other.lumis)


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """What a block may hold at most, and how long it stays open. DBS takes no block of 100,000 lumis."""

    load: Load = Load(files=500, size_bytes=2 * 10**12, lumis=50_000)
    age: timedelta = timedelta(hours=24)


def takes(block: Load, unit: Load, most: Load) -> bool:
    """Whether the files of a work unit fit in. An empty block takes any: they must go somewhere, and together."""
    after = block + unit
    fits = after.files <= most.files and after.size_bytes <= most.size_bytes and after.lumis <= most.lumis
    return fits or block == Load()


def is_due(opened_at: datetime, now: datetime, limits: BlockLimits, finishing: bool) -> bool:
    """Whether an open block is closed although it is not full."""
    return finishing or now - opened_at >= limits.age
