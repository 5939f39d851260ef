"""Output datasets in the database: what waits for its registration, what is registered, what is announced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.db.session import RecordConflict
from wms2.db.tables import OutputBlockRow, OutputDatasetRow, OutputFileRow, WorkflowRow
from wms2.models.output import (
    OutputBlockStatus,
    OutputDataset,
    OutputFileStatus,
    OutputStatus,
    ProducedFile,
)

_FILE_COLUMNS = ProducedFile.model_fields.keys() - {"dataset"}
_DATASET_COLUMNS = OutputDataset.model_fields.keys() - {"request_name"}


@dataclass(frozen=True, slots=True)
class PendingUnit:
    """The files of a dataset that one work unit made at its site, not yet registered."""

    work_unit: int
    site: str
    files: tuple[ProducedFile, ...]


def pending_files(session: Session, request_name: str, dataset: str, limit: int) -> list[PendingUnit]:
    """Files that wait for their registration, whole work units only, at most `limit` of these."""
    row = _dataset(session, request_name, dataset)
    if row is None:
        return []
    waiting = (
        OutputFileRow.output_dataset_id == row.id,
        OutputFileRow.status == OutputFileStatus.PENDING,
    )
    units = select(OutputFileRow.work_unit).where(*waiting).distinct().order_by(OutputFileRow.work_unit)
    found = session.scalars(
        select(OutputFileRow)
        .where(*waiting, OutputFileRow.work_unit.in_(units.limit(limit)))
        .order_by(OutputFileRow.work_unit, OutputFileRow.site, OutputFileRow.lfn)
        .execution_options(populate_existing=True)
    )
    grouped = groupby(found, key=lambda file: (file.work_unit, file.site))
    return [
        PendingUnit(unit, site, tuple(_file(file, dataset) for file in files))
        for (unit, site), files in grouped
    ]


def mark_registered(
    session: Session, request_name: str, dataset: str, block_name: str, site: str, lfns: Sequence[str]
) -> int:
    """How many of the files are registered only now. Their closed block is recorded with them, once."""
    row = _dataset(session, request_name, dataset)
    if row is None:
        raise RecordConflict(f"{request_name} has produced nothing for {dataset}")
    session.execute(
        insert(OutputBlockRow)
        .values(
            output_dataset_id=row.id,
            block_name=block_name,
            source_site=site,
            status=OutputBlockStatus.CLOSED,
            dbs_registered_at=func.now(),
            closed_at=func.now(),
        )
        .on_conflict_do_nothing(index_elements=[OutputBlockRow.block_name])
    )
    block = session.scalars(
        select(OutputBlockRow)
        .where(OutputBlockRow.block_name == block_name)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).one()
    registered = session.execute(
        update(OutputFileRow)
        .where(
            OutputFileRow.output_dataset_id == row.id,
            OutputFileRow.lfn.in_(lfns),
            OutputFileRow.status == OutputFileStatus.PENDING,
        )
        .values(status=OutputFileStatus.REGISTERED, block_id=block.id)
        .returning(OutputFileRow.size_bytes, OutputFileRow.events)
        .execution_options(synchronize_session=False)
    ).all()
    block.files += len(registered)
    block.events += sum(file.events for file in registered)
    block.size_bytes += sum(file.size_bytes for file in registered)
    # The row was read without a lock: whether it is still pending is asked by the change itself.
    session.execute(
        update(OutputDatasetRow)
        .where(OutputDatasetRow.id == row.id, OutputDatasetRow.status == OutputStatus.PENDING)
        .values(status=OutputStatus.DBS_REGISTERED, updated_at=func.now())
        .execution_options(synchronize_session=False)
    )
    return len(registered)


def record_output_status(session: Session, request_name: str, dataset: str, status: OutputStatus) -> bool:
    """Whether this is news. What is announced can only be invalidated, and what is invalidated stays so."""
    row = _dataset(session, request_name, dataset, lock=True)
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
    row = _dataset(session, request_name, dataset)
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


def _dataset(
    session: Session, request_name: str, dataset: str, lock: bool = False
) -> OutputDatasetRow | None:
    query = (
        select(OutputDatasetRow)
        .join(WorkflowRow, WorkflowRow.id == OutputDatasetRow.workflow_id)
        .where(WorkflowRow.request_name == request_name, OutputDatasetRow.dataset_name == dataset)
        .execution_options(populate_existing=True)
    )
    return session.scalar(query.with_for_update(of=OutputDatasetRow) if lock else query)


def _file(row: OutputFileRow, dataset: str) -> ProducedFile:
    fields = {name: getattr(row, name) for name in _FILE_COLUMNS}
    return ProducedFile.model_validate({**fields, "dataset": dataset})
