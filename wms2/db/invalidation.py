"""What a request has registered, and where the list of it was written."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from wms2.db.audit import newest_entry, record_action
from wms2.db.tables import AuditRow, OutputBlockRow, OutputDatasetRow, OutputFileRow, WorkflowRow
from wms2.db.undo import rules_left
from wms2.models.audit import Action
from wms2.models.invalidation import (
    INVALIDATION,
    InvalidationManifest,
    RegisteredBlock,
    RegisteredDataset,
    RegisteredFile,
    WrittenManifest,
)
from wms2.models.output import OutputStatus


def invalidation_manifest(session: Session, action: Action) -> InvalidationManifest:
    """Everything that DBS and Rucio were told of the request."""
    datasets = session.scalars(
        select(OutputDatasetRow)
        .join(WorkflowRow, WorkflowRow.id == OutputDatasetRow.workflow_id)
        .where(WorkflowRow.request_name == action.request_name)
        .order_by(OutputDatasetRow.dataset_name)
    ).all()
    return InvalidationManifest(
        request=action.request_name or "",
        actor=action.actor,
        reason=action.reason,
        datasets=tuple(_dataset(session, row) for row in datasets),
    )


def record_manifest(session: Session, action: Action, written: dict[str, Any]) -> None:
    """Where the list of what to invalidate after this action is; the first one that was written counts."""
    action_id = f"{INVALIDATION}-{action.action_id}"[:200]
    if session.scalar(select(AuditRow.id).where(AuditRow.action_id == action_id)) is None:
        told = {"action_id": action_id, "action": INVALIDATION, "detail": written}
        record_action(session, action.model_copy(update=told))


def written_manifest(session: Session, request_name: str) -> WrittenManifest | None:
    entry = newest_entry(session, request_name, INVALIDATION)
    return None if entry is None else WrittenManifest.model_validate({**entry.action.detail, "at": entry.at})


def _dataset(session: Session, dataset: OutputDatasetRow) -> RegisteredDataset:
    files: dict[UUID | None, list[RegisteredFile]] = defaultdict(list)
    made = select(OutputFileRow).where(OutputFileRow.output_dataset_id == dataset.id)
    for file in session.scalars(made.order_by(OutputFileRow.lfn)):
        files[file.block_id].append(
            RegisteredFile(lfn=file.lfn, events=file.events, size_bytes=file.size_bytes)
        )
    blocks = select(OutputBlockRow).where(OutputBlockRow.output_dataset_id == dataset.id)
    return RegisteredDataset(
        name=dataset.dataset_name,
        status=OutputStatus(dataset.status),
        blocks=tuple(
            RegisteredBlock(
                name=block.block_name,
                site=block.source_site,
                in_dbs=block.dbs_registered_at is not None,
                rules=rules_left(block),
                files=tuple(files[block.id]),
            )
            for block in session.scalars(blocks.order_by(OutputBlockRow.block_name))
        ),
        not_registered=tuple(files[None]),
    )
