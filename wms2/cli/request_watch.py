"""`wms2 request watch`: a request's progress, live, from the database and from its workflow."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from wms2.cli.observer import Observer, Sight
from wms2.cli.pace import Sample, rest_seconds
from wms2.cli.screen import duration_text, messages, say
from wms2.config import load_settings
from wms2.models.overview import RequestOverview
from wms2.models.progress import RoundProgress
from wms2.models.request import RequestRecord, RequestStatus

app = typer.Typer()

LOOK_EVERY_SEC = 1.0

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

Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]


@app.command()
def watch(name: Name) -> None:
    """Follow a request until it ends: rounds, work units, events and jobs, and what it waits for.

    Ctrl-C ends the watching only. The exit code is 1 if the request failed or was aborted.

    Example: [bold]wms2 request watch demo_simulation[/]
    """
    (overview,) = asyncio.run(watch_requests(load_settings().home, [name], lambda status: status.is_final))
    record = overview.record
    say(f"{name} is [bold]{record.status}[/]{escape(_because(record))}")
    if record.status is not RequestStatus.COMPLETED:
        raise typer.Exit(1)


async def watch_requests(
    home: Path, names: Sequence[str], is_over: Callable[[RequestStatus], bool]
) -> list[RequestOverview]:
    """Show requests until all of them are over. Servers that are away for a while are waited for."""
    observers = [Observer(home, name) for name in names]
    sights = await asyncio.gather(*(observer.look() for observer in observers))
    display = Picture() if messages.is_terminal and sys.stdout.isatty() else Lines()
    with display:
        while True:
            display.show(sights)
            if all(is_over(sight.overview.record.status) for sight in sights):
                return [sight.overview for sight in sights]
            await asyncio.sleep(LOOK_EVERY_SEC)
            sights = await asyncio.gather(*(observer.look() for observer in observers))


class Picture(Live):
    """Bars for people who sit in front of it."""

    def __init__(self) -> None:
        # Lines that a terminal breaks by itself would be drawn again and again.
        super().__init__(console=Console(stderr=True, highlight=False), auto_refresh=False)

    def show(self, sights: Sequence[Sight]) -> None:
        frames = [
            frame(sight.overview, sight.progress, "\n".join(sight.troubles), sight.at, sight.past)
            for sight in sights
        ]
        apart = [part for shown in frames for part in (shown, Text())]
        self.update(Group(*apart[:-1]), refresh=True)


class Lines(nullcontext[None]):
    """A line for each change, for logs and pipes."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, str] = {}

    def show(self, sights: Sequence[Sight]) -> None:
        for sight in sights:
            name, text = sight.overview.record.request.request_name, line(sight)
            if self._told.get(name) != text:
                self._told[name] = text
                say(f"{sight.at:%H:%M:%S} {escape(text)}")


def _because(record: RequestRecord) -> str:
    return f": {record.status_reason}" if record.status_reason else ""


def line(sight: Sight) -> str:
    """Where a request stands, in a line that changes only when something happened."""
    overview = sight.overview
    record = overview.record
    units, events = (f"{done} of {total}" for done, total in (overview.units, overview.events))
    words = [f"{record.request.request_name} is {record.status}{_because(record)}"]
    words.append(f"{units} work units, {events} events")
    if not record.status.is_final:
        words.append(waits_for(overview))
    return "; ".join([*words, *sight.troubles])


@dataclass(frozen=True)
class Bar:
    name: str
    done: int
    total: int
    note: str = ""


def frame(
    overview: RequestOverview,
    progress: RoundProgress | None,
    trouble: str,
    now: datetime,
    past: Sequence[Sample] = (),
) -> Group:
    """One picture: the status and what is waited for, a bar for each count, and when it may end."""
    record = overview.record
    head = Text.assemble((record.request.request_name, "bold"), " is ", (str(record.status), "bold"))
    head.append(_because(record))
    lines: list[Text | Table] = [head]
    if not record.status.is_final:
        lines.append(Text(waits_for(overview)))
        lines += [Text(trouble, style="yellow")] if trouble else []
    lines.append(_bars(bars(overview, progress)))
    if not record.status.is_final:
        lines.append(Text(_end(seconds_left(overview, now, past), now), style="dim"))
    return Group(*lines)


def _end(left: float | None, now: datetime) -> str:
    if left is None:
        return "its end is unknown yet"
    return f"may end in {duration_text(left)}, at {now + timedelta(seconds=left):%Y-%m-%d %H:%M} UTC"


def waits_for(overview: RequestOverview) -> str:
    """What has to happen next."""
    record = overview.record
    if record.status is RequestStatus.ACTIVE:
        if overview.open_round is None:
            left = sum(output.announced_at is None for output in overview.outputs)
            if not left:
                return "waits for its end to be recorded"
            return f"waits for {left} of {len(overview.outputs)} output datasets to be announced"
        return f"waits for the jobs of round {overview.open_round.number}"
    if overview.is_by_hand:
        return "is run by hand: `wms2 dag list` and `wms2 dag show` tell how its rounds stand"
    if record.status is RequestStatus.QUEUED and overview.input and not overview.input.is_there:
        return f"waits for its input: {overview.input}"
    return WAITS_FOR.get(record.status, "").format(name=record.request.request_name)


def bars(overview: RequestOverview, progress: RoundProgress | None) -> Iterator[Bar]:
    closed = sum(round.closed_at is not None for round in overview.rounds)
    yield Bar("rounds", closed, len(overview.rounds))
    yield Bar("work units", *overview.units, _unit_note(progress))
    if overview.ledger.files:
        yield Bar("files", *overview.files)
    yield Bar("events", *overview.events)
    if overview.open_round:
        yield from _job_bar(overview, progress)


def _unit_note(progress: RoundProgress | None) -> str:
    if progress is None:
        return ""
    note = f"{progress.units_running} running, {progress.units_failed} failed"
    if progress.dagmans_held:
        note += f", {progress.dagmans_held} DAGMans held: {progress.hold_reason}"
    return note


def _job_bar(overview: RequestOverview, progress: RoundProgress | None) -> Iterator[Bar]:
    """The follower's record is newer than what the workflow heard of it."""
    dags = [dag for dag in overview.dags if dag.intent.round == overview.rounds[-1].number]
    if dags:
        nodes = dags[-1].nodes
        done, total, counts = nodes.done, dags[-1].intent.total_nodes, (nodes.running, nodes.idle, nodes.held)
    elif progress:
        done, total = progress.nodes_done, progress.nodes_total
        counts = (progress.jobs_running, progress.jobs_idle, progress.jobs_held)
    else:
        return
    yield Bar("jobs", done, total, "{} running, {} idle, {} held".format(*counts))


def seconds_left(overview: RequestOverview, now: datetime, past: Sequence[Sample]) -> float | None:
    """As long as the rest takes at the pace of the past; None while nobody can know."""
    if overview.record.status is not RequestStatus.ACTIVE:
        return None
    return rest_seconds(past, now, *overview.events)


def _bars(shown: Iterator[Bar]) -> Table:
    table = Table.grid(padding=(0, 1))
    for bar in shown:
        line = ProgressBar(total=max(bar.total, 1), completed=bar.done, width=30)
        table.add_row(f"{bar.name:>10}", line, f"{bar.done}/{bar.total}", Text(bar.note, style="dim"))
    return table
