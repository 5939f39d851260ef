"""A request on the screen: its record, its rounds, its outputs, its ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.markup import escape

from wms2.cli.screen import print_table, results, size_text
from wms2.models.overview import RequestOverview


def print_overview(overview: RequestOverview) -> None:
    _print_record(overview)
    if overview.record.status_transitions:
        _print_transitions(overview)
    if overview.rounds:
        _print_rounds(overview)
    if overview.dags:
        _print_dags(overview)
    _print_outputs(overview)


def print_ledger(overview: RequestOverview, discrepancies: Sequence[str] | None) -> None:
    """Every event and every file in exactly one row, and whether it all adds up; None while nobody can tell."""
    balance, request = overview.ledger, overview.record.request
    rows: list[tuple[object, ...]] = []
    if request.total_events is not None:
        remaining = max(request.total_events - balance.events_produced, 0)
        rows += [("events", "requested", request.total_events), ("events", "remaining", remaining)]
    rows += [
        ("events", "planned", balance.events_planned),
        ("events", "processed", balance.events_processed),
        ("events", "produced", balance.events_produced),
        ("events", "abandoned", balance.events_abandoned),
    ]
    rows += [("work units", status, count) for status, count in sorted(balance.units.items())]
    rows += [("input files", state, count) for state, count in sorted(balance.files.items())]
    print_table(["WHAT", "STATE", "NUMBER"], rows)
    if discrepancies is None:
        results.print("A round is open; whether the ledger adds up shows when it is closed.")
    elif discrepancies:
        results.print(f"[bold red]The ledger does not add up:[/] {escape('; '.join(discrepancies))}.")
    else:
        results.print("The ledger adds up.")


def _print_record(overview: RequestOverview) -> None:
    record = overview.record
    request = record.request
    work = f"{request.total_events} events" if request.is_simulation else str(request.input_dataset)
    (units, units_all), (events, events_all) = overview.units, overview.events
    print_table(
        ["", ""],
        [
            ("request", request.request_name),
            ("status", f"[bold]{record.status}[/]{': ' if record.status_reason else ''}{escape(record.status_reason)}"),
            ("work", work),
            ("requestor", request.requestor),
            ("campaign", request.campaign),
            ("priority", f"{record.priority}{', urgent' if request.urgent else ''}"),
            ("submitted", moment(record.created_at)),
            ("work units", f"{units} of {units_all} planned so far"),
            ("events", f"{events} of {events_all}"),
        ],
    )  # fmt: skip


def _print_transitions(overview: RequestOverview) -> None:
    _heading("How it came there")
    print_table(
        ["AT", "FROM", "TO", "BY", "REASON"],
        [
            (
                moment(step.at),
                step.from_status or "-",
                step.to_status,
                escape(step.actor),
                escape(step.reason),
            )
            for step in overview.record.status_transitions
        ],
    )


def _print_rounds(overview: RequestOverview) -> None:
    _heading("Rounds")
    print_table(
        ["ROUND", "KIND", "STATUS", "WORK UNITS", "NODES", "EVENTS", "HOST", "PLANNED", "CLOSED"],
        [
            (
                round.number,
                round.kind,
                round.status,
                round.work_units,
                round.nodes,
                round.planned_events,
                round.submit_host or "-",
                moment(round.created_at),
                moment(round.closed_at),
            )
            for round in overview.rounds
        ],
    )


def _print_dags(overview: RequestOverview) -> None:
    _heading("DAGs")
    print_table(
        ["DAG", "STATUS", "CLUSTER", "NODES", "DONE", "FAILED", "SUBMITTED", "ENDED"],
        [
            (
                dag.intent.dag_id,
                dag.status,
                dag.dagman_cluster_id or "-",
                dag.intent.total_nodes,
                dag.nodes.done,
                dag.nodes.failed,
                moment(dag.submitted_at),
                moment(dag.completed_at),
            )
            for dag in overview.dags
        ],
    )


def _print_outputs(overview: RequestOverview) -> None:
    _heading("Outputs")
    print_table(
        ["DATASET", "STATUS", "FILES", "IN DBS", "EVENTS", "SIZE", "ANNOUNCED"],
        [
            (
                output.dataset,
                output.status,
                output.files,
                output.registered,
                output.events,
                size_text(output.size_bytes),
                moment(output.announced_at),
            )
            for output in overview.outputs
        ],
    )


def _heading(text: str) -> None:
    results.print(f"\n[bold]{text}[/]")


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else "-"
