"""What failed: nodes of a DAG that gave up, and input files that could not be read."""

from uuid import UUID

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import JsonList, Number, Table, Words


class NodeFailureRow(Table):
    """A node that gave up in a DAG; with an empty name the work unit itself, where no node says why."""

    __tablename__ = "node_failures"

    dag_id: Mapped[UUID] = mapped_column(ForeignKey("dags.id"), primary_key=True)
    work_unit: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    node: Mapped[str] = mapped_column(String(50), primary_key=True)
    cluster: Mapped[Number | None]
    attempts: Mapped[int]
    category: Mapped[str] = mapped_column(String(50))
    exit_code: Mapped[int | None]
    site: Mapped[str | None] = mapped_column(String(100))
    rule: Mapped[str] = mapped_column(String(200))
    confidence: Mapped[str] = mapped_column(String(20))
    message: Mapped[Words]
    bad_input_files: Mapped[JsonList]
    log_tail: Mapped[Words]


class FileFailureRow(Table):
    """An input file that an attempt could not read: the memory by which a file is excluded."""

    __tablename__ = "file_failures"

    request_no: Mapped[Number] = mapped_column(primary_key=True, autoincrement=False)
    work_unit: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    node: Mapped[str] = mapped_column(String(50), primary_key=True)
    cluster: Mapped[Number] = mapped_column(primary_key=True, autoincrement=False)
    lfn: Mapped[str] = mapped_column(String(500), primary_key=True)
    site: Mapped[str | None] = mapped_column(String(100))
    category: Mapped[str] = mapped_column(String(50))
    exit_code: Mapped[int | None]

    __table_args__ = (
        ForeignKeyConstraint(["request_no", "work_unit"], ["work_units.request_no", "work_units.number"]),
        Index("idx_file_failures_lfn", "request_no", "lfn"),
    )
