"""What a request's jobs need: as somebody decided, as it was predicted, and as it was measured."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, computed_field

from wms2.models.base import Model, PositiveCount, PositiveNumber
from wms2.models.plan import Sizing

TOLERANCE_PERCENT = 20
"""How far a prediction may be off and still be called good."""

Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class JobFigures(Model):
    """What jobs were measured to need. No margin is in it."""

    time_per_event_sec: PositiveNumber
    """Wall seconds of the whole job with all its cores; start-up apart."""
    startup_sec: Seconds
    peak_rss_mb: PositiveCount
    size_per_event_kb: PositiveNumber
    """All outputs together."""
    merged_kb_per_event: PositiveNumber
    """The largest output alone."""
    written_kb_per_event: PositiveNumber
    """What the steps write on the machine, also when it is no output."""


class MeasuredRound(JobFigures):
    """One round, measured when it is closed."""

    jobs: PositiveCount
    job_sec: PositiveNumber
    """The mean of its jobs, all steps together."""


class MeasuredSizing(JobFigures):
    """All rounds so far, and what follows for the length of the next jobs."""

    events_per_job: PositiveCount


class PredictedRound(Model):
    """What a round was planned with, and how long its mean job was expected to take."""

    sizing: Sizing
    job_sec: PositiveNumber


class SizingOverride(Model):
    """What an operator decided for the rounds to come. None leaves it to what was asked for or measured."""

    memory_mb: int | None = None
    cores: int | None = None
    time_per_event_sec: float | None = None
    size_per_event_kb: float | None = None
    disk_mb: int | None = None
    events_per_job: int | None = None

    @property
    def given(self) -> dict[str, float]:
        """The fields that it decides."""
        return self.model_dump(exclude_none=True)


class KnownSizing(Model):
    """What a round is sized from, over the requestor's own numbers."""

    measured: MeasuredSizing | None = None
    override: SizingOverride = SizingOverride()


class Comparison(Model):
    """One figure of a round, as it was predicted and as it turned out."""

    round: int
    figure: str
    predicted: float
    measured: float

    @computed_field  # type: ignore[prop-decorator]
    @property
    def percent(self) -> float:
        """How far the measurement lies from the prediction."""
        return round(100 * (self.measured - self.predicted) / self.predicted, 1)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def good(self) -> bool:
        return abs(self.percent) <= TOLERANCE_PERCENT
