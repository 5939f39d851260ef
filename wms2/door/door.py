"""What a door offers. There are two: straight to the servers, and through the REST service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from wms2.models.admission import AdmissionSeen
from wms2.models.audit import Action
from wms2.models.chain import LinkedRequest
from wms2.models.dag import DAG, DagDetails
from wms2.models.failure import ErrorReport
from wms2.models.host import GivenUp, KnownHost
from wms2.models.imports import ImportRecord, Taken
from wms2.models.messages import AdmissionOrder, OperatorAction
from wms2.models.nodes import NodeRow
from wms2.models.output import OutputStanding, OutputStatus
from wms2.models.output_list import ListedOutput, OutputDetails
from wms2.models.overview import RequestOverview
from wms2.models.request import Request, RequestRecord, RequestStatus, RequestSummary
from wms2.models.site import Site, SiteBan, SiteStatus
from wms2.models.story import StoryEvent
from wms2.models.undo import UndoOrder


class RequestDoor(Protocol):
    """What was asked for."""

    async def submit(self, request: Request, *, hold: bool = False) -> None:
        """Record a request and start it; with `hold` it waits for a release."""
        ...

    async def list_requests(
        self, statuses: Sequence[RequestStatus] = (), campaign: str | None = None
    ) -> list[RequestSummary]:
        """Highest priority first, then oldest."""
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

    async def take_on(self, name: str) -> Taken:
        """Import a request of ReqMgr2; again, it finds the same requests."""
        ...

    async def preview_import(self, name: str) -> list[LinkedRequest]:
        """What would become of a request of ReqMgr2; nothing is changed."""
        ...

    async def list_imports(self) -> list[ImportRecord]:
        """Newest first."""
        ...


class WorkDoor(Protocol):
    """What requests run and make: DAGs and outputs."""

    async def list_dags(self, request: str | None = None) -> list[DAG]:
        """Newest first."""
        ...

    async def dag_details(self, dag: str) -> DagDetails:
        """As it is recorded, by its id."""
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

    async def outputs_of(self, request: str) -> list[OutputDetails]: ...

    async def outputs_to_undo(self, request: str, dataset: str | None = None) -> list[ListedOutput]:
        """What could be taken back; a Contradiction where that is nothing, or nothing yet."""
        ...

    async def undo(self, order: UndoOrder) -> None:
        """Begin to take outputs back."""
        ...


class ResourceDoor(Protocol):
    """Where requests run: sites, submit hosts and the slots of admission. `by` is who says it, and why."""

    async def list_sites(self) -> list[Site]:
        """By name."""
        ...

    async def find_site(self, site: str) -> Site | None: ...

    async def set_site_status(
        self, site: str, status: SiteStatus, until: datetime | None, by: Action
    ) -> Site: ...

    async def list_bans(self, *, ended: bool = False) -> list[SiteBan]:
        """Newest first; those in force, unless the ended ones are wanted too."""
        ...

    async def ban_site(self, site: str, request: str | None, length: timedelta, by: Action) -> None:
        """For one request, or for all."""
        ...

    async def unban_site(self, site: str, request: str | None, by: Action) -> int:
        """How many bans were lifted: those of one request, or all of them."""
        ...

    async def list_hosts(self) -> list[KnownHost]:
        """By name."""
        ...

    async def vanished_hosts(self) -> list[str]:
        """Those that are not there, and disabled when they return."""
        ...

    async def set_host_disabled(self, host: str, disabled: bool, by: Action) -> KnownHost | None:
        """What is known of it now; None for one that no worker has announced, which the word waits for."""
        ...

    async def give_up_host(self, host: str, by: Action) -> GivenUp: ...

    async def admission(self) -> AdmissionSeen:
        """A Contradiction before the first worker has started it."""
        ...

    async def change_admission(self, order: AdmissionOrder) -> AdmissionSeen:
        """As it is afterwards."""
        ...


class Door(RequestDoor, WorkDoor, ResourceDoor, Protocol):
    """All of it raises a UserError with one sentence: what is wrong, and what to do."""
