"""Reading the `.metrics` file that a DAGMan leaves when it ends."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class DagEnd(IntEnum):
    """DAGMan's own DagStatus numbers, as far as they end a DAG."""

    OK = 0
    ERROR = 1
    NODE_FAILED = 2
    ABORTED = 3
    REMOVED = 4
    CYCLE = 5
    HALTED = 6


class Metrics(BaseModel):
    """How a DAGMan ended. Its jobs_* counts mislead, so they are not here."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    dagman_id: int
    exitcode: int
    dag_status: int = Field(alias="DagStatus")
    start_time: float
    end_time: float
    rescue_dag_number: int = 0


def read_metrics(path: Path, cluster: int | None = None) -> Metrics | None:
    """The metrics of the DAGMan with that cluster id; None when missing, torn or left by another run."""
    try:
        metrics = Metrics.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return metrics if cluster is None or metrics.dagman_id == cluster else None
