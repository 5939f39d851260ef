"""Blocks of output datasets: they open, fill, close once, and find their place. Each step is recorded here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from sqlalchemy import ColumnElement, Select, String, and_, any_, cast, func, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session

from wms2.core.blocks import BlockLimits, Load, is_due, takes
from wms2.core.outputs import BlockSteps, dataset_status
from wms2.db.outputs import find_dataset, lock_dataset, produced_file
from wms2.db.session import RecordConflict
from wms2.db.tables import OutputBlockRow, OutputDatasetRow, OutputFileRow, RequestRow, WorkflowRow
from wms2.models.block import block_name
from wms2.models.output import OutputBlockStatus, OutputFileStatus, OutputStanding, ProducedFile
from wms2.models.request import RequestStatus

ENDED = [status for status in RequestStatus if status.is_final]
UNITS_AT_ONCE = 50
"""A work unit may have many files, with many lumi sections each: so few that memory does not grow with a dataset."""


@dataclass(frozen=True, slots=True)
class OpenedBlock:
    """A block with files that Rucio has not been told of."""

    name: str
    site: str
    rse: str | None
    source_rule: str | None
    files: tuple[ProducedFile, ...]


@dataclass(frozen=True, slots=True)
class ClosedBlock:
    """A block whose files are all protected, and which takes no more."""

    name: str
    site: str
    files: tuple[ProducedFile, ...]


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block in DBS, on its way to where it should be."""

    name: str
    files: int
    rse: str
    source_rule: str
    transfer_rules: tuple[str, ...]
    waits_sec: float
    """Since it was registered."""
    looked_sec: float | None = None
    """Since its rules were looked at; None where they never were."""
    arrived: bool = False
    """Whether it was where it should be before, and stayed at its source only for those who read it there."""


def assign_files(session: Session, request_name: str, dataset: str, limits: BlockLimits) -> int:
    """Give each file that has none its block; how many files that were. A block that has no room left is closed.

    The files of one work unit stay together. Whoever does this at the same time waits.
    """
    row = find_dataset(session, request_name, dataset, lock=True)
    if row is None or row.standing == OutputStanding.INVALIDATED:
        return 0
    blocks = {block.source_site: block for block in _blocks(session, row.id, OutputBlockStatus.OPEN)}
    opened = session.scalar(select(func.count()).where(OutputBlockRow.output_dataset_id == row.id)) or 0
    assigned = 0
    for site, files in _units_without_block(session, row.id):
        load = _load(files)
        block = blocks.get(site)
        if block is not None and not takes(_held(block), load, limits.load):
            _close(block)
            session.flush()
            block = None
        if block is None:
            block = blocks[site] = _open(session, row, request_name, site, opened)
            opened += 1
        _fill(block, files)
        assigned += len(files)
    _refresh(session, row)
    return assigned


def blocks_to_protect(
    session: Session, request_name: str, dataset: str, limit: int, without: Collection[str] = ()
) -> list[OpenedBlock]:
    """Blocks with files of which Rucio has not been told, some files at a time, `without` those of these names."""
    row = find_dataset(session, request_name, dataset)
    if row is None:
        return []
    waiting = (
        select(OutputBlockRow, OutputFileRow)
        .join(OutputFileRow, OutputFileRow.block_id == OutputBlockRow.id)
        .where(
            OutputBlockRow.output_dataset_id == row.id,
            OutputFileRow.status == OutputFileStatus.PENDING,
            OutputBlockRow.block_name.not_in(without),
        )
        .order_by(OutputBlockRow.number, OutputFileRow.lfn)
        .limit(limit)
    )
    grouped = groupby(session.execute(waiting).all(), key=lambda pair: pair[0])
    return [
        OpenedBlock(
            block.block_name,
            block.source_site,
            block.source_rse,
            block.source_rule_id,
            tuple(produced_file(file, dataset) for _, file in files),
        )
        for block, files in grouped
    ]


