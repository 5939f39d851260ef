"""What a door offers. There are two: straight to the servers, and through the REST service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wms2.models.dag import DAG
from wms2.models.failure import ErrorReport
from wms2.models.messages import OperatorAction
from wms2.models.nodes import NodeRow
from wms2.models.output import OutputStanding, OutputStatus
from wms2.models.output_list import ListedOutput
from wms2.models.overview import RequestOverview
from wms2.models.request import Request, RequestRecord, RequestStatus, RequestSummary
from wms2.models.site import Site, SiteBan
from wms2.models.story import StoryEvent


class Door(Protocol):
    """All of it raises a UserError with one sentence: what is wrong, and what to do."""

    async def submit(self, request: Request, *, hold: bool = False) -> None:
        """Record a request and start it; with `hold` it waits for a release."""
        ...

    async def list_requests(
        self, statuses: Sequence[RequestStatus] = (), campaign: str | None = None
    ) -> list[RequestSummary]:
        """Highest priority first, then oldest."""
        ...

    async def list_dags(self, request: str | None = None) -> list[DAG]:
        """Newest first."""
        ...

    async def nodes(self, dag: str, *, failed: bool = False) -> list[NodeRow]:
        """Of a DAG by its id, as DAGMan's own files tell of them now; or only those whose newest attempt failed."""
        ...

    async def list_outputs(
        self,
        request: str | None = None,
        statuses: Sequence[OutputStatus] = (),
        standings: Sequence[OutputStanding] = (),
    ) -> list[ListedOutput]:
        """Newest first."""
        ...

    async def list_sites(self) -> list[Site]:
        """By name."""
        ...

    async def list_bans(self, *, ended: bool = False) -> list[SiteBan]:
        """Newest first; those in force, unless the ended ones are wanted too."""
        ...

    async def record(self, name: str) -> RequestRecord: ...

    async def overview(self, name: str) -> RequestOverview: ...

    async def discrepancies(self, name: str) -> Sequence[str] | None:
        """What does not add up in its ledger; None while a round is open, which has loose ends as it should."""
        ...

    async def story(self, name: str) -> list[StoryEvent]: ...

    async def errors(self, name: str, round_number: int | None = None) -> ErrorReport: ...

    async def check(self, record: RequestRecord, order: OperatorAction) -> None:
        """Find what is wrong with an order before anybody is asked whether they mean it."""
        ...

    async def ask(self, record: RequestRecord, order: OperatorAction, *, wait: bool = True) -> str:
        """The request's own answer. Without `wait` a signal is left, and nobody tells if it does not fit."""
        ...
