"""What people look at: a request, and everything that is known of it."""

from __future__ import annotations

from datetime import datetime

from wms2.models.base import Count, Model
from wms2.models.dag import DAG
from wms2.models.ledger import Balance, InputFileState, WorkUnitStatus
from wms2.models.output import OutputStatus
from wms2.models.request import RequestRecord
from wms2.models.workflow import Round, RoundStatus


class OutputSummary(Model):
    """An output dataset in numbers; `registered` counts the files that DBS holds."""

    dataset: str
    status: OutputStatus
    files: Count
    registered: Count
    events: Count
    size_bytes: Count
    announced_at: datetime | None


class RequestOverview(Model):
    record: RequestRecord
    rounds: tuple[Round, ...]
    dags: tuple[DAG, ...]
    outputs: tuple[OutputSummary, ...]
    ledger: Balance

    @property
    def open_round(self) -> Round | None:
        rounds = [round for round in self.rounds if round.status in (RoundStatus.PLANNED, RoundStatus.ACTIVE)]
        return rounds[-1] if rounds else None

    @property
    def units(self) -> tuple[int, int]:
        """Work units produced, and all that were planned and not given up."""
        units = self.ledger.units
        produced = units.get(WorkUnitStatus.PRODUCED, 0)
        return produced, produced + units.get(WorkUnitStatus.PLANNED, 0)

    @property
    def files(self) -> tuple[int, int]:
        """Input files processed, and all that are to be."""
        files = self.ledger.files
        left_out = files.get(InputFileState.EXCLUDED, 0) + files.get(InputFileState.DROPPED, 0)
        return files.get(InputFileState.PROCESSED, 0), sum(files.values()) - left_out

    @property
    def events(self) -> tuple[int, int]:
        """Events written of those requested, or read of those planned."""
        if (requested := self.record.request.total_events) is not None:
            return self.ledger.events_produced, requested
        return self.ledger.events_processed, self.ledger.events_planned - self.ledger.events_abandoned
