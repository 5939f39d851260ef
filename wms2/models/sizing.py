"""What was measured of a request's jobs."""

from __future__ import annotations

from wms2.models.base import Model, PositiveCount, PositiveNumber


class MeasuredSizing(Model):
    """Per event and per job, as the pilot and the rounds after it measured."""

    memory_mb: PositiveCount
    time_per_event_sec: PositiveNumber
    size_per_event_kb: PositiveNumber
    events_per_job: PositiveCount
