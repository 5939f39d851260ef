"""Output datasets, their blocks and files."""

from uuid import UUID

from sqlalchemy import (
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import (
    Counter,
    JsonList,
    Moment,
    No,
    Now,
    Number,
    RandomId,
    SerialId,
    Table,
    Words,
    one_of,
)
from wms2.models.output import OutputBlockStatus, OutputFileStatus, OutputStanding, OutputStatus


class OutputDatasetRow(Table):
    __tablename__ = "output_datasets"

    id: Mapped[RandomId]
    workflow_id: Mapped[UUID] = mapped_column(ForeignKey("workflows.id"))
    dataset_name: Mapped[str] = mapped_column(String(500))
    status: Mapped[str] = mapped_column(String(50), server_default=text("'pending'"))
    transfer_destinations: Mapped[JsonList]
    announced_at: Mapped[Moment | None]
    standing: Mapped[str] = mapped_column(String(50), server_default=text("'active'"))
    cleanup_at: Mapped[Moment | None]
    invalidated_at: Mapped[Moment | None]
    invalidation_reason: Mapped[Words | None]
    created_at: Mapped[Now]
    updated_at: Mapped[Now]

    __table_args__ = (
        one_of("status", OutputStatus),
        one_of("standing", OutputStanding),
        Index("idx_output_datasets_workflow", "workflow_id", "dataset_name", unique=True),
        Index("idx_output_datasets_status", "status"),
        Index("idx_output_datasets_cleanup", "cleanup_at", postgresql_where=text("cleanup_at IS NOT NULL")),
    )


class OutputBlockRow(Table):
    """Of the blocks of a dataset at a site one is open at most. A number tells apart those of one dataset."""

    __tablename__ = "output_blocks"

    id: Mapped[RandomId]
    output_dataset_id: Mapped[UUID] = mapped_column(ForeignKey("output_datasets.id"))
    block_name: Mapped[str] = mapped_column(String(700), unique=True)
    number: Mapped[int]
    source_site: Mapped[str] = mapped_column(String(100))
    source_rse: Mapped[str | None] = mapped_column(String(255))
    status: Mapped[str] = mapped_column(String(50), server_default=text("'open'"))
    files: Mapped[Counter]
    events: Mapped[Counter]
    size_bytes: Mapped[Counter]
    lumis: Mapped[Counter]
    dbs_registered_at: Mapped[Moment | None]
    source_rule_id: Mapped[str | None] = mapped_column(String(100))
    transfer_rule_ids: Mapped[JsonList]
    transfers_complete_at: Mapped[Moment | None]
    last_transfer_check: Mapped[Moment | None]
    source_released: Mapped[No]
    dbs_invalidated: Mapped[No]
    rucio_rules_deleted: Mapped[No]
    created_at: Mapped[Now]
    closed_at: Mapped[Moment | None]

    __table_args__ = (
        one_of("status", OutputBlockStatus),
        Index("idx_output_blocks_dataset", "output_dataset_id", "status"),
        Index("idx_output_blocks_number", "output_dataset_id", "number", unique=True),
        Index(
            "idx_output_blocks_open",
            "output_dataset_id",
            "source_site",
            unique=True,
            postgresql_where=text("status = 'open'"),
        ),
    )


class OutputFileRow(Table):
    __tablename__ = "output_files"

    id: Mapped[SerialId]
    lfn: Mapped[str] = mapped_column(String(500), unique=True)
    output_dataset_id: Mapped[UUID] = mapped_column(ForeignKey("output_datasets.id"))
    block_id: Mapped[UUID | None] = mapped_column(ForeignKey("output_blocks.id"))
    request_no: Mapped[Number]
    work_unit: Mapped[int]
    site: Mapped[str] = mapped_column(String(100))
    size_bytes: Mapped[Number]
    events: Mapped[Number]
    adler32: Mapped[str] = mapped_column(String(8))
    lumis: Mapped[JsonList]
    parents: Mapped[JsonList]
    status: Mapped[str] = mapped_column(String(50), server_default=text("'pending'"))
    created_at: Mapped[Now]

    __table_args__ = (
        ForeignKeyConstraint(["request_no", "work_unit"], ["work_units.request_no", "work_units.number"]),
        one_of("status", OutputFileStatus),
        Index("idx_output_files_dataset", "output_dataset_id", "status"),
        Index("idx_output_files_block", "block_id"),
        Index("idx_output_files_work_unit", "request_no", "work_unit"),
    )
