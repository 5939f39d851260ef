"""`wms2 dag ...`: run a planned round by hand, and look at DAGs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from wms2.cli.by_hand import ByHand, submitted
from wms2.cli.entrance import open_door, waited
from wms2.cli.follow import follow, report_end
from wms2.cli.screen import print_json, print_line, print_table, results, say
from wms2.config import load_settings
from wms2.core.plain import plain_text
from wms2.dagman.dag_files import WORKFLOW_DAG
from wms2.dagman.nodes import read_nodes
from wms2.dagman.posts import attempt_clusters
from wms2.dagman.round_folder import read_round
from wms2.door.door import Door
from wms2.errors import UserError
from wms2.models.dag import DAG, DagDetails, DagHistory
from wms2.models.messages import SubmittedDag
from wms2.models.nodes import NodeRow
from wms2.models.request import RequestRecord

app = typer.Typer(no_args_is_help=True)

LOG_LENGTH = 1_000_000

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a planned round.")]
DagName = Annotated[
    str, typer.Argument(metavar="DAG", help="The folder of a round, or a DAG id such as demo:0:1.")
]
Lines = Annotated[int, typer.Option("-n", "--lines", help="How many lines of the end of the log.")]


@app.command()
def run(folder: Folder, as_json: AsJson = False) -> None:
    """Submit a planned round to the local pool and follow it to its end.

    Run it again after an interruption to go on following, after a failure to rescue what failed.
    The DAG goes on when this command is interrupted.

    Example: wms2 dag run /tmp/round
    """
    by_hand = ByHand(load_settings())
    dag = asyncio.run(by_hand.start_round(folder.absolute()))
    word = "is known" if dag.found else "was submitted"
    say(f"DAG [bold]{dag.order.dag_id}[/] {word} as cluster {dag.cluster}.")
    try:
        progress = asyncio.run(follow(by_hand.activities, dag))
    except KeyboardInterrupt:
        say(f"The DAG goes on; wms2 dag run {escape(str(folder))} follows it again.")
        raise typer.Exit(130) from None
    failures = asyncio.run(by_hand.activities.explain_dag(dag))
    if not report_end(dag, progress, failures, remedy=_rescue(dag), as_json=as_json):
        raise typer.Exit(1)


@app.command()
def stop(
    dag: DagName, reason: Annotated[str, typer.Option(help="Why; kept in the record.")] = "by hand"
) -> None:
    """Remove a running DAG; what is done stays done, and `wms2 dag run DIR` goes on from there.

    The DAG of a request that was submitted is stopped with `wms2 request stop`: its workflow would submit it again.

    Example: wms2 dag stop demo:0:1 --reason "pool maintenance"
    """
    settings = load_settings()
    door = open_door(settings)
    known = _find(door, dag)
    if (owner := _owner(door, known)) and not owner.status.is_final:
        name = known.intent.request_name
        raise UserError(
            f"{known.intent.dag_id} belongs to a request, whose workflow would submit it again; "
            f"`wms2 request stop {name}` stops it, `wms2 request hold {name}` keeps it so"
        )
    found = submitted(known)
    seen = asyncio.run(ByHand(settings).activities.stop_dag(found, reason))
    if seen is None:
        say("Removed; its folder is gone, so nothing can be said of what it did.")
    else:
        say(f"Stopped: {seen.progress.units_done} of {seen.progress.units_total} work units are done.")


@app.command("list")
def list_dags(
    request: Annotated[str | None, typer.Option(help="Only those of this request.")] = None,
    as_json: AsJson = False,
) -> None:
    """List DAGs, newest first.

    Example: wms2 dag list --request demo
    """
    dags = waited(open_door(load_settings()).list_dags(request))
    if as_json:
        print_json([dag.model_dump(mode="json") for dag in dags])
        return
    print_table(
        ["DAG", "STATUS", "CLUSTER", "NODES", "DONE", "FAILED", "SUBMITTED"],
        [
            (
                dag.intent.dag_id,
                dag.status,
                dag.dagman_cluster_id or "-",
                dag.intent.total_nodes,
                dag.nodes.done,
                dag.nodes.failed,
                f"{dag.submitted_at:%Y-%m-%d %H:%M}" if dag.submitted_at else "-",
            )
            for dag in dags
        ],
    )


@app.command()
def show(
    dag: DagName,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="What is recorded, without a look at the pool and its files.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one DAG: how far it is, and why work units failed.

    Through the REST service it tells what is recorded, as with --recorded: how its nodes stand, what happened to it.

    Example: wms2 dag show demo:0:1
    """
    settings = load_settings()
    door = open_door(settings)
    known = _find(door, dag)
    if recorded or settings.api_url is not None:
        _print_record(waited(door.dag_details(known.intent.dag_id)), as_json)
        return
    if known.status.is_final and _was_followed_by_another(door, known):
        say(f"{known.intent.dag_id} ended as [bold]{known.status}[/]; a later attempt followed it.")
        _print_record(waited(door.dag_details(known.intent.dag_id)), as_json)
        return
    found = submitted(known)
    activities = ByHand(settings).activities
    seen = asyncio.run(activities.observe_dag(found))
    failures = asyncio.run(activities.explain_dag(found))
    name = known.intent.request_name
    asked = f"`wms2 request errors {name}` tells what failed and what can be done"
    remedy = asked if _owner(door, known) else _rescue(found)
    report_end(found, seen.progress, failures, remedy=remedy, as_json=as_json)


