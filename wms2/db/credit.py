"""How a work unit ends: produced, and then credited once, or abandoned with a reason."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from sqlalchemy import BigInteger, String, any_, cast, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from wms2.db.requests import request_number
from wms2.db.session import RecordConflict
from wms2.db.tables import (
    InputFileRow,
    OutputDatasetRow,
    OutputFileRow,
    RequestRow,
    WorkflowRow,
    WorkUnitRow,
)
from wms2.models.ledger import InputFileState, ProducedUnit, WorkUnitStatus


def credit_work_unit(session: Session, request_name: str, unit: ProducedUnit) -> bool:
    """Whether it is credited only now: unit, input files and pending outputs together.

    Raises RecordConflict for a unit that was credited with another output, was abandoned or never planned.
    """
    row = _locked(session, request_name, unit.number)
    if row.status == WorkUnitStatus.PRODUCED and row.output_digest == unit.output_digest:
        return False
    if row.status != WorkUnitStatus.PLANNED:
        problem = (
            "was abandoned" if row.status == WorkUnitStatus.ABANDONED else "was credited with another output"
        )
        raise RecordConflict(f"work unit {unit.number} of {request_name} {problem} and cannot be credited")
    if row.events is not None and unit.processed_events > row.planned_events:
        raise RecordConflict(
            f"work unit {unit.number} of {request_name} cannot have processed {unit.processed_events} events: "
            f"{row.planned_events} were planned"
        )
    row.status, row.site, row.output_digest = WorkUnitStatus.PRODUCED, unit.site, unit.output_digest
    row.processed_events, row.produced_events = unit.processed_events, unit.produced_events
    row.credited_at = func.now()
    session.flush()
    session.execute(
        update(InputFileRow)
        .where(
            InputFileRow.request_no == row.request_no,
            InputFileRow.work_unit == unit.number,
            InputFileRow.state == InputFileState.PLANNED,
        )
        .values(state=InputFileState.PROCESSED)
        .execution_options(synchronize_session=False)
    )
    _record_reads(session, row, unit)
    _add_outputs(session, request_name, row.request_no, unit)
    return True


def abandon_work_unit(
    session: Session, request_name: str, number: int, reason: str, bad_files: Mapping[str, str] | None = None
) -> bool:
    """Whether it is abandoned only now. Its files can be planned again, except for the bad ones, each with its reason.

    Raises RecordConflict for a unit that was produced or never planned, and for bad files that are not its own.
    """
    row = _locked(session, request_name, number)
    if row.status == WorkUnitStatus.ABANDONED:
        return False
    if row.status == WorkUnitStatus.PRODUCED:
        raise RecordConflict(f"work unit {number} of {request_name} was produced and cannot be abandoned")
    row.status, row.reason = WorkUnitStatus.ABANDONED, reason
    session.flush()
    own = (InputFileRow.request_no == row.request_no, InputFileRow.work_unit == number)
    bad = bad_files or {}
    if strangers := bad.keys() - set(session.scalars(select(InputFileRow.lfn).where(*own))):
        raise RecordConflict(f"work unit {number} of {request_name} does not read {min(strangers)}")
    for lfn, why in sorted(bad.items()):
        session.execute(
            update(InputFileRow)
            .where(*own, InputFileRow.lfn == lfn, InputFileRow.state == InputFileState.PLANNED)
            .values(state=InputFileState.EXCLUDED, reason=why)
            .execution_options(synchronize_session=False)
        )
    session.execute(
        update(InputFileRow)
        .where(*own, InputFileRow.state == InputFileState.PLANNED)
        .values(state=InputFileState.ATTEMPTED, attempted_in=number)
        .execution_options(synchronize_session=False)
    )
    return True


def units_of_round(
    session: Session, request_name: str, round_number: int
) -> dict[WorkUnitStatus, tuple[int, ...]]:
    """The numbers of a round's work units, by status."""
    query = select(WorkUnitRow.number, WorkUnitRow.status).where(
        WorkUnitRow.request_no == request_number(session, request_name), WorkUnitRow.round == round_number
    )
    units = session.execute(query.order_by(WorkUnitRow.number)).all()
    return {status: tuple(number for number, found in units if found == status) for status in WorkUnitStatus}


