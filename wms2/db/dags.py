"""DAGs in the database. The intent comes first, then the submission, so that a DAG is submitted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from sqlalchemy import Integer, Select, String, and_, cast, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from wms2.db.requests import Owner
from wms2.db.session import RecordConflict
from wms2.db.tables import DagHistoryRow, DagRow, RequestRow, RoundRow, WorkflowRow
from wms2.errors import Missing
from wms2.models.dag import DAG, DagHistory, DagIntent, DagStatus, NodeCounts
from wms2.models.workflow import RoundStatus

D = TypeVar("D", DAG, DagRow)

_INTENT_COLUMNS = DagIntent.model_fields.keys() - {"request_name", "parent_dag_id"}
_DAG_COLUMNS = DAG.model_fields.keys() - {"intent", "nodes", "submit_host"}
_HISTORY_COLUMNS = DagHistory.model_fields.keys() - {"dag_id", "nodes"}
# Made once: SQLAlchemy looks at a new alias for longer than the database at the question.
_PARENT = aliased(DagRow)
_Found: TypeAlias = Select[DagRow, str, str | None, str | None]
_DAGS: _Found = (
    select(DagRow, RequestRow.request_name, RoundRow.submit_host, _PARENT.dag_id)
    .join(RequestRow, RequestRow.request_no == DagRow.request_no)
    .join(RoundRow, and_(RoundRow.request_no == DagRow.request_no, RoundRow.number == DagRow.round))
    .outerjoin(_PARENT, _PARENT.id == DagRow.parent_dag_id)
    .execution_options(populate_existing=True)
)


def record_dag_intent(session: Session, intent: DagIntent) -> DAG:
    """The DAG's row, made now or before; the same id for another DAG raises RecordConflict."""
    owner = session.execute(
        select(WorkflowRow.id, RequestRow.request_no)
        .join(RequestRow, RequestRow.request_name == WorkflowRow.request_name)
        .where(WorkflowRow.request_name == intent.request_name)
    ).one_or_none()
    if owner is None:
        raise Missing(f"there is no request named {intent.request_name}; `wms2 request list` shows all")
    fields = intent.model_dump(mode="json", exclude={"request_name", "parent_dag_id"})
    parent = None if intent.parent_dag_id is None else _row(session, intent.parent_dag_id).id
    try:
        inserted = session.execute(
            insert(DagRow)
            .values(workflow_id=owner.id, request_no=owner.request_no, parent_dag_id=parent, **fields)
            .on_conflict_do_nothing(index_elements=[DagRow.dag_id])
            .returning(DagRow.id)
        ).one_or_none()
    except IntegrityError as error:
        raise RecordConflict(
            f"attempt {intent.attempt} of round {intent.round} of {intent.request_name} cannot be recorded: the round "
            "was not planned, or the attempt has another id already"
        ) from error
    dag = dag_by_id(session, intent.dag_id)
    if inserted is not None:
        _tell(session, _row(session, intent.dag_id), "intent", None)
    elif dag.intent != intent:
        raise RecordConflict(f"the DAG id {intent.dag_id} belongs to another DAG")
    return dag


def record_dag_submitted(session: Session, dag_id: str, cluster: int, schedd: str) -> bool:
    """Whether this is news; a DAG that has another cluster already raises RecordConflict."""
    row = _row(session, dag_id, lock=True)
    if row.dagman_cluster_id is not None:
        if (row.dagman_cluster_id, row.schedd_name) != (cluster, schedd):
            raise RecordConflict(
                f"{dag_id} was submitted as {row.dagman_cluster_id} at {row.schedd_name}, not as {cluster} at {schedd}"
            )
        return False
    before = row.status
    row.dagman_cluster_id, row.schedd_name, row.submitted_at = cluster, schedd, datetime.now(UTC)
    if before in (DagStatus.PLANNING, DagStatus.READY):
        row.status = DagStatus.SUBMITTED
    _tell(session, row, "submitted", before, {"cluster": cluster, "schedd": schedd})
    return True


def record_dag_stop(session: Session, dag_id: str, reason: str) -> bool:
    """Whether this is the first request to stop: a rescue that follows a stop counts as no failure."""
    row = _row(session, dag_id, lock=True)
    if row.stop_requested_at is not None:
        return False
    row.stop_requested_at, row.stop_reason = datetime.now(UTC), reason
    _tell(session, row, "stop_requested", row.status, {"reason": reason})
    return True


def record_dag_status(
    session: Session, dag_id: str, status: DagStatus, nodes: NodeCounts, rescue_dag_path: str | None = None
) -> bool:
    """Whether it was recorded: what became of a DAG in the end is not changed by late news."""
    row = _row(session, dag_id, lock=True)
    before = DagStatus(row.status)
    if before.is_final:
        return False
    row.status = status
    for name, count in nodes:
        setattr(row, f"nodes_{name}", count)
    row.rescue_dag_path = rescue_dag_path or row.rescue_dag_path
    if status.is_final:
        row.completed_at = datetime.now(UTC)
    if status != before:
        _tell(session, row, "status", before)
    return True


