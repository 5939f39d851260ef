"""What is counted in the database for those who watch over it: a few statements, each over few rows or an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, select
from sqlalchemy.orm import Session, aliased

from wms2.core.measurement import comparisons
from wms2.db.ledger import round_from
from wms2.db.requests import status_since
from wms2.db.tables import (
    DagRow,
    DigestRow,
    OutputBlockRow,
    OutputDatasetRow,
    RequestRow,
    RoundRow,
    SiteBanRow,
    SiteRow,
)
from wms2.models.dag import DagStatus, NodeCounts
from wms2.models.request import RequestStatus
from wms2.models.sizing import Comparison
from wms2.models.workflow import RoundKind

RECENT = timedelta(days=7)
"""How far back rates and accuracies look."""
MOST_DAGS = 500
"""How many running DAGs are named; all of them are counted."""
MOST_ROUNDS = 1000

_FINAL = [status for status in RequestStatus if status.is_final]
_OPEN_DAGS = [status for status in DagStatus if not status.is_final]
_RUN_TO_THE_END = [DagStatus.COMPLETED, DagStatus.PARTIAL, DagStatus.FAILED]


@dataclass(frozen=True)
class RunningDag:
    request: str
    round: int
    progress: float
    """Of its nodes, the part that is done."""


@dataclass(frozen=True)
class Figures:
    """One look at the database."""

    requests: Mapping[str, int]
    waiting_since: Mapping[str, datetime]
    """By status: when the request that is longest in it came there. Final statuses are left out."""
    held: Mapping[str, int]
    """By the kind of reason."""
    dags: Mapping[str, int]
    running: Sequence[RunningDag]
    nodes: NodeCounts
    """Of all DAGs that run."""
    node_success: float | None
    """Of the nodes of DAGs that lately ran to their end, the part that was done; None where none did."""
    predictions: Sequence[tuple[str, Comparison]]
    """Of the rounds that lately ended, with who predicted them: requestor, pilot or rounds."""
    outputs: Mapping[str, int]
    blocks: Mapping[str, int]
    sites: Mapping[str, int]
    """By the operators' word."""
    banned_for_all: int
    banned_for_some: int
    digests: Mapping[str, int]


def read_figures(session: Session, now: datetime) -> Figures:
    """All of it, as of one moment if the transaction is a repeatable one."""
    statuses = _statuses(session)
    since = now - RECENT
    return Figures(
        requests={status: count for status, count, _ in statuses},
        waiting_since={status: at for status, _, at in statuses if at is not None},
        held=_pairs(session, _held_kinds()),
        dags=_by_status(session, DagRow.status),
        running=_running(session),
        nodes=_nodes(session),
        node_success=_node_success(session, since),
        predictions=_predictions(session, since),
        outputs=_by_status(session, OutputDatasetRow.status),
        blocks=_by_status(session, OutputBlockRow.status),
        sites=_by_status(session, SiteRow.status),
        banned_for_all=_banned(session, SiteBanRow.workflow_id.is_(None), now),
        banned_for_some=_banned(session, SiteBanRow.workflow_id.is_not(None), now),
        digests=_by_status(session, DigestRow.state),
    )


def _pairs(session: Session, query: Select[Any]) -> dict[str, int]:
    return {row[0]: row[1] for row in session.execute(query)}


def _by_status(session: Session, column: Any) -> dict[str, int]:
    return _pairs(session, select(column, func.count()).group_by(column))


def _statuses(session: Session) -> list[tuple[str, int, datetime | None]]:
    """The time of the last change is only looked up where it matters: the others may be many."""
    oldest = func.min(status_since())
    query = select(RequestRow.status, func.count(), oldest.filter(RequestRow.status.not_in(_FINAL))).group_by(
        RequestRow.status
    )
    return [(status, count, at) for status, count, at in session.execute(query)]


def _held_kinds() -> Select[Any]:
    """`failures` of a DAG, the word of an `operator`, or a `problem` that WMS2 had by itself."""
    last = RequestRow.status_transitions[-1]
    kind = case(
        (last["actor"].astext != "wms2", "operator"),
        # One that is held already is held once more when its failures were judged anew.
        (last["from_status"].astext.in_([RequestStatus.PARTIAL, RequestStatus.HELD]), "failures"),
        else_="problem",
    ).label("kind")
    return select(kind, func.count()).where(RequestRow.status == RequestStatus.HELD).group_by(kind)


def _running(session: Session) -> list[RunningDag]:
    query = (
        select(RequestRow.request_name, DagRow.round, DagRow.nodes_done, DagRow.total_nodes)
        .join(RequestRow, RequestRow.request_no == DagRow.request_no)
        .where(DagRow.status.in_(_OPEN_DAGS))
        .order_by(DagRow.intent_at, DagRow.dag_id)
        .limit(MOST_DAGS)
    )
    return [
        RunningDag(request, number, done / total if total else 0.0)
        for request, number, done, total in session.execute(query)
    ]


def _nodes(session: Session) -> NodeCounts:
    names = list(NodeCounts.model_fields)
    sums = [func.coalesce(func.sum(getattr(DagRow, f"nodes_{name}")), 0) for name in names]
    row = session.execute(select(*sums).where(DagRow.status.in_(_OPEN_DAGS))).one()
    # PostgreSQL sums big integers as decimals.
    return NodeCounts.model_validate({name: int(value) for name, value in zip(names, row, strict=True)})


def _node_success(session: Session, since: datetime) -> float | None:
    """A rescue tells again of what was done before it: the last DAG of each round speaks for the round."""
    later = aliased(DagRow)
    is_rescued = exists().where(
        later.request_no == DagRow.request_no,
        later.round == DagRow.round,
        later.attempt > DagRow.attempt,
    )
    query = select(func.sum(DagRow.nodes_done), func.sum(DagRow.total_nodes)).where(
        DagRow.completed_at > since, DagRow.status.in_(_RUN_TO_THE_END), ~is_rescued
    )
    done, total = session.execute(query).one()
    return float(done) / float(total) if total else None


def _predictions(session: Session, since: datetime) -> list[tuple[str, Comparison]]:
    first = aliased(RoundRow)
    after_a_pilot = exists().where(
        first.request_no == RoundRow.request_no, first.number == 0, first.kind == RoundKind.PILOT
    )
    predicted_by = case(
        (RoundRow.number == 0, "requestor"),
        (and_(RoundRow.number == 1, after_a_pilot), "pilot"),
        else_="rounds",
    )
    query = (
        select(RoundRow, RequestRow.request_name, predicted_by)
        .join(RequestRow, RequestRow.request_no == RoundRow.request_no)
        .where(RoundRow.closed_at > since, RoundRow.predicted.is_not(None), RoundRow.measured.is_not(None))
        .order_by(RoundRow.closed_at.desc())
        .limit(MOST_ROUNDS)
    )
    return [
        (source, comparison)
        for row, name, source in session.execute(query)
        for comparison in comparisons(round_from(row, name))
    ]


def _banned(session: Session, whose: ColumnElement[bool], now: datetime) -> int:
    query = select(func.count(SiteBanRow.site_name.distinct())).where(
        whose, SiteBanRow.removed_at.is_(None), SiteBanRow.expires_at > now
    )
    return session.execute(query).scalar_one()