def record_protected(session: Session, block_name: str, rse: str, rule: str, lfns: Sequence[str]) -> int:
    """How many of the files are protected only now."""
    dataset, block = _locked(session, block_name)
    block.source_rse, block.source_rule_id = rse, rule
    protected = session.execute(
        update(OutputFileRow)
        .where(
            OutputFileRow.block_id == block.id,
            OutputFileRow.lfn.in_(lfns),
            OutputFileRow.status == OutputFileStatus.PENDING,
        )
        .values(status=OutputFileStatus.PROTECTED)
        .returning(OutputFileRow.id)
        .execution_options(synchronize_session=False)
    ).all()
    _refresh(session, dataset)
    return len(protected)


def close_due_blocks(
    session: Session, request_name: str, dataset: str, limits: BlockLimits, finishing: bool
) -> None:
    """Close the open blocks that are old enough, or all of them when no more files will come."""
    row = find_dataset(session, request_name, dataset, lock=True)
    if row is None:
        return
    now = session.execute(select(func.now())).scalar_one()
    for block in _blocks(session, row.id, OutputBlockStatus.OPEN):
        if is_due(block.created_at, now, limits, finishing):
            _close(block)


def blocks_to_register(session: Session, request_name: str, dataset: str) -> list[str]:
    """The closed blocks that DBS does not have, all of whose files are protected."""
    row = find_dataset(session, request_name, dataset)
    if row is None:
        return []
    pending = select(OutputFileRow.id).where(
        OutputFileRow.block_id == OutputBlockRow.id, OutputFileRow.status == OutputFileStatus.PENDING
    )
    return list(
        session.scalars(
            select(OutputBlockRow.block_name)
            .where(
                OutputBlockRow.output_dataset_id == row.id,
                OutputBlockRow.status == OutputBlockStatus.CLOSED,
                OutputBlockRow.dbs_registered_at.is_(None),
                ~pending.exists(),
            )
            .order_by(OutputBlockRow.number)
        )
    )


def check_not_taken_back(session: Session, block_name: str) -> None:
    """Raises RecordConflict for one that was: who was given up for dead and lives on shall not tell of it again."""
    query = select(OutputBlockRow.status).where(OutputBlockRow.block_name == block_name)
    if session.scalars(query).one() == OutputBlockStatus.INVALIDATED:
        raise RecordConflict(f"{block_name} was taken back")


def closed_block(session: Session, dataset: str, block_name: str) -> ClosedBlock:
    """A block with its files, as DBS is to have it."""
    check_not_taken_back(session, block_name)
    block = session.scalars(select(OutputBlockRow).where(OutputBlockRow.block_name == block_name)).one()
    files = session.scalars(
        select(OutputFileRow).where(OutputFileRow.block_id == block.id).order_by(OutputFileRow.lfn)
    )
    return ClosedBlock(
        block.block_name, block.source_site, tuple(produced_file(file, dataset) for file in files)
    )


def record_registered(session: Session, block_name: str, transfer_rules: Sequence[str]) -> int:
    """The block is in DBS, and under the rules that the request asked for; how many files that is news for."""
    dataset, block = _locked(session, block_name)
    if block.dbs_registered_at is None:
        block.dbs_registered_at = func.now()
    block.transfer_rule_ids = list(transfer_rules)
    registered = session.execute(
        update(OutputFileRow)
        .where(OutputFileRow.block_id == block.id, OutputFileRow.status == OutputFileStatus.PROTECTED)
        .values(status=OutputFileStatus.REGISTERED)
        .returning(OutputFileRow.id)
        .execution_options(synchronize_session=False)
    ).all()
    _refresh(session, dataset)
    return len(registered)


def blocks_to_place(session: Session, request_name: str, dataset: str) -> list[PlacedBlock]:
    """The blocks in DBS for which something is left to do: they are under way, or nobody reads them any more."""
    row = find_dataset(session, request_name, dataset)
    if row is None:
        return []
    waits = func.extract("epoch", func.now() - OutputBlockRow.dbs_registered_at)
    looked = func.extract("epoch", func.now() - OutputBlockRow.last_transfer_check)
    found = session.execute(
        select(OutputBlockRow, waits, looked)
        .where(
            OutputBlockRow.output_dataset_id == row.id,
            OutputBlockRow.dbs_registered_at.is_not(None),
            or_(
                OutputBlockRow.status == OutputBlockStatus.CLOSED,
                and_(_kept_for_readers(), ~_reading(dataset).exists()),
            ),
        )
        .order_by(OutputBlockRow.number)
    )
    return [
        PlacedBlock(
            block.block_name,
            block.files,
            block.source_rse or "",
            block.source_rule_id or "",
            tuple(block.transfer_rule_ids),
            float(since_registered),
            None if since_looked is None else float(since_looked),
            block.transfers_complete_at is not None,
        )
        for block, since_registered, since_looked in found
    ]


