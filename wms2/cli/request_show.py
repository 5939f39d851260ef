"""A request on the screen: its record, its rounds, its outputs, its ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.markup import escape

from wms2.cli.screen import duration_text, print_table, results, size_text
from wms2.core.rounds import events_left
from wms2.core.sizing import BY_EVENTS
from wms2.models.overview import RequestOverview, SizedByHand
from wms2.models.sizing import TOLERANCE_PERCENT
from wms2.models.workflow import PilotMetrics


def print_overview(overview: RequestOverview) -> None:
    _print_record(overview)
    if overview.record.status_transitions:
        _print_transitions(overview)
    if overview.rounds:
        _print_rounds(overview)
    if overview.pilot:
        _print_pilot(overview.pilot, overview.record.request.splitting_algo in BY_EVENTS)
    if overview.accuracy:
        _print_accuracy(overview)
    if overview.dags:
        _print_dags(overview)
    _print_outputs(overview)
    if overview.left_out:
        _print_left_out(overview)


def print_ledger(overview: RequestOverview, discrepancies: Sequence[str] | None) -> None:
    """Every event and every file in exactly one row, and whether it all adds up; None while nobody can tell."""
    balance, request = overview.ledger, overview.record.request
    rows: list[tuple[object, ...]] = []
    if request.total_events is not None:
        rows += [
            ("events", "requested", request.total_events),
            ("events", "dropped", balance.events_dropped),
            ("events", "remaining", events_left(request, balance)),
        ]
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
            *([("sized by hand", _by_hand(overview.sized_by_hand))] if overview.sized_by_hand else []),
            *_links(overview),
        ],
    )  # fmt: skip


def _links(overview: RequestOverview) -> Iterator[tuple[str, str]]:
    """Where it came from, what it is linked with, where it must not run, and what is left to take back."""
    record = overview.record
    if overview.imported_from:
        yield "in ReqMgr2", escape(overview.imported_from)
    if overview.links.reads_from:
        yield "reads from", overview.links.reads_from
    if overview.links.read_by:
        yield "read by", ", ".join(overview.links.read_by)
    if previous := record.request.previous_version_request:
        yield "replaces", previous
    if record.superseded_by_request:
        yield "replaced by", record.superseded_by_request
    if overview.input:
        yield "input", escape(f"{overview.input}, looked at {moment(overview.input.looked_at)}")
    if overview.avoided_sites:
        yield "avoids", escape("; ".join(f"{site} ({why})" for site, why in overview.avoided_sites.items()))
    if listed := overview.invalidation:
        yield "to invalidate", escape(f"{listed.files} files in {listed.path} on {listed.host}")


def _by_hand(sized: SizedByHand) -> str:
    given = ", ".join(f"{name} {value:g}" for name, value in sized.override.given.items())
    return escape(
        f"{given}; by {sized.actor}, {moment(sized.at)}{': ' if sized.reason else ''}{sized.reason}"
    )


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


def _print_pilot(pilot: PilotMetrics, by_events: bool) -> None:
    _heading(f"The pilot, over {pilot.events_processed} events")
    rows = [
        (step.step_name, f"{step.time_per_event_sec:.3g}", step.memory_peak_mb, f"{step.output_size_per_event_kb:.3g}",
         f"{100 * step.cpu_efficiency:.0f} %", step.threads_used)
        for step in pilot.steps_profiled
    ]  # fmt: skip
    rows.append(
        ("the job", f"{pilot.time_per_event_sec:.3g}", pilot.memory_peak_mb, f"{pilot.output_size_per_event_kb:.3g}",
         f"{100 * pilot.cpu_efficiency:.0f} %", max(step.threads_used for step in pilot.steps_profiled))
    )  # fmt: skip
    print_table(["STEP", "SEC/EVENT", "PEAK MB", "OUTPUT KB/EVENT", "CPU", "THREADS"], rows)
    follows = [f"{pilot.recommended_memory_mb} MB"]
    if by_events:
        length = duration_text(pilot.recommended_time_per_job_sec)
        follows = [f"{pilot.recommended_events_per_job} events", *follows, length]
    results.print(f"Jobs that follow from it: {', '.join(follows)}.")


def _print_accuracy(overview: RequestOverview) -> None:
    _heading("Predicted and measured")
    print_table(
        ["ROUND", "FIGURE", "PREDICTED", "MEASURED", "DIFFERENCE", ""],
        [
            (
                item.round,
                item.figure,
                f"{item.predicted:.4g}",
                f"{item.measured:.4g}",
                f"{item.percent:+.0f} %",
                "" if item.good else f"[yellow]more than {TOLERANCE_PERCENT} %[/]",
            )
            for item in overview.accuracy
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


def _print_left_out(overview: RequestOverview) -> None:
    _heading("Input files that are left out")
    print_table(
        ["FILE", "STATE", "REASON"],
        [(file.lfn, file.state, escape(file.reason)) for file in overview.left_out],
    )


def _heading(text: str) -> None:
    results.print(f"\n[bold]{text}[/]")


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else "-"
