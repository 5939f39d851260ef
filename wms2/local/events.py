"""The events of the demo payload: numbers that say which event it is, and values that follow from its number.

The same event number has the same values everywhere and always, so that any file can be checked event by event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

TREE = "Events"
Unsigned = npt.NDArray[np.unsignedinteger[Any]]
FIXED_BRANCHES: dict[str, Any] = {
    "run": np.dtype(np.uint32),
    "lumi": np.dtype(np.uint32),
    "event": np.dtype(np.uint64),
    "pt": np.dtype(np.float32),
    "eta": np.dtype(np.float32),
    "phi": np.dtype(np.float32),
    "tracks": np.dtype(np.int32),
}
FIXED_BYTES: int = sum(dtype.itemsize for dtype in FIXED_BRANCHES.values())
PADDING = "padding"


@dataclass(frozen=True)
class Numbers:
    """Which events: run, lumi and event number of each, in three arrays of one length."""

    run: Unsigned
    lumi: Unsigned
    event: Unsigned

    def __len__(self) -> int:
        return len(self.event)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Numbers":
        return Numbers(self.run[mask], self.lumi[mask], self.event[mask])

    def chosen(self, lumis: Mapping[str, Sequence[Sequence[int]]] | None) -> "Numbers":
        """Those inside a mask of inclusive lumi ranges per run; a run that is not named is not chosen."""
        if lumis is None:
            return self
        mask = np.zeros(len(self), np.bool_)
        for run, ranges in lumis.items():
            for first, last in ranges:
                mask |= (self.run == int(run)) & (self.lumi >= first) & (self.lumi <= last)
        return self.where(mask)

    def per_lumi(self) -> dict[tuple[int, int], int]:
        """How many events each (run, lumi) has."""
        pairs, counts = np.unique(np.stack([self.run, self.lumi], axis=1), axis=0, return_counts=True)
        return {(int(run), int(lumi)): int(count) for (run, lumi), count in zip(pairs, counts, strict=True)}


def branches(padding: int) -> dict[str, Any]:
    """The tree's branches, with as many bytes of padding per event."""
    if not padding:
        return dict(FIXED_BRANCHES)
    return {**FIXED_BRANCHES, PADDING: np.dtype((np.uint8, (padding,)))}


def contents(numbers: Numbers, padding: int) -> dict[str, Any]:
    """All branches of these events. The padding does not compress, as real detector data hardly does."""
    event = numbers.event.astype(np.uint64)
    values: dict[str, Any] = {
        "run": numbers.run.astype(np.uint32),
        "lumi": numbers.lumi.astype(np.uint32),
        "event": event,
        "pt": (-20 * np.log1p(-_fraction(event, 1))).astype(np.float32),
        "eta": (5 * _fraction(event, 2) - 2.5).astype(np.float32),
        "phi": (2 * np.pi * (_fraction(event, 3) - 0.5)).astype(np.float32),
        "tracks": (100 * _fraction(event, 4)).astype(np.int32),
    }
    if padding:
        words = np.arange(-(-padding // 8), dtype=np.uint64)
        filling = hashed(event[:, np.newaxis] * np.uint64(1_000_003) + words, 5)
        values[PADDING] = np.ascontiguousarray(filling).view(np.uint8)[:, :padding]
    return values


def hashed(numbers: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.uint64]:
    """64 well-mixed bits for each number: the finaliser of the SplitMix64 generator."""
    mixed = numbers + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _fraction(event: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each event."""
    return (hashed(event, salt) >> np.uint64(11)).astype(np.float64) / 2.0**53