@app.command()
def nodes(
    dag: DagName,
    failed: Annotated[bool, typer.Option("--failed", help="Only nodes whose last attempt failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the nodes of a DAG: status, attempts, site and exit code of each.

    Example: wms2 dag nodes /tmp/round --failed
    """
    rows = _nodes_in(Path(dag), failed) if Path(dag).is_dir() else _nodes_of(dag, failed)
    if as_json:
        print_json([row.model_dump(mode="json") for row in rows])
        return
    print_table(
        ["UNIT", "NODE", "STATUS", "ATTEMPTS", "SITE", "EXIT", "CATEGORY"],
        [
            (
                row.unit,
                row.node,
                row.status,
                row.attempts,
                row.site or "-",
                _or_dash(row.exit_code),
                row.category or "-",
            )
            for row in rows
        ],
    )


@app.command()
def logs(
    dag: DagName,
    unit: Annotated[
        str | None, typer.Argument(metavar="[UNIT]", help="A work unit such as mg_000000.")
    ] = None,
    node: Annotated[str | None, typer.Argument(metavar="[NODE]", help="A node such as proc_000003.")] = None,
    lines: Lines = 40,
) -> None:
    """Show the end of a log: of the DAG, of a work unit's DAGMan, or of a node's last attempt.

    Example: wms2 dag logs demo:0:1 mg_000000 proc_000003
    """
    folder = _folder(dag)
    planned = read_round(folder)
    names = [work_unit.name for work_unit in planned.work_units]
    if unit is None:
        _print_tail(folder / f"{WORKFLOW_DAG}.dagman.out", lines)
        return
    if unit not in names:
        raise UserError(f"{unit} is no work unit of {dag}; it has {names[0]} to {names[-1]}")
    if node is None:
        _print_tail(folder / unit / "group.dag.dagman.out", lines)
        return
    clusters = attempt_clusters(folder / unit, node)
    if not clusters:
        raise UserError(f"{node} of {unit} has no finished attempt; `wms2 dag nodes {dag}` lists the nodes")
    for ending in ("out", "err"):
        _print_tail(folder / unit / f"{node}.{clusters[-1]}.{ending}", lines)


def _nodes_in(folder: Path, failed: bool) -> list[NodeRow]:
    return [row for row in read_nodes(folder, read_round(folder)) if not failed or row.exit_code]


def _nodes_of(dag: str, failed: bool) -> list[NodeRow]:
    _check_id(dag)
    return waited(open_door(load_settings()).nodes(dag, failed=failed))


def _check_id(dag: str) -> None:
    if "/" in dag:
        raise UserError(f"there is no folder {dag}; `wms2 dag list` shows the ids of all DAGs")


def _find(door: Door, dag: str) -> DAG:
    """The DAG of an id, or the latest one of a folder."""
    if not Path(dag).is_dir():
        _check_id(dag)
        return waited(door.dag_details(dag)).dag
    planned = read_round(Path(dag))
    attempts = _attempts(door, planned.request, planned.round)
    if not attempts:
        raise UserError(f"{dag} was never submitted; `wms2 dag run {dag}` submits it")
    return attempts[0]


def _owner(door: Door, dag: DAG) -> RequestRecord | None:
    """The request whose workflow has the DAG; None of a round that is run by hand."""
    record = waited(door.record(dag.intent.request_name))
    return record if record.status_sequence else None


def _rescue(dag: SubmittedDag) -> str:
    return f"To rescue what is not done: wms2 dag run {dag.order.folder}"


def _attempts(door: Door, request: str, number: int) -> list[DAG]:
    """The submissions of a round, newest first."""
    return [dag for dag in waited(door.list_dags(request)) if dag.intent.round == number]


def _was_followed_by_another(door: Door, dag: DAG) -> bool:
    """Then the files on disk tell of the later attempt, and only the record of this one."""
    newest, *_ = _attempts(door, dag.intent.request_name, dag.intent.round)
    return newest.intent.attempt > dag.intent.attempt


def _folder(dag: str) -> Path:
    if Path(dag).is_dir():
        return Path(dag)
    folder = Path(_find(open_door(load_settings()), dag).intent.submit_dir)
    if not folder.is_dir():
        raise UserError(f"{folder} is not on this machine; read its logs on the submit host of {dag}")
    return folder


def _print_record(details: DagDetails, as_json: bool) -> None:
    if as_json:
        print_json(details.model_dump(mode="json"))
        return
    dag = details.dag
    counts = ", ".join(f"{number} {name}" for name, number in dag.nodes)
    print_line(
        f"{dag.intent.dag_id} is recorded as [bold]{dag.status}[/]: of {dag.intent.total_nodes} nodes {counts}."
    )
    rows = [
        (f"{event.created_at:%Y-%m-%d %H:%M:%S}", event.event_type, event.to_status or "-", _words(event))
        for event in details.history
    ]
    print_table(["AT", "WHAT", "STATUS", "DETAIL"], rows)


def _words(event: DagHistory) -> str:
    return escape(", ".join(f"{name} {value}" for name, value in event.detail.items()))


def _print_tail(path: Path, lines: int) -> None:
    try:
        text = path.read_text(errors="replace").splitlines()[-lines:]
    except OSError:
        raise UserError(f"there is no {path} yet") from None
    say(f"[dim]{escape(str(path))}[/]")
    results.print(plain_text("\n".join(text), LOG_LENGTH), markup=False)


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
