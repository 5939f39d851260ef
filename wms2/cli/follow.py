"""Following a DAG on the screen, and telling how it ended."""

from __future__ import annotations

import asyncio

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from sqlalchemy.exc import OperationalError

from wms2.activities.dags import DagActivities
from wms2.adapters.condor import CondorUnavailable
from wms2.cli.screen import messages, print_json, print_line, print_table, say
from wms2.models.messages import SubmittedDag
from wms2.models.progress import DagOutcome, RoundProgress, UnitFailure

LOOK_EVERY_SEC = 1.0


async def follow(activities: DagActivities, submitted: SubmittedDag) -> RoundProgress:
    """Look at the DAG every second until it has ended, with live bars."""
    with _bars() as bars:
        tasks = {name: bars.add_task(name, total=None, note="") for name in ("work units", "nodes", "events")}
        while True:
            try:
                progress = (await activities.observe_dag(submitted)).progress
            except (CondorUnavailable, OperationalError) as error:
                silent = "pool" if isinstance(error, CondorUnavailable) else "database"
                bars.update(tasks["nodes"], note=f"the {silent} does not answer, waiting")
                await asyncio.sleep(LOOK_EVERY_SEC)
                continue
            _show(bars, tasks, progress)
            if progress.outcome is not DagOutcome.RUNNING:
                return progress
            await asyncio.sleep(LOOK_EVERY_SEC)


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}"),
        console=messages,
    )


def _show(bars: Progress, tasks: dict[str, TaskID], progress: RoundProgress) -> None:
    jobs = f"{progress.jobs_running} running, {progress.jobs_idle} idle, {progress.jobs_held} held"
    units = f"{progress.units_running} running, {progress.units_failed} failed"
    if progress.dagmans_held:
        units += f", {progress.dagmans_held} DAGMans held: {progress.hold_reason}"
    rows = {
        "work units": (progress.units_done, progress.units_total, units),
        "nodes": (progress.nodes_done, progress.nodes_total, jobs),
        "events": (progress.events_done, progress.events_total, ""),
    }
    for name, (done, total, note) in rows.items():
        bars.update(tasks[name], completed=done, total=total, note=note)


def report_end(
    submitted: SubmittedDag,
    progress: RoundProgress,
    failures: list[UnitFailure],
    *,
    remedy: str,
    as_json: bool,
) -> bool:
    """Tell how a DAG stands, and if it ended early the remedy; whether all of it is done."""
    if as_json:
        print_json(
            {
                "dag_id": submitted.order.dag_id,
                "cluster": submitted.cluster,
                "folder": str(submitted.order.folder),
                **progress.model_dump(mode="json"),
                "failures": [failure.model_dump(mode="json") for failure in failures],
            }
        )
        return progress.outcome is DagOutcome.COMPLETED
    print_line(
        f"{submitted.order.dag_id} is [bold]{progress.outcome}[/]: {progress.units_done} of "
        f"{progress.units_total} work units, {progress.events_done} of {progress.events_total} events."
    )
    if failures:
        _print_failures(failures)
    if progress.outcome not in (DagOutcome.COMPLETED, DagOutcome.RUNNING):
        say(escape(remedy))
    return progress.outcome is DagOutcome.COMPLETED


def _print_failures(failures: list[UnitFailure]) -> None:
    rows: list[tuple[object, ...]] = []
    for failure in failures:
        rows += [
            (failure.unit, node.node, node.exit_code, node.site or "-", node.category, escape(node.reason))
            for node in failure.nodes
        ] or [(failure.unit, "-", "-", "-", escape(failure.verdict), escape(failure.log_tail[-300:]))]
    print_table(["UNIT", "NODE", "EXIT", "SITE", "CATEGORY", "REASON"], rows)