def record_running_dags(session: Session, nodes: Mapping[str, NodeCounts]) -> None:
    """How far DAGs that run are, by their ids. One that has ended meanwhile stays as it ended."""
    names = list(NodeCounts.model_fields)
    # Arrays, because a statement of many values takes longer to compile than to run.
    arrays = [cast([getattr(count, name) for count in nodes.values()], ARRAY(Integer)) for name in names]
    counts = func.unnest(cast(list(nodes), ARRAY(String)), *arrays).table_valued("dag_id", *names)
    counts = counts.render_derived("counts")
    session.execute(
        update(DagRow)
        .where(DagRow.dag_id == counts.c.dag_id, DagRow.status == DagStatus.RUNNING)
        .values({f"nodes_{name}": counts.c[name] for name in names})
        .execution_options(synchronize_session=False)
    )


def dag_by_id(session: Session, dag_id: str) -> DAG:
    """The DAG with this WMS2_DagId, or a UserError."""
    return _found(_dags(session, _DAGS.where(DagRow.dag_id == dag_id)), dag_id)


def dags_of_round(session: Session, request_name: str, number: int) -> list[DAG]:
    """The submissions of a round, first to last."""
    query = _DAGS.where(RequestRow.request_name == request_name, DagRow.round == number)
    return _dags(session, query.order_by(DagRow.attempt))


def dags_of_request(session: Session, request_name: str) -> list[DAG]:
    """All submissions of all of its rounds, first to last."""
    query = _DAGS.where(RequestRow.request_name == request_name)
    return _dags(session, query.order_by(DagRow.round, DagRow.attempt))


def dags_of_closed_rounds(session: Session, queued: Mapping[str, int]) -> list[str]:
    """Those of the queued DAGs, given with their clusters, that are ours and whose round has ended.

    One that is recorded with another cluster only has the same tag, and is somebody else's.
    """
    query = (
        select(DagRow.dag_id, DagRow.dagman_cluster_id)
        .join(RoundRow, and_(RoundRow.request_no == DagRow.request_no, RoundRow.number == DagRow.round))
        .where(
            DagRow.dag_id.in_(list(queued)),
            RoundRow.status.in_([RoundStatus.CLOSED, RoundStatus.COMPLETED]),
        )
    )
    return sorted(
        dag_id for dag_id, cluster in session.execute(query) if cluster is None or cluster == queued[dag_id]
    )


def list_dags(
    session: Session,
    statuses: Sequence[DagStatus] = (),
    limit: int = 1000,
    offset: int = 0,
    request_name: str | None = None,
    owner: Owner | None = None,
) -> list[DAG]:
    """Newest first; all statuses unless some are named."""
    query = _DAGS.order_by(DagRow.intent_at.desc(), DagRow.attempt.desc(), DagRow.dag_id)
    query = query.limit(limit).offset(offset)
    if statuses:
        query = query.where(DagRow.status.in_(statuses))
    if request_name is not None:
        query = query.where(RequestRow.request_name == request_name)
    return _dags(session, query if owner is None else query.where(owner.owns()))


def named_dag(session: Session, name: str) -> DAG:
    """The DAG with this WMS2_DagId, or with this id of its row."""
    try:
        number = UUID(name)
    except ValueError:
        return dag_by_id(session, name)
    return _found(_dags(session, _DAGS.where(DagRow.id == number)), name)


def dag_history(session: Session, dag_id: str) -> list[DagHistory]:
    """What happened to the DAG, in order."""
    query = (
        select(DagHistoryRow).join(DagRow, DagRow.id == DagHistoryRow.dag_id).where(DagRow.dag_id == dag_id)
    )
    return [
        DagHistory.model_validate(
            {
                "dag_id": dag_id,
                "nodes": _counts(row),
                **{name: getattr(row, name) for name in _HISTORY_COLUMNS},
            }
        )
        for row in session.scalars(query.order_by(DagHistoryRow.id))
    ]


def _row(session: Session, dag_id: str, lock: bool = False) -> DagRow:
    query = select(DagRow).where(DagRow.dag_id == dag_id).execution_options(populate_existing=True)
    return _found(session.scalars(query.with_for_update() if lock else query).all(), dag_id)


def _found(dags: Sequence[D], name: str) -> D:
    """The only one, or a UserError."""
    if not dags:
        raise Missing(f"there is no DAG with the id {name}; `wms2 dag list` shows all")
    return dags[0]


def _dags(session: Session, query: _Found) -> list[DAG]:
    return [_dag(*found) for found in session.execute(query)]


def _dag(row: DagRow, request_name: str, host: str | None, parent: str | None) -> DAG:
    own = {name: getattr(row, name) for name in _INTENT_COLUMNS}
    intent = own | {"request_name": request_name, "parent_dag_id": parent}
    columns = {name: getattr(row, name) for name in _DAG_COLUMNS}
    return DAG.model_validate(columns | {"intent": intent, "submit_host": host, "nodes": _counts(row)})


def _counts(row: DagRow | DagHistoryRow) -> NodeCounts:
    return NodeCounts.model_validate(
        {name: getattr(row, f"nodes_{name}") for name in NodeCounts.model_fields}
    )


def _tell(
    session: Session, row: DagRow, event: str, before: str | None, detail: dict[str, Any] | None = None
) -> None:
    counts = {f"nodes_{name}": count for name, count in _counts(row)}
    session.add(
        DagHistoryRow(
            dag_id=row.id,
            event_type=event,
            from_status=before,
            to_status=row.status,
            detail=detail or {},
            **counts,
        )
    )
    session.flush()
