"""The ledger's entries: which events and files were planned, and what became of them."""

from collections import Counter
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from wms2.models.base import Count, Digest, EventNumber, Model, PositiveCount
from wms2.models.output import ProducedFile
from wms2.models.sizing import PredictedRound
from wms2.models.workflow import RoundKind
from wms2.patterns import Lfn, RequestName, SiteName


class WorkUnitStatus(StrEnum):
    PLANNED = "planned"
    PRODUCED = "produced"
    ABANDONED = "abandoned"


class InputFileState(StrEnum):
    """Available and attempted files can be planned; attempted ones were in a work unit that failed."""

    AVAILABLE = "available"
    PLANNED = "planned"
    ATTEMPTED = "attempted"
    PROCESSED = "processed"
    EXCLUDED = "excluded"
    DROPPED = "dropped"


class EventRange(Model):
    """Event numbers from 1, both ends included."""

    first: EventNumber
    last: EventNumber

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.last < self.first:
            raise ValueError(f"the last event {self.last} comes before the first {self.first}")
        return self

    @property
    def events(self) -> int:
        return self.last - self.first + 1


class PlannedFile(Model):
    lfn: Lfn
    events: Count
    size_bytes: Count


class PlannedUnit(Model):
    """A work unit: a range of events to generate, or whole files to read; a file is in one unit only."""

    number: Count
    events: EventRange | None = None
    planned_events: Count
    files: tuple[PlannedFile, ...] = ()

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.events is not None and self.events.events != self.planned_events:
            raise ValueError(
                f"work unit {self.number} plans {self.planned_events} events, not {self.events.events}"
            )
        return self


class PlannedRound(Model):
    """A round with all its work units, as the ledger takes it before anything is submitted."""

    request_name: RequestName
    number: Count
    kind: RoundKind
    snapshot_digest: Digest
    nodes: PositiveCount
    submit_host: str | None = None
    predicted: PredictedRound | None = None
    problems: tuple[str, ...] = ()
    """What could not be planned, in words."""
    work_units: tuple[PlannedUnit, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _everything_once(self) -> Self:
        for what, names in (
            ("work unit", [unit.number for unit in self.work_units]),
            ("file", [file.lfn for unit in self.work_units for file in unit.files]),
        ):
            if len(set(names)) < len(names):
                twice = Counter[int | str](names).most_common(1)[0][0]
                raise ValueError(f"the {what} {twice} is planned twice in one round")
        return self


class ProducedUnit(Model):
    """What a work unit produced, as its merge_output.json says; `output_digest` is that file's SHA-256.

    `processed_events` is how much of the planned range was worked on: a pilot may end early.
    """

    number: Count
    site: SiteName
    processed_events: Count
    produced_events: Count
    output_digest: Digest
    files: tuple[ProducedFile, ...]
    files_read: dict[Lfn, Count] = Field(default_factory=dict)
    """Events that its jobs read of each input file; empty where they could not tell."""


class Balance(Model):
    """The ledger of a request in numbers."""

    events_planned: Count
    events_processed: Count
    events_produced: Count
    events_abandoned: Count
    events_dropped: Count = 0
    """Of what was asked for: a person decided to do without them."""
    units: dict[WorkUnitStatus, Count]
    files: dict[InputFileState, Count]


class CrossCheck(Model):
    """What the ledger says of the same things in different places. In an exact ledger they agree.

    Counted while no round is open.
    """

    offset: Count | None
    """How many event numbers were used up, as the request's next first event says; None with input."""
    events_in_units: Count
    events_in_rounds: Count
    units: Count
    units_in_rounds: Count
    units_without_end: Count
    files_without_end: Count
    files_processed: Count
    files_of_produced_units: Count
    events_dropped: Count = 0
    events_dropped_by_hand: Count = 0
    """As the audit trail tells it."""
    files_dropped: Count = 0
    files_dropped_by_hand: Count = 0
    units_unlike_their_files: Count
    """Produced work units whose output files hold another number of events than they were credited with."""
