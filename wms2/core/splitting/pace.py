"""How many lumi sections go into a job."""

from __future__ import annotations

from typing import Protocol

from wms2.models.plan import InputFile


class Pace(Protocol):
    """Says when the job at hand is full."""

    room: int
    """How many more the job at hand may take."""

    def enter(self, file: InputFile, lumis: int) -> None:
        """The next file comes, with so many lumi sections."""

    def begin(self) -> None:
        """A new job begins in the file at hand."""

    def spend(self, lumis: int, events: int) -> None:
        """The job at hand has taken these of the file at hand."""


class LumiPace:
    """So many a job."""

    def __init__(self, lumis_per_job: int) -> None:
        self._lumis_per_job = lumis_per_job
        self.room = 0

    def enter(self, file: InputFile, lumis: int) -> None:
        pass

    def begin(self) -> None:
        self.room = self._lumis_per_job

    def spend(self, lumis: int, events: int) -> None:
        pass


class EventPace:
    """As many as the events of a job allow, by the average of each file, and at least one.

    Where the average rounds to zero, lumi sections cost nothing of a job's events. Their events are counted
    apart, and they fill a job when they alone reach its events.
    """

    def __init__(self, events_per_job: int) -> None:
        self._events_per_job = events_per_job
        self._spent = self._crumbs = 0
        self._events = self._lumis = self._average = 0
        self.room = 0

    def enter(self, file: InputFile, lumis: int) -> None:
        self._events, self._lumis = file.events, lumis
        self._average = average(file.events, lumis)
        self.room = self._affordable()

    def begin(self) -> None:
        self._spent = self._crumbs = 0
        self.room = max(self._affordable(), 1)

    def spend(self, lumis: int, events: int) -> None:
        if self._average:
            self._spent += self._average * lumis
        else:
            self._crumbs += events

    def _affordable(self) -> int:
        if self._average:
            return max(self._events_per_job - self._spent, 0) // self._average
        if not self._events:
            return self._lumis
        return max(self._events_per_job - self._crumbs, 0) * self._lumis // self._events


def average(events: int, lumis: int) -> int:
    """Events of a lumi section, if all of the file's hold as many."""
    return round(events / lumis)
