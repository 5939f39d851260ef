"""`wms2 request errors`"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.markup import escape

from wms2.cli.entrance import open_door, waited
from wms2.cli.screen import print_json, print_table, results
from wms2.config import load_settings
from wms2.core.failures import causes_in_words
from wms2.core.plain import plain_line, plain_text
from wms2.db.failures import counts
from wms2.models.failure import ErrorReport, FailedNode, RecordedFailures
from wms2.models.plan import unit_name

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The request's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

NODES_SHOWN = 50
FILES_SHOWN = 50
EXAMPLES = 3
EXAMPLE_LINES = 10


@app.command()
def errors(
    name: Name,
    round_: Annotated[int | None, typer.Option("--round", help="Only of this round.", min=0)] = None,
    tail: Annotated[bool, typer.Option("--tail", help="Show every log tail that was kept, whole.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what failed in a request: by cause, site, exit code and node, the bad input files, and ends of logs.

    Each time a node gave up counts, also where a rescue made it good later.

    Examples: [bold]wms2 request errors demo_simulation[/]   [bold]wms2 request errors NAME --round 1 --tail[/]
    """
    found = waited(open_door(load_settings()).errors(name, round_))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(found, whole_tails=tail)


def _print(found: ErrorReport, *, whole_tails: bool) -> None:
    reason = f": {found.reason}" if found.reason else ""
    results.print(f"{found.request_name} is [bold]{found.status}[/]{escape(plain_line(reason, 1000))}")
    failed = [dag for dag in found.dags if dag.summary.nodes_failed or dag.summary.units_unfinished]
    if failed:
        _print_dags(failed)
        _print_counts(failed)
        _print_nodes(failed)
    else:
        results.print("No failure is recorded.")
    _print_files(found)
    _print_short(found)
    _print_tails(failed, whole=whole_tails)
    results.print(f"\n{escape(found.advice)}")


def _print_dags(dags: Iterable[RecordedFailures]) -> None:
    _heading("DAGs with failures")
    print_table(
        ["DAG", "STATUS", "WORK UNITS", "FAILED", "NOT FINISHED", "NODES FAILED", "CAUSES"],
        [
            (
                dag.dag_id,
                dag.status,
                dag.summary.units,
                dag.summary.units_failed,
                dag.summary.units_unfinished,
                dag.summary.nodes_failed,
                escape(causes_in_words(dag.summary)),
            )
            for dag in dags
        ],
    )


def _print_counts(dags: Iterable[RecordedFailures]) -> None:
    for name, counted in counts(dags).items():
        _heading(f"Failed nodes {name.replace('_', ' ')}")
        print_table(
            [name.removeprefix("by_").replace("_", " ").upper(), "NODES"],
            [(escape(key), count) for key, count in counted.items()],
        )


def _print_nodes(dags: Iterable[RecordedFailures]) -> None:
    nodes = [(dag, node) for dag in dags for node in dag.nodes]
    _heading("Nodes")
    print_table(
        ["DAG", "WORK UNIT", "NODE", "ATTEMPTS", "CATEGORY", "EXIT", "SITE", "RULE", "MESSAGE"],
        [
            (
                dag.dag_id,
                unit_name(node.work_unit),
                node.node or "-",
                node.attempts,
                escape(node.category),
                "-" if node.exit_code is None else node.exit_code,
                node.site or "-",
                escape(_rule(node)),
                escape(plain_line(node.message, 200)),
            )
            for dag, node in nodes[:NODES_SHOWN]
        ],
    )
    counted = sum(dag.summary.nodes_failed for dag in dags)
    if counted > len(nodes[:NODES_SHOWN]):
        results.print(f"... {counted} in all; --json lists those that were kept one by one.")


def _rule(node: FailedNode) -> str:
    return f"{node.rule} ({node.confidence})" if node.rule and node.confidence else node.rule or "-"


def _print_files(found: ErrorReport) -> None:
    if found.files:
        _heading("Input files that attempts could not read")
        rows = sorted(
            {
                (f.lfn, f.site or "-", f.category, "-" if f.exit_code is None else f.exit_code)
                for f in found.files
            },
            key=str,
        )
        print_table(["FILE", "SITE", "CATEGORY", "EXIT"], rows[:FILES_SHOWN])
        _more(rows)
    if found.excluded:
        _heading("Input files that are left out")
        rows_out = [(file.lfn, file.state, escape(plain_line(file.reason))) for file in found.excluded]
        print_table(["FILE", "STATE", "REASON"], rows_out[:FILES_SHOWN])
        _more(rows_out)


def _print_short(found: ErrorReport) -> None:
    if found.short:
        _heading("Input files of which fewer events were read than the catalogue says")
        rows = [(file.lfn, unit_name(file.work_unit), file.events, file.read_events) for file in found.short]
        print_table(["FILE", "WORK UNIT", "CATALOGUE", "READ"], rows[:FILES_SHOWN])
        _more(rows)


def _more(rows: list[Any]) -> None:
    if len(rows) > FILES_SHOWN:
        results.print(f"... {len(rows)} in all; --json lists them.")


def _print_tails(dags: Iterable[RecordedFailures], *, whole: bool) -> None:
    tails = [
        (f"{dag.dag_id} {unit_name(node.work_unit)} {node.node}".strip(), node.log_tail)
        for dag in dags
        for node in dag.nodes
        if node.log_tail
    ]
    tails += [(dag.dag_id, dag.summary.log_tail) for dag in dags if dag.summary.log_tail]
    for title, tail in tails if whole else tails[-EXAMPLES:]:
        _heading(escape(f"The end of the log of {title}"))
        lines = plain_text(tail).splitlines()
        results.print("\n".join(lines if whole else lines[-EXAMPLE_LINES:]), markup=False)


def _heading(text: str) -> None:
    results.print(f"\n[bold]{text}[/]")
