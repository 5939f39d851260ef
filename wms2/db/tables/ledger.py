"""The ledger: rounds, their work units, and the input files."""

from typing import Any

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    UniqueConstraint,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import INT8RANGE, JSONB, ExcludeConstraint, Range
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import (
    JsonList,
    Moment,
    Now,
    Number,
    SerialId,
    Table,
    Words,
    one_of,
)
from wms2.models.ledger import InputFileState, WorkUnitStatus
from wms2.models.workflow import RoundKind, RoundStatus


class RoundRow(Table):
    __tablename__ = "rounds"

    request_no: Mapped[Number] = mapped_column(ForeignKey("requests.request_no"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(50))
    status: Mapped[str] = mapped_column(String(50), server_default=text("'planned'"))
    snapshot_digest: Mapped[str] = mapped_column(String(64))
    work_units: Mapped[int]
    nodes: Mapped[Number]
    planned_events: Mapped[Number]
    planned_files: Mapped[Number]
    first_event: Mapped[Number | None]
    last_event: Mapped[Number | None]
    submit_host: Mapped[str | None] = mapped_column(String(255))
    created_at: Mapped[Now]
    closed_at: Mapped[Moment | None]
    predicted: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    measured: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    problems: Mapped[JsonList]

    __table_args__ = (
        one_of("kind", RoundKind),
        one_of("status", RoundStatus),
        CheckConstraint("kind <> 'pilot' OR number = 0", name="pilot_first"),
        # A round is never planned while another is open.
        Index(
            "idx_rounds_one_open",
            "request_no",
            unique=True,
            postgresql_where=text("status IN ('planned', 'active')"),
        ),
    )


class WorkUnitRow(Table):
    """A line of the ledger. No event is ever planned twice, not even one of a unit that was abandoned."""

    __tablename__ = "work_units"

    request_no: Mapped[Number] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    round: Mapped[int]
    status: Mapped[str] = mapped_column(String(50), server_default=text("'planned'"))
    reason: Mapped[Words] = mapped_column(server_default=text("''"))
    events: Mapped[Range[int] | None] = mapped_column(INT8RANGE)
    planned_events: Mapped[Number]
    processed_events: Mapped[Number | None]
    produced_events: Mapped[Number | None]
    planned_files: Mapped[int]
    site: Mapped[str | None] = mapped_column(String(100))
    output_digest: Mapped[str | None] = mapped_column(String(64))
    credited_at: Mapped[Moment | None]

    __table_args__ = (
        ForeignKeyConstraint(["request_no", "round"], ["rounds.request_no", "rounds.number"]),
        one_of("status", WorkUnitStatus),
        CheckConstraint(
            "NOT isempty(events) AND NOT lower_inf(events) AND NOT upper_inf(events) AND lower(events) >= 1"
            " AND upper(events) - lower(events) = planned_events",
            name="events",
        ),
        CheckConstraint(
            "processed_events >= 0 AND (events IS NULL OR processed_events <= planned_events)",
            name="processed_events",
        ),
        CheckConstraint("produced_events >= 0", name="produced_events"),
        CheckConstraint(
            "(status = 'produced') = (num_nonnulls(site, output_digest, credited_at, processed_events,"
            " produced_events) = 5)",
            name="credited",
        ),
        CheckConstraint("status <> 'abandoned' OR reason <> ''", name="reason"),
        # The request number as a range, because btree_gist, which could compare it as it is, may be missing.
        ExcludeConstraint(
            (literal_column("int8range(request_no, request_no, '[]')"), "&&"),
            ("events", "&&"),
            using="gist",
            name="work_units_no_event_twice",
        ),
        Index("idx_work_units_round", "request_no", "round", "status"),
    )


class InputFileRow(Table):
    """A file of a request's input; `work_unit` is the last one that it was planned in.

    `read_events` is how many events that unit read of it, where it was to read the whole file and could tell;
    `attempted_in` is the last unit that was given up with it, whatever it was planned in since.
    """

    __tablename__ = "input_files"

    id: Mapped[SerialId]
    request_no: Mapped[Number] = mapped_column(ForeignKey("requests.request_no"))
    lfn: Mapped[str] = mapped_column(String(500))
    state: Mapped[str] = mapped_column(String(50), server_default=text("'available'"))
    events: Mapped[Number]
    size_bytes: Mapped[Number]
    work_unit: Mapped[int | None]
    read_events: Mapped[Number | None]
    attempted_in: Mapped[int | None]
    reason: Mapped[Words] = mapped_column(server_default=text("''"))

    __table_args__ = (
        UniqueConstraint("request_no", "lfn"),
        ForeignKeyConstraint(["request_no", "work_unit"], ["work_units.request_no", "work_units.number"]),
        one_of("state", InputFileState),
        CheckConstraint("state NOT IN ('excluded', 'dropped') OR reason <> ''", name="reason"),
        CheckConstraint("state NOT IN ('planned', 'processed') OR work_unit IS NOT NULL", name="work_unit"),
        CheckConstraint("state <> 'attempted' OR attempted_in IS NOT NULL", name="attempted_in"),
        Index("idx_input_files_state", "request_no", "state"),
        Index("idx_input_files_work_unit", "request_no", "work_unit"),
    )
