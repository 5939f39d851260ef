"""The story of a request, told from its records: each step with who took it, why, and what it was decided from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wms2.core.decisions import DECIDED, DECIDER
from wms2.core.failures import causes_in_words
from wms2.core.notices import ALERTED
from wms2.models.audit import Action, AuditEntry
from wms2.models.dag import DAG
from wms2.models.failure import RecordedFailures
from wms2.models.request import RequestRecord
from wms2.models.story import EventKind, StoryEvent
from wms2.models.workflow import Round

_ORDER = [
    EventKind.ACTION,
    EventKind.PLAN,
    EventKind.DAG,
    EventKind.DECISION,
    EventKind.STATUS,
    EventKind.CLOSED,
]
"""Of what happened in the same moment, the cause comes first."""


def tell(
    record: RequestRecord,
    audited: Iterable[AuditEntry],
    rounds: Sequence[Round],
    dags: Iterable[DAG],
    failures: Iterable[RecordedFailures],
) -> list[StoryEvent]:
    """Everything that is recorded of a request, the oldest first."""
    known = {failed.dag_id: failed for failed in failures}
    events = [
        *_statuses(record),
        *(_audited(entry) for entry in audited),
        *(event for round in rounds for event in _round(round)),
        *(event for dag in dags for event in _dag(dag, known.get(dag.intent.dag_id))),
    ]
    return sorted(events, key=lambda event: (event.at, _ORDER.index(event.kind)))


def _statuses(record: RequestRecord) -> Iterator[StoryEvent]:
    for step in record.status_transitions:
        what = f"{step.from_status} -> {step.to_status}" if step.from_status else str(step.to_status)
        yield StoryEvent(at=step.at, kind=EventKind.STATUS, actor=step.actor, what=what, why=step.reason)


def _audited(entry: AuditEntry) -> StoryEvent:
    action = entry.action
    decided = action.action == DECIDED
    return StoryEvent(
        at=entry.at,
        kind=EventKind.DECISION if decided else EventKind.ACTION,
        actor=action.actor,
        what=_decision(action.detail) if decided else _deed(action),
        why=action.reason,
        detail=action.detail,
    )


def _deed(action: Action) -> str:
    return f"{ALERTED}: {action.detail.get('kind')}" if action.action == ALERTED else action.action


def _decision(detail: dict[str, object]) -> str:
    """What was decided, by which row of the table, and from which numbers."""
    end, policy = detail.get("end"), detail.get("policy")
    if not isinstance(end, dict) or not isinstance(policy, dict):
        return str(detail.get("verdict", "decided"))
    numbers = [
        f"{end.get('units_failed')} of {end.get('units')} work units failed",
        f"threshold {float(policy.get('hold_threshold', 0)):.0%}",
        f"rescues {end.get('failure_rescues')} of {policy.get('max_rescues')}",
        *(word for word in ("pilot", "aborted", "vanished", "removed") if end.get(word)),
    ]
    return f"{detail.get('verdict')}: {detail.get('rule')} ({', '.join(numbers)})"


def _round(round: Round) -> Iterator[StoryEvent]:
    size = f"{round.work_units} work units, {round.nodes} nodes, {round.planned_events} events"
    yield StoryEvent(
        at=round.created_at,
        kind=EventKind.PLAN,
        actor=DECIDER,
        what=f"round {round.number} ({round.kind}): {size}",
        why="; ".join([*_sized(round), *round.problems]),
        detail=round.model_dump(
            mode="json", include={"number", "kind", "snapshot_digest", "submit_host", "predicted", "problems"}
        ),
    )
    if round.closed_at:
        measured = round.measured.model_dump(mode="json") if round.measured else {}
        what = f"round {round.number} is {round.status}"
        yield StoryEvent(
            at=round.closed_at, kind=EventKind.CLOSED, actor=DECIDER, what=what, detail={"measured": measured}
        )


def _sized(round: Round) -> list[str]:
    if round.predicted is None:
        return []
    sizing = round.predicted.sizing
    jobs = f"jobs of {round.predicted.job_sec:.0f} s, {sizing.memory_mb} MB and {sizing.cores} cores"
    return [f"{jobs}, {sizing.time_per_event_sec:.4g} s and {sizing.size_per_event_kb:.4g} kB an event"]


def _dag(dag: DAG, failed: RecordedFailures | None) -> Iterator[StoryEvent]:
    intent = dag.intent
    if dag.submitted_at:
        kind = "rescue" if intent.parent_dag_id else "first submission"
        what = f"{intent.dag_id} submitted as {dag.dagman_cluster_id} ({kind})"
        yield StoryEvent(at=dag.submitted_at, kind=EventKind.DAG, actor=DECIDER, what=what)
    if dag.stop_requested_at:
        what = f"{intent.dag_id} is to be stopped"
        yield StoryEvent(
            at=dag.stop_requested_at, kind=EventKind.DAG, actor=DECIDER, what=what, why=dag.stop_reason or ""
        )
    if dag.completed_at:
        nodes = f"{dag.nodes.done} of {intent.total_nodes} nodes done, {dag.nodes.failed} failed"
        yield StoryEvent(
            at=dag.completed_at,
            kind=EventKind.DAG,
            actor=DECIDER,
            what=f"{intent.dag_id} ended as {dag.status}: {nodes}",
            why=causes_in_words(failed.summary) if failed else "",
            detail=failed.summary.model_dump(mode="json", exclude={"log_tail"}) if failed else {},
        )