def credited_units(session: Session, request_name: str, round_number: int) -> set[int]:
    """The numbers of the round's work units that were produced."""
    return set(units_of_round(session, request_name, round_number)[WorkUnitStatus.PRODUCED])


def credited_files(session: Session, lfns: Iterable[str]) -> set[str]:
    """Those of these files that are the output of a work unit, of whichever request."""
    # One parameter however many they are.
    asked = cast(sorted(lfns), ARRAY(String))
    return set(session.scalars(select(OutputFileRow.lfn).where(OutputFileRow.lfn == any_(asked))))


def _locked(session: Session, request_name: str, number: int) -> WorkUnitRow:
    key = (request_number(session, request_name), number)
    row = session.get(WorkUnitRow, key, with_for_update=True, populate_existing=True)
    if row is None:
        raise RecordConflict(f"work unit {number} of {request_name} was never planned")
    return row


def _record_reads(session: Session, row: WorkUnitRow, unit: ProducedUnit) -> None:
    """What was read of each file, where that can be held against the catalogue: all of each was to be read.

    So it is when the unit was planned with all events of its files. Where lumi sections were chosen it was planned
    with fewer, and nobody knows exactly with how many.
    """
    if not unit.files_read:
        return
    own = (InputFileRow.request_no == row.request_no, InputFileRow.work_unit == unit.number)
    if session.scalar(select(func.sum(InputFileRow.events)).where(*own)) != row.planned_events:
        return
    read = func.unnest(
        cast(list(unit.files_read), ARRAY(String)), cast(list(unit.files_read.values()), ARRAY(BigInteger))
    ).table_valued("lfn", "events")
    read = read.render_derived("read")
    session.execute(
        update(InputFileRow)
        .where(*own, InputFileRow.lfn == read.c.lfn)
        .values(read_events=read.c.events)
        .execution_options(synchronize_session=False)
    )


def _add_outputs(session: Session, request_name: str, request_no: int, unit: ProducedUnit) -> None:
    datasets = _datasets(session, request_name, {file.dataset for file in unit.files})
    rows = [
        {
            **file.model_dump(mode="json", exclude={"dataset"}),
            "output_dataset_id": datasets[file.dataset],
            "request_no": request_no,
            "work_unit": unit.number,
            "site": unit.site,
        }
        for file in unit.files
    ]
    try:
        if rows:
            session.execute(insert(OutputFileRow), rows)
    except IntegrityError as error:
        raise RecordConflict(
            f"work unit {unit.number} of {request_name} cannot be credited: one of its output files is known already"
        ) from error


def _datasets(session: Session, request_name: str, names: set[str]) -> dict[str, UUID]:
    """The rows of the datasets, made now where they are missing; only the request's own are taken."""
    workflow_id, outputs = session.execute(
        select(WorkflowRow.id, RequestRow.request_data["outputs"])
        .join(RequestRow, RequestRow.request_name == WorkflowRow.request_name)
        .where(WorkflowRow.request_name == request_name)
    ).one()
    if strangers := names - {output["dataset"] for output in outputs}:
        raise RecordConflict(f"{request_name} does not make the dataset {min(strangers)}")
    rows = [{"workflow_id": workflow_id, "dataset_name": name} for name in sorted(names)]
    if rows:
        columns = ["workflow_id", "dataset_name"]
        session.execute(insert(OutputDatasetRow).on_conflict_do_nothing(index_elements=columns), rows)
    query = select(OutputDatasetRow.dataset_name, OutputDatasetRow.id)
    found = session.execute(query.where(OutputDatasetRow.workflow_id == workflow_id))
    return {row.dataset_name: row.id for row in found}
