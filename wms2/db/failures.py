"""The record of failures: it outlives the folder of the round, and Temporal's retention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Integer, and_, any_, cast, delete, insert, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from wms2.core.failures import advice
from wms2.db.requests import request_number, request_record
from wms2.db.session import RecordConflict
from wms2.db.tables import DagRow, FileFailureRow, InputFileRow, NodeFailureRow, WorkUnitRow
from wms2.models.dag import DagStatus
from wms2.models.failure import (
    DagFailures,
    ErrorReport,
    ExcludedFile,
    FailedNode,
    FailureSummary,
    FileFailure,
    RecordedFailures,
    RequestErrors,
    ShortFile,
)
from wms2.models.ledger import InputFileState

_NODE_COLUMNS = FailedNode.model_fields.keys()
_FILE_COLUMNS = FileFailure.model_fields.keys()
_LEFT_OUT = (InputFileState.EXCLUDED, InputFileState.DROPPED)


def record_failures(session: Session, dag_id: str, failures: DagFailures) -> None:
    """Replace what is known of the DAG's failures, and of the files of the work units that were looked at.

    Telling the same again changes nothing. The row of the DAG is locked, so that two tellers take turns.
    """
    row = session.scalar(select(DagRow).where(DagRow.dag_id == dag_id).with_for_update())
    if row is None:
        raise RecordConflict(f"there is no DAG with the id {dag_id}; its failures cannot be recorded")
    row.failures = failures.summary.model_dump(mode="json")
    session.flush()
    session.execute(delete(NodeFailureRow).where(NodeFailureRow.dag_id == row.id))
    if failures.nodes:
        nodes = [{"dag_id": row.id, **node.model_dump(mode="json")} for node in failures.nodes]
        session.execute(insert(NodeFailureRow), nodes)
    session.execute(
        delete(FileFailureRow).where(
            FileFailureRow.request_no == row.request_no,
            # One parameter, however many work units.
            FileFailureRow.work_unit == any_(cast(list(failures.looked_at), ARRAY(Integer))),
        )
    )
    if failures.files:
        files = [{"request_no": row.request_no, **file.model_dump(mode="json")} for file in failures.files]
        session.execute(insert(FileFailureRow), files)


def file_failures(
    session: Session, request_name: str, lfns: Collection[str] | None = None
) -> list[FileFailure]:
    """Attempts that could not read a file of the request, in any round; of these files, or of all."""
    query = select(FileFailureRow).where(FileFailureRow.request_no == request_number(session, request_name))
    if lfns is not None:
        query = query.where(FileFailureRow.lfn.in_(list(lfns)))
    query = query.order_by(FileFailureRow.lfn, FileFailureRow.work_unit, FileFailureRow.cluster)
    return [
        FileFailure.model_validate({name: getattr(row, name) for name in _FILE_COLUMNS})
        for row in session.scalars(query)
    ]


def files_of_unit(session: Session, request_name: str, number: int) -> list[str]:
    """The input files of a work unit."""
    query = select(InputFileRow.lfn).where(
        InputFileRow.request_no == request_number(session, request_name), InputFileRow.work_unit == number
    )
    return list(session.scalars(query.order_by(InputFileRow.lfn)))


def left_out_files(session: Session, request_name: str, limit: int = 1000) -> list[ExcludedFile]:
    """Input files that are excluded or dropped, each with the reason."""
    query = select(InputFileRow.lfn, InputFileRow.state, InputFileRow.reason).where(
        InputFileRow.request_no == request_number(session, request_name), InputFileRow.state.in_(_LEFT_OUT)
    )
    rows = session.execute(query.order_by(InputFileRow.lfn).limit(limit))
    return [ExcludedFile(lfn=lfn, state=state, reason=reason) for lfn, state, reason in rows]


def short_files(
    session: Session, request_name: str, round_number: int | None = None, limit: int | None = 1000
) -> list[ShortFile]:
    """Input files of which fewer events were read than the catalogue says; in one round, or in all."""
    file, unit = InputFileRow, WorkUnitRow
    query = (
        select(file.lfn, file.work_unit, file.events, file.read_events)
        .join(unit, and_(unit.request_no == file.request_no, unit.number == file.work_unit))
        .where(
            file.request_no == request_number(session, request_name),
            file.state == InputFileState.PROCESSED,
            file.read_events < file.events,
        )
    )
    if round_number is not None:
        query = query.where(unit.round == round_number)
    rows = session.execute(query.order_by(file.lfn).limit(limit))
    return [ShortFile.model_validate(dict(row._mapping)) for row in rows]


def failures_in_numbers(
    session: Session, request_name: str, round_number: int | None = None
) -> list[RecordedFailures]:
    """The failures of each DAG of a request, counted; in one round, or in all."""
    return [_recorded(row, ()) for row in _dags(session, request_name, round_number)]


def request_errors(session: Session, request_name: str, round_number: int | None = None) -> RequestErrors:
    """What failed in a request, DAG by DAG and node by node; in one round, or in all."""
    dags = _dags(session, request_name, round_number)
    nodes = _nodes(session, [row.id for row in dags])
    return RequestErrors(
        dags=tuple(_recorded(row, nodes.get(row.id, ())) for row in dags),
        files=tuple(file_failures(session, request_name)),
        excluded=tuple(left_out_files(session, request_name)),
        short=tuple(short_files(session, request_name, round_number)),
    )


def error_report(session: Session, request_name: str, round_number: int | None = None) -> ErrorReport:
    """What failed in a request, and what a person can do about it."""
    record = request_record(session, request_name)
    found = request_errors(session, request_name, round_number)
    newest = found.dags[-1].summary if found.dags else None
    return ErrorReport(
        request_name=request_name,
        status=record.status,
        reason=record.status_reason,
        advice=advice(record.status, request_name, newest, simulation=record.request.is_simulation),
        **counts(found.dags),
        **dict(found),
    )


def counts(dags: Iterable[RecordedFailures]) -> dict[str, Any]:
    """Failed nodes by category, by site and by exit code, the most frequent first."""
    counted: dict[str, Counter[str]] = {
        "by_category": Counter(),
        "by_site": Counter(),
        "by_exit_code": Counter(),
    }
    for dag in dags:
        counted["by_category"] += dag.summary.by_category()
        counted["by_site"] += dag.summary.by_site()
        counted["by_exit_code"] += dag.summary.by_exit_code()
    return {name: dict(one.most_common()) for name, one in counted.items()}


def _dags(session: Session, request_name: str, round_number: int | None) -> Sequence[DagRow]:
    number = request_number(session, request_name)
    query = select(DagRow).where(DagRow.request_no == number, DagRow.failures.is_not(None))
    if round_number is not None:
        query = query.where(DagRow.round == round_number)
    query = query.order_by(DagRow.round, DagRow.attempt).execution_options(populate_existing=True)
    return session.scalars(query).all()


def _nodes(session: Session, dags: Collection[UUID]) -> dict[UUID, tuple[FailedNode, ...]]:
    query = select(NodeFailureRow).where(NodeFailureRow.dag_id.in_(dags))
    query = query.order_by(NodeFailureRow.work_unit, NodeFailureRow.node)
    found: dict[UUID, list[FailedNode]] = {}
    for row in session.scalars(query):
        node = FailedNode.model_validate({name: getattr(row, name) for name in _NODE_COLUMNS})
        found.setdefault(row.dag_id, []).append(node)
    return {dag: tuple(failed) for dag, failed in found.items()}


def _recorded(row: DagRow, nodes: tuple[FailedNode, ...]) -> RecordedFailures:
    return RecordedFailures(
        dag_id=row.dag_id,
        round=row.round,
        attempt=row.attempt,
        status=DagStatus(row.status),
        ended_at=row.completed_at,
        summary=FailureSummary.model_validate(row.failures),
        nodes=nodes,
    )
