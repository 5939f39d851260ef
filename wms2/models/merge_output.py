"""`merge_output.json`: what a work unit produced. It is produced when this file is valid."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from wms2.models.base import Count, Model, PositiveCount
from wms2.models.output import ProducedFile
from wms2.patterns import Lfn, RequestName, SiteName, Word

Figure = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class Told(Model):
    """A part of what a job says of itself: more may be in it than is needed here."""

    model_config = ConfigDict(extra="ignore")


class PilotIteration(Told):
    events: Count


class PilotStep(Told):
    step: Word
    threads: PositiveCount
    events: Count
    wall_time_sec: Figure
    cpu_time_sec: Figure
    time_per_event: Figure
    memory_mb: Figure
    output_bytes: Count
    cpu_efficiency: Figure


class PilotReport(Told):
    """What a pilot measured. It comes from a worker node, and is believed as far as it makes sense."""

    iterations: tuple[PilotIteration, ...]
    per_step: tuple[PilotStep, ...]
    time_per_event: Figure
    startup_sec: Figure


class ProcessedNode(Model):
    """What a processing node was planned to do and did; a pilot may end before its last planned event."""

    cluster: int
    events: Count
    events_read: Count | None = None
    first_event: int | None
    last_event: int | None
    files: tuple[Lfn, ...]
    files_read: dict[Lfn, Count] | None = None
    """Events read of each file; None where the job could not tell, or there are no files."""
    pilot: dict[str, Any] | None = None
    """As the job wrote it, and so a part of the digest; PilotReport reads it."""


class MergeOutput(Model):
    version: Annotated[int, Field(ge=1, le=1)]
    request: RequestName
    round: Count
    work_unit: Count
    site: SiteName
    cluster: int
    files: tuple[ProducedFile, ...]
    nodes: dict[str, ProcessedNode]
    metrics: dict[str, Any]

    def digest(self) -> str:
        """By which a unit's output is known for good: what older scripts did not write is no part of it."""
        known = self.model_dump_json(exclude={"nodes": {"__all__": {"files_read"}}})
        return hashlib.sha256(known.encode()).hexdigest()

    @property
    def events_written(self) -> int:
        """Events in the dataset that has most of them: what the request counts as produced."""
        written: Counter[str] = Counter()
        for file in self.files:
            written[file.dataset] += file.events
        return max(written.values(), default=0)
