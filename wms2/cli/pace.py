"""When something may end, from how fast it went lately. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

CHANGES_KEPT = 20
"""The recent past: so many changes of what is done."""


class Sample(NamedTuple):
    """How much was done at that moment."""

    at: datetime
    done: int


def remembered(
    past: Sequence[Sample], now: datetime, done: int, *, began: datetime | None, done_before: int | None
) -> tuple[Sample, ...]:
    """The past with what is done now. It begins when the round began: the pace of a pilot is another.

    `done_before` is what was done at that moment, None while that is not known.
    """
    kept = tuple(past)
    if began is None or (kept and kept[0].at < began):
        kept = ()
    if not kept and began is not None and done_before is not None:
        kept = (Sample(began, done_before),)
    if kept and kept[-1].done != done:
        kept += (Sample(now, done),)
    return kept[-CHANGES_KEPT:]


def rest_seconds(past: Sequence[Sample], now: datetime, done: int, total: int) -> float | None:
    """How long the rest takes at the pace since the oldest sample; None while nobody can know."""
    if not past or done >= total:
        return None
    elapsed, progress = (now - past[0].at).total_seconds(), done - past[0].done
    if elapsed <= 0 or progress <= 0:
        return None
    return elapsed * (total - done) / progress
