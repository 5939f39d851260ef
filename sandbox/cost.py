"""What a pilot's measurements say about the time of jobs. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

# Of the longest measurement, the part that its events must have before a slope means anything.
LEAST_EVENT_SHARE = 0.1


@dataclass(frozen=True)
class Cost:
    """wall time = startup_sec + sec_per_event * events"""

    startup_sec: float
    sec_per_event: float

    def of(self, events: int) -> float:
        return self.startup_sec + self.sec_per_event * events


def fit(measurements: Sequence[tuple[int, float]]) -> Cost:
    """The straight line nearest to (events, seconds), by least squares.

    One measurement cannot tell start-up from events. Nor can several while start-up is nearly all there is: noise
    would decide. Then the largest measurement alone counts, start-up included, which errs towards shorter jobs.
    """
    largest_events, largest_sec = max(measurements)
    plain = Cost(0.0, largest_sec / max(1, largest_events))
    count = len(measurements)
    mean_events = sum(events for events, _ in measurements) / count
    mean_sec = sum(seconds for _, seconds in measurements) / count
    spread = sum((events - mean_events) ** 2 for events, _ in measurements)
    if not spread:
        return plain
    slope = sum((events - mean_events) * (seconds - mean_sec) for events, seconds in measurements) / spread
    startup_sec = mean_sec - slope * mean_events
    if slope * largest_events < LEAST_EVENT_SHARE * largest_sec:
        return plain
    if startup_sec < 0:
        # Later events were dearer than the first ones: through the origin then.
        squares = sum(events**2 for events, _ in measurements)
        return Cost(0.0, sum(events * seconds for events, seconds in measurements) / squares)
    return Cost(startup_sec, slope)


def converged(measurements: Sequence[tuple[int, float]], tolerance: float) -> bool:
    """Whether the newest measurement changed the cost of an event by no more than the tolerance.

    It must be the largest: a smaller one, as at the end of a range, says nothing new.
    """
    if len(measurements) < 2 or measurements[-1][0] <= max(measurements[:-1])[0]:
        return False
    before, after = fit(measurements[:-1]).sec_per_event, fit(measurements).sec_per_event
    return abs(after - before) <= tolerance * after
