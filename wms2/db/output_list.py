"""Output datasets as people look at them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from wms2.db.requests import Owner
from wms2.db.tables import OutputBlockRow, OutputDatasetRow, OutputFileRow, RequestRow, WorkflowRow
from wms2.models.output import OutputBlock, OutputFileStatus, OutputStanding, OutputStatus
from wms2.models.output_list import ListedOutput

_BLOCK_COLUMNS = OutputBlock.model_fields.keys() - {"dataset_name"}


def list_outputs(
    session: Session,
    request_name: str | None = None,
    dataset: str | None = None,
    statuses: Sequence[OutputStatus] = (),
    standings: Sequence[OutputStanding] = (),
    limit: int = 1000,
    offset: int = 0,
    owner: Owner | None = None,
) -> list[ListedOutput]:
    """The datasets that have files, newest first, as far as they fit all that is asked."""
    known = OutputFileRow.status.in_([OutputFileStatus.PROTECTED, OutputFileStatus.REGISTERED])
    registered = OutputFileRow.status == OutputFileStatus.REGISTERED
    blocks = select(func.count()).where(OutputBlockRow.output_dataset_id == OutputDatasetRow.id)
    query = (
        select(
            WorkflowRow.request_name.label("request"),
            OutputDatasetRow.dataset_name.label("dataset"),
            OutputDatasetRow.status,
            OutputDatasetRow.standing,
            OutputDatasetRow.announced_at,
            OutputDatasetRow.cleanup_at,
            OutputDatasetRow.invalidated_at,
            OutputDatasetRow.invalidation_reason,
            blocks.scalar_subquery().label("blocks"),
            func.count(OutputFileRow.id).label("files"),
            func.count(OutputFileRow.id).filter(known).label("protected"),
            func.count(OutputFileRow.id).filter(registered).label("registered"),
            func.coalesce(func.sum(OutputFileRow.events), 0).label("events"),
            func.coalesce(func.sum(OutputFileRow.size_bytes), 0).label("size_bytes"),
        )
        .join(WorkflowRow, WorkflowRow.id == OutputDatasetRow.workflow_id)
        .outerjoin(OutputFileRow, OutputFileRow.output_dataset_id == OutputDatasetRow.id)
        .group_by(OutputDatasetRow.id, WorkflowRow.request_name)
        .order_by(OutputDatasetRow.created_at.desc(), OutputDatasetRow.dataset_name)
        .limit(limit)
        .offset(offset)
    )
    if owner is not None:
        query = query.join(RequestRow, RequestRow.request_name == WorkflowRow.request_name).where(
            owner.owns()
        )
    if request_name is not None:
        query = query.where(WorkflowRow.request_name == request_name)
    if dataset is not None:
        query = query.where(OutputDatasetRow.dataset_name == dataset)
    if statuses:
        query = query.where(OutputDatasetRow.status.in_(statuses))
    if standings:
        query = query.where(OutputDatasetRow.standing.in_(standings))
    return [ListedOutput.model_validate(_whole(dict(row._mapping))) for row in session.execute(query)]


def output_blocks(session: Session, request_name: str, dataset: str) -> list[OutputBlock]:
    """The blocks of a request's dataset, in the order in which they were opened."""
    rows = session.scalars(
        select(OutputBlockRow)
        .join(OutputDatasetRow, OutputDatasetRow.id == OutputBlockRow.output_dataset_id)
        .join(WorkflowRow, WorkflowRow.id == OutputDatasetRow.workflow_id)
        .where(WorkflowRow.request_name == request_name, OutputDatasetRow.dataset_name == dataset)
        .order_by(OutputBlockRow.number)
    )
    return [
        OutputBlock.model_validate(
            {"dataset_name": dataset, **{name: getattr(row, name) for name in _BLOCK_COLUMNS}}
        )
        for row in rows
    ]


def _whole(columns: dict[str, object]) -> dict[str, object]:
    # PostgreSQL sums big integers as decimals.
    return columns | {name: int(str(columns[name])) for name in ("events", "size_bytes")}