def block_of_files(session: Session, lfns: Sequence[str]) -> dict[str, str]:
    """The name of the block that each of these files is in; those that are in none of ours are left out."""
    # One parameter however many they are.
    asked = cast(list(lfns), ARRAY(String))
    query = (
        select(OutputFileRow.lfn, OutputBlockRow.block_name)
        .join(OutputBlockRow, OutputBlockRow.id == OutputFileRow.block_id)
        .where(OutputFileRow.lfn == any_(asked))
    )
    return {file.lfn: file.block_name for file in session.execute(query)}


def record_source_rule(session: Session, block_name: str, rule: str) -> None:
    """Another rule holds the block where it was made: the first one is gone."""
    _, block = _locked(session, block_name)
    block.source_rule_id = rule


def record_check(session: Session, block_name: str) -> None:
    """Its rules were looked at, and it has not arrived."""
    dataset, block = _locked(session, block_name)
    block.last_transfer_check = func.now()
    _refresh(session, dataset)


def record_archived(session: Session, block_name: str, *, arrived: bool, released: bool) -> None:
    """Nothing is left to do for the block: it is where it should be, or nobody wants it elsewhere.

    One that has arrived and is not released is kept at its source for as long as somebody reads it.
    """
    dataset, block = _locked(session, block_name)
    if block.status in (OutputBlockStatus.CLOSED, OutputBlockStatus.ARCHIVED) and not block.source_released:
        block.status, block.source_released = OutputBlockStatus.ARCHIVED, released
        block.last_transfer_check = func.now()
        block.transfers_complete_at = func.now() if arrived else None
    _refresh(session, dataset)


def is_read(session: Session, dataset: str) -> bool:
    """Whether a request that has not ended reads the dataset, or waits to do so."""
    return bool(session.scalar(select(_reading(dataset).exists())))


def outputs_read_no_more(session: Session) -> list[tuple[str, str]]:
    """The outputs with blocks that were kept for readers who have ended: the requests, and their datasets."""
    query = (
        select(WorkflowRow.request_name, OutputDatasetRow.dataset_name)
        .join(OutputDatasetRow, OutputDatasetRow.workflow_id == WorkflowRow.id)
        .join(OutputBlockRow, OutputBlockRow.output_dataset_id == OutputDatasetRow.id)
        .where(_kept_for_readers(), ~_reading(OutputDatasetRow.dataset_name).exists())
        .distinct()
        .order_by(WorkflowRow.request_name, OutputDatasetRow.dataset_name)
    )
    return [(request, dataset) for request, dataset in session.execute(query)]


def is_complete(session: Session, request_name: str, dataset: str) -> bool:
    """Whether every file of the dataset is in an archived block."""
    row = find_dataset(session, request_name, dataset)
    if row is None:
        return True
    loose = select(OutputFileRow.id).where(
        OutputFileRow.output_dataset_id == row.id, OutputFileRow.status != OutputFileStatus.REGISTERED
    )
    unfinished = select(OutputBlockRow.id).where(
        OutputBlockRow.output_dataset_id == row.id, OutputBlockRow.status != OutputBlockStatus.ARCHIVED
    )
    return not session.scalar(select(loose.exists() | unfinished.exists()))


def oldest_open_sec(session: Session, request_name: str, dataset: str) -> float | None:
    """For how long the oldest open block has been open."""
    row = find_dataset(session, request_name, dataset)
    if row is None:
        return None
    age = session.scalar(
        select(func.extract("epoch", func.now() - func.min(OutputBlockRow.created_at))).where(
            OutputBlockRow.output_dataset_id == row.id, OutputBlockRow.status == OutputBlockStatus.OPEN
        )
    )
    return None if age is None else float(age)


def _reading(dataset: str | InstrumentedAttribute[str]) -> Select[str]:
    """The requests that read a dataset, or will."""
    return select(RequestRow.request_name).where(
        RequestRow.input_dataset == dataset, RequestRow.status.not_in(ENDED)
    )


