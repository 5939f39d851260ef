"""Requests, straight from the servers: PostgreSQL and Temporal."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from wms2.core.decisions import with_policy
from wms2.core.ledger import discrepancies
from wms2.db.crosscheck import cross_check
from wms2.db.failures import error_report
from wms2.db.imports import list_imports
from wms2.db.overview import request_overview, request_progress
from wms2.db.requests import list_requests, request_record
from wms2.db.story import request_story
from wms2.door.asking import ask_workflow
from wms2.door.imports import preview, take_on
from wms2.door.orders import check_order
from wms2.door.servers import Servers
from wms2.door.submission import record_submission, start_recorded
from wms2.models.audit import Action
from wms2.models.chain import LinkedRequest
from wms2.models.failure import ErrorReport
from wms2.models.imports import ImportRecord, Taken
from wms2.models.messages import OperatorAction
from wms2.models.overview import RequestOverview
from wms2.models.request import Request, RequestRecord, RequestStatus, RequestSummary
from wms2.models.story import StoryEvent


class DirectRequests(Servers):
    """Reads the database, and acts through the requests' workflows alone."""

    async def submit(self, request: Request, *, hold: bool = False, by: Action | None = None) -> None:
        # First the client: without a server nothing is to be recorded either.
        client = await self.temporal()
        request = with_policy(request, self.settings.failure_policy)
        is_news = await self.read(record_submission, request, hold, by)
        await start_recorded(client, request, hold=hold, is_news=is_news)

    async def list_requests(
        self, statuses: Sequence[RequestStatus] = (), campaign: str | None = None
    ) -> list[RequestSummary]:
        return await self.read(list_requests, statuses, campaign)

    async def record(self, name: str) -> RequestRecord:
        return await self.read(request_record, name)

    async def overview(self, name: str) -> RequestOverview:
        return await self.read(request_overview, name)

    async def discrepancies(self, name: str) -> Sequence[str] | None:
        return await self.read(_discrepancies, name)

    async def story(self, name: str) -> list[StoryEvent]:
        return await self.read(request_story, name)

    async def errors(self, name: str, round_number: int | None = None) -> ErrorReport:
        return await self.read(error_report, name, round_number)

    async def check(self, record: RequestRecord, order: OperatorAction) -> None:
        await self.read(check_order, record, order, self.settings.max_versions)

    async def ask(self, record: RequestRecord, order: OperatorAction, *, wait: bool = True) -> str:
        await self.check(record, order)
        return await ask_workflow(
            await self.temporal(), record, order, wait=wait, tells_where=self.tells_where
        )

    async def take_on(self, name: str) -> Taken:
        return await take_on(self.settings, self.engine, await self.temporal(), name)

    async def preview_import(self, name: str) -> list[LinkedRequest]:
        return await preview(self.settings, name)

    async def list_imports(self) -> list[ImportRecord]:
        return await self.read(list_imports)


def _discrepancies(session: Session, name: str) -> Sequence[str] | None:
    if request_progress(session, name).open_round is not None:
        return None
    return discrepancies(cross_check(session, name))
