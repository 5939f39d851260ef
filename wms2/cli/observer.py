"""Looking at a request that lives: its record, its workflow, and which server is silent."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import InterfaceError, OperationalError
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from wms2.cli.pace import Sample, remembered
from wms2.config import Settings, load_settings
from wms2.db.overview import request_overview
from wms2.db.session import connect as connect_database
from wms2.db.session import transaction
from wms2.door.rest import RestDoor
from wms2.errors import Unavailable, UserError
from wms2.models.overview import RequestOverview
from wms2.models.progress import RoundProgress
from wms2.temporal.client import connect
from wms2.temporal.ids import request_id
from wms2.temporal.launch import revival
from wms2.temporal.queues import watch_queue

ANSWER_TIMEOUT = timedelta(seconds=3)
CONNECT_SEC = 3
QUESTIONS = 2
"""So many questions without an answer mean that there is no worker: a busy one may be late once."""

DATABASE_SILENT = "PostgreSQL does not answer; `wms2 up` starts what is dead of the stack; waiting for it"
TEMPORAL_SILENT = "Temporal does not answer; `wms2 up` starts what is dead of the stack; waiting for it"
NO_WORKER = "no worker answers; `wms2 up --worker` or `wms2 worker run` starts one; waiting for it"
WORKFLOW_FAILS = "its workflow fails in the worker, which tries again; `wms2 logs worker` tells why"
NO_WORKFLOW = "it has no workflow yet; a worker starts it within four minutes"
ENDED = "its workflow was ended in Temporal, and it does not go on"
_AS_IT_SHOULD = (None, WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CONTINUED_AS_NEW)


@dataclass(frozen=True)
class Sight:
    """A request as it was seen at one moment; `troubles` say what could not be seen and what to do."""

    at: datetime
    overview: RequestOverview
    progress: RoundProgress | None = None
    troubles: tuple[str, ...] = ()
    past: tuple[Sample, ...] = ()


class Observer:
    """Looks at one request again and again. Servers that go away and come back are no error."""

    def __init__(self, home: Path, name: str) -> None:
        self._home, self._name = home, name
        self._questioner = Questioner(home, name)
        self._overview: RequestOverview | None = None
        self._past: tuple[Sample, ...] = ()

    async def look(self) -> Sight:
        """The first look needs the database: a UserError when there is none, or no such request."""
        troubles, before = [], self._overview
        settings = load_settings(self._home)
        try:
            self._overview = await self._read(settings)
        except (OperationalError, InterfaceError, Unavailable) as error:
            if self._overview is None:
                raise
            troubles.append(f"{error}; waiting for it" if isinstance(error, Unavailable) else DATABASE_SILENT)
        overview, progress = self._overview, None
        # Who comes through the REST service cannot ask the workflow itself.
        if settings.api_url is None and not overview.record.status.is_final:
            progress, trouble = await self._questioner.ask(overview)
            troubles += [trouble] if trouble else []
        now = datetime.now(UTC)
        self._past = remembered(
            self._past,
            now,
            overview.events[0],
            began=overview.open_round.created_at if overview.open_round else None,
            done_before=_done_before_the_round(before, overview, progress),
        )
        return Sight(now, overview, progress, tuple(troubles), self._past)

    async def _read(self, settings: Settings) -> RequestOverview:
        if settings.api_url is not None:
            return await RestDoor(settings).overview(self._name)
        return await asyncio.to_thread(self._read_database, settings)

    def _read_database(self, settings: Settings) -> RequestOverview:
        """With a new connection each time: where the database is, and whether it answers, may change."""
        url = make_url(settings.needed("database_url"))
        limited = url.update_query_dict({"connect_timeout": str(CONNECT_SEC)})
        engine = connect_database(limited.render_as_string(hide_password=False))
        try:
            with transaction(engine) as session:
                return request_overview(session, self._name)
        finally:
            engine.dispose()


def _done_before_the_round(
    before: RequestOverview | None, now: RequestOverview, progress: RoundProgress | None
) -> int | None:
    """As the round itself tells; or all that is done, of a round that has only just begun."""
    done, _ = now.events
    if progress:
        return done - progress.events_done
    return done if before and len(before.rounds) < len(now.rounds) else None


class Questioner:
    """Asks a request's workflow how far its round is, and finds out why there is no answer."""

    def __init__(self, home: Path, name: str) -> None:
        # What it says of a server that is away is said here in one sentence.
        logging.getLogger("temporalio.core").setLevel(logging.ERROR)
        self._home, self._name = home, name
        self._client: Client | None = None
        self._unanswered = 0

    async def ask(self, overview: RequestOverview) -> tuple[RoundProgress | None, str]:
        """How far it is, or what keeps anybody from telling."""
        settings = load_settings(self._home)
        try:
            self._client = client = self._client or await connect(settings)
            seen = await client.get_workflow_handle(request_id(self._name)).query(
                "progress", reject_condition=QueryRejectCondition.NOT_OPEN, rpc_timeout=ANSWER_TIMEOUT
            )
            self._unanswered = 0
            trouble = await _lost_host(client, settings, overview)
        except UserError:
            return None, TEMPORAL_SILENT
        except WorkflowQueryRejectedError as error:
            return None, "" if error.status in _AS_IT_SHOULD else f"{ENDED}; {revival(self._name, client)}"
        except WorkflowQueryFailedError as error:
            return None, f"its workflow cannot tell: {error}"
        except RPCError as error:
            return None, await self._explain(error, overview)
        return None if seen is None else RoundProgress.model_validate(seen), trouble

    async def _explain(self, error: RPCError, overview: RequestOverview) -> str:
        """Without a worker Temporal lets a question wait, as it does when it is itself away."""
        if error.status is RPCStatusCode.NOT_FOUND:
            return "" if overview.is_by_hand else NO_WORKFLOW
        if "Workflow Task in failed state" in error.message:
            return WORKFLOW_FAILS
        client, self._client = self._client, None
        try:
            healthy = client is not None and await client.service_client.check_health(
                retry=False, timeout=ANSWER_TIMEOUT
            )
        except RPCError:
            healthy = False
        if not healthy:
            return TEMPORAL_SILENT
        self._client = client
        self._unanswered += 1
        return NO_WORKER if self._unanswered >= QUESTIONS else ""


async def _lost_host(client: Client, settings: Settings, overview: RequestOverview) -> str:
    """Whether nobody works on the submit host of the open round: another host's worker answers all the same."""
    host = overview.open_round and overview.open_round.submit_host
    if not host:
        return ""
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=settings.temporal_namespace,
            task_queue=TaskQueue(name=watch_queue(host)),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        ),
        timeout=ANSWER_TIMEOUT,
    )
    if described.pollers:
        return ""
    return f"no worker on {host} asked for work in the last minutes; start one there with `wms2 worker run`"