def _kept_for_readers() -> ColumnElement[bool]:
    return and_(
        OutputBlockRow.status == OutputBlockStatus.ARCHIVED,
        OutputBlockRow.transfers_complete_at.is_not(None),
        ~OutputBlockRow.source_released,
    )


def _units_without_block(session: Session, dataset_id: UUID) -> list[tuple[str, list[OutputFileRow]]]:
    """The files of each work unit at its site, by work unit; whole work units, and not more than some."""
    loose = (
        OutputFileRow.output_dataset_id == dataset_id,
        OutputFileRow.block_id.is_(None),
        OutputFileRow.status == OutputFileStatus.PENDING,
    )
    units = select(OutputFileRow.work_unit).where(*loose).distinct().order_by(OutputFileRow.work_unit)
    files = session.scalars(
        select(OutputFileRow)
        .where(*loose, OutputFileRow.work_unit.in_(units.limit(UNITS_AT_ONCE)))
        .order_by(OutputFileRow.work_unit, OutputFileRow.site, OutputFileRow.lfn)
        .execution_options(populate_existing=True)
    )
    grouped = groupby(files, key=lambda file: (file.work_unit, file.site))
    return [(site, list(of_unit)) for (_, site), of_unit in grouped]


def _load(files: Sequence[OutputFileRow]) -> Load:
    return Load(len(files), sum(file.size_bytes for file in files), sum(len(file.lumis) for file in files))


def _held(block: OutputBlockRow) -> Load:
    return Load(block.files, block.size_bytes, block.lumis)


def _open(
    session: Session, dataset: OutputDatasetRow, request_name: str, site: str, number: int
) -> OutputBlockRow:
    block = OutputBlockRow(
        output_dataset_id=dataset.id,
        block_name=block_name(request_name, dataset.dataset_name, number),
        number=number,
        source_site=site,
        status=OutputBlockStatus.OPEN,
        files=0,
        events=0,
        size_bytes=0,
        lumis=0,
    )
    session.add(block)
    session.flush()
    return block


def _fill(block: OutputBlockRow, files: Sequence[OutputFileRow]) -> None:
    load = _load(files)
    block.files += load.files
    block.size_bytes += load.size_bytes
    block.lumis += load.lumis
    block.events += sum(file.events for file in files)
    for file in files:
        file.block_id = block.id


def _close(block: OutputBlockRow) -> None:
    block.status, block.closed_at = OutputBlockStatus.CLOSED, func.now()


def _blocks(session: Session, dataset_id: UUID, status: OutputBlockStatus) -> list[OutputBlockRow]:
    query = select(OutputBlockRow).where(
        OutputBlockRow.output_dataset_id == dataset_id, OutputBlockRow.status == status
    )
    ordered = query.order_by(OutputBlockRow.number).execution_options(populate_existing=True)
    return list(session.scalars(ordered))


def _locked(session: Session, block_name: str) -> tuple[OutputDatasetRow, OutputBlockRow]:
    """The block and its dataset. The dataset is locked, and with it all its blocks: each change asks for it."""
    block = select(OutputBlockRow).where(OutputBlockRow.block_name == block_name)
    dataset = lock_dataset(session, session.scalars(block).one().output_dataset_id)
    return dataset, session.scalars(block.execution_options(populate_existing=True)).one()


def _refresh(session: Session, dataset: OutputDatasetRow) -> None:
    """Keep the status of the dataset as its blocks have it."""
    session.flush()
    columns = (
        OutputBlockRow.source_rule_id.is_not(None),
        OutputBlockRow.dbs_registered_at.is_not(None),
        OutputBlockRow.transfer_rule_ids != [],
        OutputBlockRow.last_transfer_check.is_not(None),
        OutputBlockRow.status == OutputBlockStatus.ARCHIVED,
        OutputBlockRow.source_released,
    )
    query = select(*columns).where(OutputBlockRow.output_dataset_id == dataset.id).distinct()
    steps = [BlockSteps(*row) for row in session.execute(query)]
    dataset.status, dataset.updated_at = dataset_status(dataset.status, steps), func.now()
