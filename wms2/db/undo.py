"""What is to be taken back of a request's outputs, what was, and which ones a later version has replaced."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from wms2.db.audit import record_action
from wms2.db.outputs import find_dataset, lock_dataset
from wms2.db.requests import request_record
from wms2.db.session import RecordConflict
from wms2.db.tables import OutputBlockRow, OutputDatasetRow, OutputFileRow, RequestRow, WorkflowRow
from wms2.models.audit import Action
from wms2.models.output import OutputBlockStatus, OutputFileStatus, OutputStanding, OutputStatus
from wms2.models.request import CleanupPolicy, Request
from wms2.models.undo import RecordedBlock, RecordedDataset, UndoOrder

INVALIDATE = "invalidate"


def recorded_datasets(session: Session, order: UndoOrder) -> list[RecordedDataset]:
    """The datasets that are not taken back yet, each with what was told of it."""
    query = (
        select(OutputDatasetRow)
        .join(WorkflowRow, WorkflowRow.id == OutputDatasetRow.workflow_id)
        .where(
            WorkflowRow.request_name == order.request,
            OutputDatasetRow.standing != OutputStanding.INVALIDATED,
        )
        .order_by(OutputDatasetRow.dataset_name)
    )
    if order.dataset is not None:
        query = query.where(OutputDatasetRow.dataset_name == order.dataset)
    return [_recorded(session, row) for row in session.scalars(query).all()]


def _recorded(session: Session, row: OutputDatasetRow) -> RecordedDataset:
    others = select(OutputDatasetRow.id).where(
        OutputDatasetRow.dataset_name == row.dataset_name,
        OutputDatasetRow.id != row.id,
        OutputDatasetRow.standing != OutputStanding.INVALIDATED,
    )
    blocks = session.scalars(
        select(OutputBlockRow)
        .where(
            OutputBlockRow.output_dataset_id == row.id,
            OutputBlockRow.status != OutputBlockStatus.INVALIDATED,
        )
        .order_by(OutputBlockRow.number)
    )
    return RecordedDataset(
        name=row.dataset_name,
        shared=bool(session.scalar(select(others.exists()))),
        blocks=tuple(
            RecordedBlock(
                name=block.block_name,
                # A call that was cut off may have brought a closed block there without a record of it.
                in_dbs=block.status != OutputBlockStatus.OPEN,
                rules=rules_left(block),
            )
            for block in blocks
        ),
    )


def rules_left(block: OutputBlockRow) -> tuple[str, ...]:
    """The rules that still hold: the source's own is gone once it was released, and may be that of a destination."""
    source = () if block.source_released else (block.source_rule_id,)
    return tuple(dict.fromkeys(rule for rule in (*source, *block.transfer_rule_ids) if rule))


def block_lfns(session: Session, block_name: str) -> list[str]:
    query = (
        select(OutputFileRow.lfn)
        .join(OutputBlockRow, OutputBlockRow.id == OutputFileRow.block_id)
        .where(OutputBlockRow.block_name == block_name)
    )
    return list(session.scalars(query.order_by(OutputFileRow.lfn)))


def record_block_undone(session: Session, block_name: str, in_dbs: bool) -> int:
    """The block is taken back; how many of its files that is news for."""
    found = select(OutputBlockRow).where(OutputBlockRow.block_name == block_name)
    lock_dataset(session, session.scalars(found).one().output_dataset_id)
    block = session.scalars(found.execution_options(populate_existing=True)).one()
    block.status = OutputBlockStatus.INVALIDATED
    block.rucio_rules_deleted, block.dbs_invalidated = True, in_dbs
    return _invalidate_files(session, OutputFileRow.block_id == block.id)


def record_dataset_undone(session: Session, order: UndoOrder, dataset: str) -> int:
    """The dataset is taken back; how many of its files that is news for. Also those that nobody was told of."""
    row = find_dataset(session, order.request, dataset, lock=True)
    if row is None:
        raise RecordConflict(f"{order.request} has produced nothing for {dataset}")
    row.status, row.standing = OutputStatus.INVALIDATED, OutputStanding.INVALIDATED
    row.invalidated_at, row.invalidation_reason, row.cleanup_at = func.now(), order.reason, None
    row.updated_at = func.now()
    files = _invalidate_files(session, OutputFileRow.output_dataset_id == row.id)
    action = Action(
        action_id=f"{INVALIDATE}-{order.action_id}-{row.id}"[:200],
        actor=order.actor,
        action=INVALIDATE,
        request_name=order.request,
        reason=order.reason,
        detail={"dataset": dataset},
    )
    record_action(session, action)
    return files


def _invalidate_files(session: Session, which: object) -> int:
    changed = session.execute(
        update(OutputFileRow)
        .where(which, OutputFileRow.status != OutputFileStatus.INVALIDATED)  # type: ignore[arg-type]
        .values(status=OutputFileStatus.INVALIDATED)
        .returning(OutputFileRow.id)
        .execution_options(synchronize_session=False)
    )
    return len(changed.all())


def supersede_outputs(session: Session, request_name: str) -> bool:
    """A later version is complete: the outputs of all earlier ones are superseded, also of those that never were.

    Whether there are any that are to be taken back by their cleanup policy, now or later.
    """
    is_wanted, request = False, request_record(session, request_name).request
    while request.previous_version_request is not None:
        request = request_record(session, request.previous_version_request).request
        is_wanted |= _supersede(session, request)
    return is_wanted


def _supersede(session: Session, earlier: Request) -> bool:
    wait = _cleanup_after(earlier)
    due = None if wait is None else func.now() + wait
    changed = session.execute(
        update(OutputDatasetRow)
        .where(
            OutputDatasetRow.workflow_id == WorkflowRow.id,
            WorkflowRow.request_name == earlier.request_name,
            OutputDatasetRow.standing == OutputStanding.ACTIVE,
        )
        .values(standing=OutputStanding.SUPERSEDED, cleanup_at=due, updated_at=func.now())
        .returning(OutputDatasetRow.id)
        .execution_options(synchronize_session=False)
    ).all()
    return bool(changed) and wait is not None


def _cleanup_after(request: Request) -> timedelta | None:
    """How long outputs that were replaced are kept; None for ever, until a person takes them back."""
    if request.cleanup_policy is CleanupPolicy.IMMEDIATE_CLEANUP:
        return timedelta(0)
    if request.cleanup_policy is CleanupPolicy.GRACE_PERIOD:
        return timedelta(days=request.cleanup_grace_days)
    return None


def due_cleanups(session: Session) -> list[UndoOrder]:
    """The requests whose outputs were replaced, and whose time is over."""
    query = (
        select(WorkflowRow.request_name, RequestRow.superseded_by_request)
        .join(OutputDatasetRow, OutputDatasetRow.workflow_id == WorkflowRow.id)
        .join(RequestRow, RequestRow.request_name == WorkflowRow.request_name)
        .where(
            OutputDatasetRow.standing == OutputStanding.SUPERSEDED,
            OutputDatasetRow.cleanup_at <= func.now(),
        )
        .distinct()
        .order_by(WorkflowRow.request_name)
    )
    return [
        UndoOrder(
            request=name,
            actor="wms2",
            reason=f"{successor} has replaced it" if successor else "a later version has replaced it",
            action_id=f"cleanup-{name}",
        )
        for name, successor in session.execute(query)
    ]
