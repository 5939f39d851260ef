"""Output datasets in the database."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from wms2.db.session import RecordConflict
from wms2.db.tables import OutputDatasetRow, OutputFileRow, RequestRow, WorkflowRow
from wms2.models.messages import OutputAnnounced
from wms2.models.output import OutputDataset, OutputFileStatus, OutputStatus, ProducedFile
from wms2.models.request import RequestStatus

_FILE_COLUMNS = ProducedFile.model_fields.keys() - {"dataset"}
_DATASET_COLUMNS = OutputDataset.model_fields.keys() - {"request_name"}


def record_output_status(session: Session, request_name: str, dataset: str, status: OutputStatus) -> bool:
    """Whether this is news. What is announced can only be invalidated, and what is invalidated stays so."""
    row = find_dataset(session, request_name, dataset, lock=True)
    if row is None:
        raise RecordConflict(f"{request_name} has produced nothing for {dataset}")
    if row.status == status:
        return False
    final = {OutputStatus.ANNOUNCED: {OutputStatus.INVALIDATED}, OutputStatus.INVALIDATED: set()}
    if status not in final.get(OutputStatus(row.status), {status}):
        raise RecordConflict(f"{dataset} of {request_name} is {row.status} and cannot become {status}")
    row.status, row.updated_at = status, func.now()
    if status is OutputStatus.ANNOUNCED:
        row.announced_at = func.now()
    return True


def registered_totals(session: Session, request_name: str, dataset: str) -> tuple[int, int]:
    """Files and events that are registered."""
    row = find_dataset(session, request_name, dataset)
    if row is None:
        return 0, 0
    files, events = session.execute(
        select(func.count(), func.coalesce(func.sum(OutputFileRow.events), 0)).where(
            OutputFileRow.output_dataset_id == row.id,
            OutputFileRow.status == OutputFileStatus.REGISTERED,
        )
    ).one()
    return files, int(events)


def output_datasets(session: Session, request_name: str) -> list[OutputDataset]:
    """The request's datasets that have files, by name."""
    rows = session.scalars(
        select(OutputDatasetRow)
        .join(WorkflowRow, WorkflowRow.id == OutputDatasetRow.workflow_id)
        .where(WorkflowRow.request_name == request_name)
        .order_by(OutputDatasetRow.dataset_name)
        .execution_options(populate_existing=True)
    )
    return [
        OutputDataset.model_validate(
            {"request_name": request_name, **{name: getattr(row, name) for name in _DATASET_COLUMNS}}
        )
        for row in rows
    ]


def find_dataset(
    session: Session, request_name: str, dataset: str, lock: bool = False
) -> OutputDatasetRow | None:
    query = (
        select(OutputDatasetRow)
        .join(WorkflowRow, WorkflowRow.id == OutputDatasetRow.workflow_id)
        .where(WorkflowRow.request_name == request_name, OutputDatasetRow.dataset_name == dataset)
        .execution_options(populate_existing=True)
    )
    return session.scalar(query.with_for_update(of=OutputDatasetRow) if lock else query)


def lock_dataset(session: Session, dataset_id: UUID) -> OutputDatasetRow:
    return session.get_one(OutputDatasetRow, dataset_id, with_for_update=True, populate_existing=True)


def produced_file(row: OutputFileRow, dataset: str) -> ProducedFile:
    fields = {name: getattr(row, name) for name in _FILE_COLUMNS}
    return ProducedFile.model_validate({**fields, "dataset": dataset})


def announced_and_unheard(session: Session, before: datetime) -> list[tuple[str, OutputAnnounced]]:
    """Requests that are active although all of their outputs were announced by then, each with these outputs."""
    pending = (OutputDatasetRow.status != OutputStatus.ANNOUNCED) | (OutputDatasetRow.announced_at >= before)
    rows = session.execute(
        select(WorkflowRow.request_name, OutputDatasetRow.dataset_name)
        .join(OutputDatasetRow, OutputDatasetRow.workflow_id == WorkflowRow.id)
        .join(RequestRow, RequestRow.request_name == WorkflowRow.request_name)
        .where(RequestRow.status == RequestStatus.ACTIVE)
        .where(
            ~exists().where(OutputDatasetRow.workflow_id == WorkflowRow.id, pending).correlate(WorkflowRow)
        )
        .order_by(WorkflowRow.request_name, OutputDatasetRow.dataset_name)
    ).all()
    told = []
    for name, dataset in rows:
        files, events = registered_totals(session, name, dataset)
        told.append((name, OutputAnnounced(dataset=dataset, files=files, events=events)))
    return told
