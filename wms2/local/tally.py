"""Counting events: the numbers that should be there, held against those that are. Pure arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from wms2.models.base import Count, Model
from wms2.models.merge_output import MergeOutput
from wms2.models.request import RequestStatus


class Tally(Model):
    """How many event numbers were expected and found, and in how many ways they differ."""

    expected: Count
    found: Count
    missing: Count
    twice: Count
    unexpected: Count

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.twice or self.unexpected)


def tally(expected: Iterable[int], found: Iterable[int]) -> Tally:
    """`found` holds a number as often as it was found."""
    wanted, times = set(expected), Counter(found)
    return Tally(
        expected=len(wanted),
        found=times.total(),
        missing=len(wanted - times.keys()),
        twice=sum(1 for count in times.values() if count > 1),
        unexpected=len(times.keys() - wanted),
    )


def credited_numbers(outputs: Iterable[MergeOutput]) -> Iterator[int]:
    """The event numbers that the work units of a simulation were credited with; a pilot's end where it ended."""
    for output in outputs:
        for node in output.nodes.values():
            if node.first_event is not None and node.last_event is not None:
                yield from range(node.first_event, node.last_event + 1)


class RequestReport(Model):
    """What became of a request: what the ledger says of it, and what its merged files hold."""

    name: str
    status: RequestStatus
    reason: str
    requested: Count
    produced: Count
    events: Tally
    wrong_values: Count
    files: Count
    size_bytes: Count
    sites: tuple[str, ...]
    repeated: Count
    rounds: Count
    seconds: float

    def flaws(self) -> Iterator[str]:
        """What is wrong, in words; nothing when every event is accounted for."""
        if self.status is not RequestStatus.COMPLETED:
            yield f"it is {self.status}: {self.reason}"
        if self.produced < self.requested:
            yield f"{self.produced} of {self.requested} events were produced"
        if self.produced != self.events.found:
            yield f"the ledger counts {self.produced} events and the merged files hold {self.events.found}"
        problems = {
            "event numbers are missing": self.events.missing,
            "event numbers are there twice": self.events.twice,
            "event numbers are there that nobody asked for": self.events.unexpected,
            "events have wrong values": self.wrong_values,
        }
        yield from (f"{count} {words}" for words, count in problems.items() if count)
