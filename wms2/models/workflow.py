"""The running side of a request: what was measured, how far its rounds got, and how its nodes stand."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from wms2.models.base import Count, Digest, EventNumber, Model, PositiveCount, PositiveNumber
from wms2.models.request import RequestStatus
from wms2.models.sizing import MeasuredRound, PredictedRound
from wms2.models.splitting import SplittingAlgo
from wms2.patterns import Dataset, RequestName, Word


class StepProfile(Model):
    """What the pilot measured of one step."""

    step_name: Word
    time_per_event_sec: PositiveNumber
    memory_peak_mb: PositiveCount
    output_size_per_event_kb: float = Field(ge=0)
    cpu_efficiency: float = Field(ge=0)
    threads_used: PositiveCount


class PilotMetrics(Model):
    """What the pilot measured, and what follows for the rounds after it."""

    time_per_event_sec: PositiveNumber
    memory_peak_mb: PositiveCount
    output_size_per_event_kb: float = Field(ge=0)
    cpu_efficiency: float = Field(ge=0)
    events_processed: Count
    steps_profiled: tuple[StepProfile, ...]
    recommended_events_per_job: PositiveCount
    recommended_memory_mb: PositiveCount
    recommended_time_per_job_sec: PositiveCount


class CategoryThrottles(Model):
    """How many nodes of a kind may run at once."""

    processing: PositiveCount = 5000
    merge: PositiveCount = 100
    cleanup: PositiveCount = 50
    merge_group: PositiveCount = 10


class Workflow(Model):
    """One per request. Its status is its request's: both are recorded together."""

    id: UUID
    request_name: RequestName
    input_dataset: Dataset | None
    splitting_algo: SplittingAlgo
    splitting_params: dict[str, Any]
    sandbox_url: str | None
    config_data: dict[str, Any]
    pilot_metrics: PilotMetrics | None
    next_first_event: EventNumber
    category_throttles: CategoryThrottles
    total_nodes: Count
    nodes_done: Count
    nodes_failed: Count
    nodes_queued: Count
    nodes_running: Count
    status: RequestStatus
    created_at: datetime
    updated_at: datetime


class RoundKind(StrEnum):
    PILOT = "pilot"
    PRODUCTION = "production"


class RoundStatus(StrEnum):
    """Open while planned or active; completed when every work unit was produced, else closed."""

    PLANNED = "planned"
    ACTIVE = "active"
    COMPLETED = "completed"
    CLOSED = "closed"

    @property
    def is_open(self) -> bool:
        return self in (RoundStatus.PLANNED, RoundStatus.ACTIVE)


class Round(Model):
    """One DAG run to its end, with its rescues."""

    request_name: RequestName
    number: Count
    kind: RoundKind
    status: RoundStatus
    snapshot_digest: Digest
    work_units: PositiveCount
    nodes: PositiveCount
    planned_events: Count
    first_event: EventNumber | None
    last_event: EventNumber | None
    submit_host: str | None
    created_at: datetime
    closed_at: datetime | None
    predicted: PredictedRound | None = None
    """What it was planned with."""
    measured: MeasuredRound | None = None
    """What was found when it was closed."""
    problems: tuple[str, ...] = ()
    """What could not be planned, in words."""
