"""What people look at: a request, and everything that is known of it."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from wms2.models.base import Count, Model
from wms2.models.chain import ChainLinks
from wms2.models.dag import DAG
from wms2.models.failure import ExcludedFile
from wms2.models.input_rule import InputProgress
from wms2.models.invalidation import WrittenManifest
from wms2.models.ledger import Balance, InputFileState, WorkUnitStatus
from wms2.models.output import OutputStatus
from wms2.models.request import RequestRecord, RequestStatus
from wms2.models.sizing import Comparison, SizingOverride
from wms2.models.workflow import PilotMetrics, Round


class OutputSummary(Model):
    """An output dataset in numbers; `registered` counts the files that DBS holds."""

    dataset: str
    status: OutputStatus
    files: Count
    registered: Count
    events: Count
    size_bytes: Count
    announced_at: datetime | None


class SizedByHand(Model):
    """What an operator decided for the rounds to come, and who did, when and why."""

    override: SizingOverride
    actor: str
    at: datetime
    reason: str


class RequestProgress(Model):
    """How far a request is."""

    record: RequestRecord
    pilot: PilotMetrics | None = None
    rounds: tuple[Round, ...]
    dags: tuple[DAG, ...]
    outputs: tuple[OutputSummary, ...]
    ledger: Balance

    @property
    def open_round(self) -> Round | None:
        rounds = [round for round in self.rounds if round.status.is_open]
        return rounds[-1] if rounds else None

    @property
    def is_by_hand(self) -> bool:
        """Whether a person runs its rounds: a workflow would have told where it stands before it planned one."""
        return (
            bool(self.rounds) and self.record.status is RequestStatus.NEW and not self.record.status_sequence
        )

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
            return self.ledger.events_produced, requested - self.ledger.events_dropped
        return self.ledger.events_processed, self.ledger.events_planned - self.ledger.events_abandoned


class RequestOverview(RequestProgress):
    """How far it is, and all else that is known of it."""

    sized_by_hand: SizedByHand | None = None
    accuracy: tuple[Comparison, ...] = ()
    """Of each round that was measured: what was predicted of it, and what was found."""
    left_out: tuple[ExcludedFile, ...] = ()
    """The first input files that are excluded or dropped; the ledger counts all."""
    invalidation: WrittenManifest | None = None
    """The list of what a failed request registered."""
    input: InputProgress | None = None
    """How much of its input is where it asked for it; None where it did not ask, or was not looked at."""
    avoided_sites: dict[str, str] = Field(default_factory=dict)
    """The sites that must not run it now, each with the reason."""
    links: ChainLinks = ChainLinks()
    imported_from: str | None = None
    """The request of ReqMgr2 that it, or an earlier version of it, came from."""
