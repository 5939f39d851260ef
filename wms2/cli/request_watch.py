"""`wms2 request watch`: a request's progress, live, from the database and from its workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from wms2.cli.by_hand import connect_database
from wms2.cli.request_actions import NO_WORKER
from wms2.cli.screen import duration_text, messages, say
from wms2.config import Settings, load_settings
from wms2.db.overview import request_overview
from wms2.db.session import transaction
from wms2.errors import UserError
from wms2.models.overview import RequestOverview
from wms2.models.progress import RoundProgress
from wms2.models.request import RequestStatus
from wms2.temporal.client import connect
from wms2.temporal.ids import request_id

LOOK_EVERY_SEC = 1.0
ANSWER_TIMEOUT = timedelta(seconds=3)

WAITS_FOR = {
    RequestStatus.NEW: "waits for a person: `wms2 request release {name}`",
    RequestStatus.SUBMITTED: "waits for a worker to look at it",
    RequestStatus.QUEUED: "waits for a slot; those of higher priority and the older ones go first",
    RequestStatus.PILOT_RUNNING: "waits for its pilot, which measures what the jobs need",
    RequestStatus.PLANNING: "waits for its next round to be planned",
    RequestStatus.PARTIAL: "waits for a decision about what failed",
    RequestStatus.HELD: "waits for a person: `wms2 request release|fail|abort {name}`",
    RequestStatus.STOPPING: "waits for its jobs to leave the queue",
    RequestStatus.RESUBMITTING: "waits to be queued again",
}

_TROUBLES = {
    RPCStatusCode.NOT_FOUND: "it has no workflow; if it was never started, submit its file again",
    RPCStatusCode.UNAVAILABLE: "Temporal does not answer, waiting",
}

Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]


def register(app: typer.Typer) -> None:
    """Add the verb to `wms2 request`."""
    app.command()(watch)


def watch(name: Name) -> None:
    """Follow a request until it ends: rounds, work units, events and jobs, and what it waits for.

    Ctrl-C ends the watching only. The exit code is 1 if the request failed or was aborted.

    Example: [bold]wms2 request watch demo_simulation[/]
    """
    overview = asyncio.run(watch_request(load_settings(), name))
    record = overview.record
    say(f"{name} is [bold]{record.status}[/] {escape(record.status_reason)}".rstrip())
    if record.status is not RequestStatus.COMPLETED:
        raise typer.Exit(1)


async def watch_request(settings: Settings, name: str) -> RequestOverview:
    """Show the request live until it has ended. Servers that are away for a while are waited for."""
    engine = await asyncio.to_thread(connect_database, settings)
    overview = await asyncio.to_thread(_look, engine, name)
    asker = Asker(settings, name)
    told: RequestStatus | None = None
    with Live(console=messages, auto_refresh=False) as live:
        while True:
            progress, trouble = await asker.progress()
            try:
                overview = await asyncio.to_thread(_look, engine, name)
            except OperationalError:
                trouble = "the database does not answer, waiting"
            live.update(frame(overview, progress, trouble, datetime.now(UTC)), refresh=messages.is_terminal)
            if not messages.is_terminal and overview.record.status is not told:
                told = overview.record.status
                say(f"{name} is {told} {escape(overview.record.status_reason)}".rstrip())
            if overview.record.status.is_final:
                return overview
            await asyncio.sleep(LOOK_EVERY_SEC)


def _look(engine: Engine, name: str) -> RequestOverview:
    with transaction(engine) as session:
        return request_overview(session, name)


class Asker:
    """Asks a request's workflow how far its round is; connects anew when Temporal was away."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._client: Client | None = None

    async def progress(self) -> tuple[RoundProgress | None, str]:
        """How far it is, or why nobody can tell just now."""
        try:
            self._client = self._client or await connect(self._settings)
            handle = self._client.get_workflow_handle(request_id(self._name))
            seen = await handle.query("progress", rpc_timeout=ANSWER_TIMEOUT)
        except UserError:
            return None, "Temporal does not answer, waiting"
        except WorkflowQueryFailedError as error:
            return None, f"its workflow cannot tell: {error}"
        except RPCError as error:
            return None, _TROUBLES.get(error.status, NO_WORKER)
        return None if seen is None else RoundProgress.model_validate(seen), ""


@dataclass(frozen=True)
class Bar:
    name: str
    done: int
    total: int
    note: str = ""


def frame(overview: RequestOverview, progress: RoundProgress | None, trouble: str, now: datetime) -> Group:
    """One picture: the status and what is waited for, a bar for each count, and when it may end."""
    record = overview.record
    head = Text.assemble((record.request.request_name, "bold"), " is ", (str(record.status), "bold"))
    if record.status_reason:
        head.append(f": {record.status_reason}")
    lines: list[Text | Table] = [head]
    if not record.status.is_final:
        lines.append(Text(waits_for(overview)))
    if trouble and not record.status.is_final:
        lines.append(Text(trouble, style="yellow"))
    lines.append(_bars(bars(overview, progress)))
    if left := seconds_left(overview, now):
        end = now + timedelta(seconds=left)
        lines.append(Text(f"may end in {duration_text(left)}, at {end:%Y-%m-%d %H:%M} UTC", style="dim"))
    return Group(*lines)


def waits_for(overview: RequestOverview) -> str:
    """What has to happen next."""
    record = overview.record
    if record.status is RequestStatus.ACTIVE:
        if overview.open_round is None:
            left = sum(output.announced_at is None for output in overview.outputs)
            return f"waits for {left} of {len(overview.outputs)} output datasets to be announced"
        return f"waits for the jobs of round {overview.open_round.number}"
    return WAITS_FOR.get(record.status, "").format(name=record.request.request_name)


def bars(overview: RequestOverview, progress: RoundProgress | None) -> Iterator[Bar]:
    closed = sum(round.closed_at is not None for round in overview.rounds)
    failed = f"{progress.units_running} running, {progress.units_failed} failed" if progress else ""
    yield Bar("rounds", closed, len(overview.rounds))
    yield Bar("work units", *overview.units, failed)
    if overview.ledger.files:
        yield Bar("files", *overview.files)
    yield Bar("events", *overview.events)
    if progress and overview.open_round:
        queue = f"{progress.jobs_running} running, {progress.jobs_idle} idle, {progress.jobs_held} held"
        yield Bar("jobs", progress.nodes_done, progress.nodes_total, queue)


def seconds_left(overview: RequestOverview, now: datetime) -> float | None:
    """As long as the rest takes at the pace since the first round was planned; None while nobody can know."""
    done, total = overview.events
    if (
        not overview.rounds
        or done <= 0
        or done >= total
        or overview.record.status is not RequestStatus.ACTIVE
    ):
        return None
    return (now - overview.rounds[0].created_at).total_seconds() * (total - done) / done


def _bars(shown: Iterator[Bar]) -> Table:
    table = Table.grid(padding=(0, 1))
    for bar in shown:
        line = ProgressBar(total=max(bar.total, 1), completed=bar.done, width=30)
        table.add_row(f"{bar.name:>10}", line, f"{bar.done}/{bar.total}", Text(bar.note, style="dim"))
    return table
