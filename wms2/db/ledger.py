"""The ledger's plans: every event and every file is planned once, before anything is submitted.

A round and its work units are recorded in one transaction, or not at all. The database itself refuses event
ranges that overlap, those of abandoned work units included: an event number is used up once it was planned.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    TableValuedAlias,
    Text,
    and_,
    cast,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, Range, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from wms2.db.requests import request_number
from wms2.db.session import RecordConflict
from wms2.db.tables import InputFileRow, RequestRow, RoundRow, SlotRow, WorkflowRow, WorkUnitRow
from wms2.models.ledger import (
    Balance,
    InputFileState,
    PlannedFile,
    PlannedRound,
    PlannedUnit,
    WorkUnitStatus,
)
from wms2.models.request import RequestStatus
from wms2.models.sizing import MeasuredRound
from wms2.models.workflow import Round, RoundStatus

_CONFLICTS = {
    "idx_rounds_one_open": "an earlier round is still open",
    "work_units_no_event_twice": "it plans events that were planned before",
    "work_units_pkey": "it uses numbers of work units again",
}
_TO_BE_PLANNED = (InputFileState.AVAILABLE, InputFileState.ATTEMPTED)
_OPEN = [status for status in RoundStatus if status.is_open]


def record_input_files(session: Session, request_name: str, files: Iterable[PlannedFile]) -> int:
    """Add files of the request's input to be planned later; returns how many are new."""
    number = request_number(session, request_name)
    rows = _table_of([(file.lfn, file.events, file.size_bytes, None) for file in files])
    statement = insert(InputFileRow).from_select(
        ["request_no", "lfn", "events", "size_bytes"],
        select(literal(number, BigInteger), rows.c.lfn, rows.c.events, rows.c.size_bytes),
    )
    statement = statement.on_conflict_do_nothing(index_elements=["request_no", "lfn"])
    return len(session.scalars(statement.returning(InputFileRow.id)).all())


def record_plan(session: Session, plan: PlannedRound) -> bool:
    """Whether the plan is new: planned again from the same snapshot, a round changes nothing.

    Raises RecordConflict for another plan of the same round, for events or files that were planned before,
    and while an earlier round is open.
    """
    number = request_number(session, plan.request_name)
    with _explained(f"round {plan.number} of {plan.request_name} cannot be planned"):
        statement = insert(RoundRow).values(**_round_columns(plan), request_no=number)
        statement = statement.on_conflict_do_nothing(index_elements=["request_no", "number"])
        if session.execute(statement.returning(RoundRow.number)).one_or_none() is None:
            _refuse_another_plan(session, number, plan)
            return False
        session.execute(
            insert(WorkUnitRow), [_unit_columns(number, plan.number, unit) for unit in plan.work_units]
        )
    _take_files(session, number, plan)
    _move_offset(session, plan)
    return True


def record_round_status(session: Session, request_name: str, number: int, status: RoundStatus) -> bool:
    """Whether the status is news. An end is final, and needs an end of each work unit first."""
    request_no = request_number(session, request_name)
    row = session.get(RoundRow, (request_no, number), with_for_update=True, populate_existing=True)
    if row is None:
        raise RecordConflict(f"round {number} of {request_name} was never planned")
    if row.status == status:
        return False
    if row.status not in _OPEN:
        raise RecordConflict(
            f"round {number} of {request_name} has ended as {row.status} and cannot become {status}"
        )
    if status not in _OPEN:
        _refuse_loose_ends(session, row, request_name, status)
        row.closed_at = func.now()
    row.status = status
    session.flush()
    return True


def record_measurement(session: Session, request_name: str, number: int, measured: MeasuredRound) -> None:
    """Keep what was measured in a round."""
    session.execute(
        update(RoundRow)
        .where(RoundRow.request_no == request_number(session, request_name), RoundRow.number == number)
        .values(measured=measured.model_dump(mode="json"))
        .execution_options(synchronize_session=False)
    )


def rounds_of(session: Session, request_name: str) -> list[Round]:
    """The rounds of a request, first to last."""
    query = select(RoundRow).where(RoundRow.request_no == request_number(session, request_name))
    rows = session.scalars(query.order_by(RoundRow.number).execution_options(populate_existing=True))
    return [round_from(row, request_name) for row in rows]


def round_from(row: RoundRow, request_name: str) -> Round:
    columns = Round.model_fields.keys() - {"request_name"}
    return Round.model_validate(
        {"request_name": request_name, **{name: getattr(row, name) for name in columns}}
    )


def requests_on_host(session: Session, host: str) -> list[str]:
    """The requests that have a round open on a submit host, or a slot to plan one there."""
    with_round = select(RoundRow.request_no).where(RoundRow.submit_host == host, RoundRow.status.in_(_OPEN))
    with_slot = select(SlotRow.request_no).where(SlotRow.host == host)
    query = select(RequestRow.request_name).where(
        or_(
            RequestRow.request_no.in_(with_round),
            and_(
                RequestRow.request_no.in_(with_slot),
                RequestRow.status.in_((RequestStatus.QUEUED, RequestStatus.PLANNING)),
            ),
        )
    )
    return list(session.scalars(query.order_by(RequestRow.request_name)))


def input_files(session: Session, request_name: str, state: InputFileState) -> list[PlannedFile]:
    """The files of the request's input in a state, by name."""
    query = (
        select(InputFileRow.lfn, InputFileRow.events, InputFileRow.size_bytes)
        .join(RequestRow, RequestRow.request_no == InputFileRow.request_no)
        .where(RequestRow.request_name == request_name, InputFileRow.state == state)
    )
    return [
        PlannedFile(lfn=lfn, events=events, size_bytes=size)
        for lfn, events, size in session.execute(query.order_by(InputFileRow.lfn))
    ]


def balance(session: Session, request_name: str) -> Balance:
    """The request's ledger in numbers."""
    number = request_number(session, request_name)
    unit, abandoned = WorkUnitRow, WorkUnitRow.status == WorkUnitStatus.ABANDONED
    planned, processed, produced, given_up, left_over = session.execute(
        select(
            _sum(unit.planned_events),
            _sum(unit.processed_events),
            _sum(unit.produced_events),
            _sum(unit.planned_events, abandoned),
            # Of ranges only: a file may hold other than what its catalogue says.
            _sum(unit.planned_events - unit.processed_events, unit.events.is_not(None)),
        ).where(unit.request_no == number)
    ).one()
    return Balance(
        events_planned=int(planned),
        events_processed=int(processed),
        events_produced=int(produced),
        events_abandoned=int(given_up + left_over),
        events_dropped=session.scalar(
            select(WorkflowRow.dropped_events).where(WorkflowRow.request_name == request_name)
        )
        or 0,
        units={
            WorkUnitStatus(status): count for status, count in _counts(session, unit.status, unit, number)
        },
        files={
            InputFileState(state): count
            for state, count in _counts(session, InputFileRow.state, InputFileRow, number)
        },
    )


def _sum(column: Any, *conditions: Any) -> ColumnElement[Any]:
    total = func.sum(column)
    return func.coalesce(total.filter(*conditions) if conditions else total, 0)


def _counts(
    session: Session, state: Any, table: type[WorkUnitRow | InputFileRow], number: int
) -> list[tuple[str, int]]:
    query = select(state, func.count()).where(table.request_no == number).group_by(state)
    return [(state, count) for state, count in session.execute(query)]


def _round_columns(plan: PlannedRound) -> dict[str, Any]:
    ranges = [unit.events for unit in plan.work_units if unit.events is not None]
    return {
        "number": plan.number,
        "kind": plan.kind,
        "snapshot_digest": plan.snapshot_digest,
        "work_units": len(plan.work_units),
        "nodes": plan.nodes,
        "planned_events": sum(unit.planned_events for unit in plan.work_units),
        "planned_files": sum(len(unit.files) for unit in plan.work_units),
        "first_event": min((events.first for events in ranges), default=None),
        "last_event": max((events.last for events in ranges), default=None),
        "submit_host": plan.submit_host,
        "predicted": plan.predicted and plan.predicted.model_dump(mode="json"),
        "problems": list(plan.problems),
    }


def _unit_columns(request_no: int, round_number: int, unit: PlannedUnit) -> dict[str, Any]:
    events = unit.events and Range(unit.events.first, unit.events.last + 1, bounds="[)")
    return {
        "request_no": request_no,
        "number": unit.number,
        "round": round_number,
        "events": events,
        "planned_events": unit.planned_events,
        "planned_files": len(unit.files),
    }


def _refuse_another_plan(session: Session, request_no: int, plan: PlannedRound) -> None:
    known = session.scalars(
        select(RoundRow.snapshot_digest).where(
            RoundRow.request_no == request_no, RoundRow.number == plan.number
        )
    ).one()
    if known != plan.snapshot_digest:
        raise RecordConflict(
            f"round {plan.number} of {plan.request_name} was planned from another snapshot ({known[:12]}, "
            f"now {plan.snapshot_digest[:12]}); the recorded plan holds"
        )


def _take_files(session: Session, request_no: int, plan: PlannedRound) -> None:
    files = [(f.lfn, f.events, f.size_bytes, unit.number) for unit in plan.work_units for f in unit.files]
    rows = _table_of(files)
    statement = insert(InputFileRow).from_select(
        ["request_no", "lfn", "events", "size_bytes", "work_unit", "state"],
        select(literal(request_no, BigInteger), *rows.c, literal(str(InputFileState.PLANNED))),
    )
    statement = statement.on_conflict_do_update(
        index_elements=["request_no", "lfn"],
        # What the catalogue says now: the plan was made from it, and what is read will be held against it.
        set_={name: statement.excluded[name] for name in ("state", "work_unit", "events", "size_bytes")}
        | {"reason": ""},
        where=InputFileRow.state.in_(_TO_BE_PLANNED),
    )
    taken = set(session.scalars(statement.returning(InputFileRow.lfn)))
    if refused := [lfn for lfn, *_ in files if lfn not in taken]:
        raise RecordConflict(
            f"round {plan.number} of {plan.request_name} cannot be planned: {len(refused)} of its files were "
            f"planned before or are excluded, for example {refused[0]}"
        )


def _table_of(files: Sequence[tuple[str, int, int, int | None]]) -> TableValuedAlias:
    """Files as parameters of one statement, however many: 100,000 take seconds instead of a minute."""
    types = {"lfn": Text, "events": BigInteger, "size_bytes": BigInteger, "work_unit": Integer}
    columns = list(zip(*files, strict=True)) or [()] * len(types)
    arrays: list[Any] = [
        cast(list(column), ARRAY(kind)) for column, kind in zip(columns, types.values(), strict=True)
    ]
    return func.unnest(*arrays).table_valued(*types).render_derived("file")


def _move_offset(session: Session, plan: PlannedRound) -> None:
    """Past all that was planned, whatever becomes of it."""
    last = max((unit.events.last for unit in plan.work_units if unit.events is not None), default=0)
    session.execute(
        update(WorkflowRow)
        .where(WorkflowRow.request_name == plan.request_name)
        .values(next_first_event=func.greatest(WorkflowRow.next_first_event, last + 1))
        .execution_options(synchronize_session=False)
    )


def _refuse_loose_ends(session: Session, row: RoundRow, request_name: str, status: RoundStatus) -> None:
    left = (
        [WorkUnitStatus.PLANNED]
        if status == RoundStatus.CLOSED
        else [WorkUnitStatus.PLANNED, WorkUnitStatus.ABANDONED]
    )
    count = session.scalar(
        select(func.count())
        .select_from(WorkUnitRow)
        .where(
            WorkUnitRow.request_no == row.request_no,
            WorkUnitRow.round == row.number,
            WorkUnitRow.status.in_(left),
        )
    )
    if count:
        raise RecordConflict(
            f"round {row.number} of {request_name} cannot become {status}: {count} work units are "
            + " or ".join(left)
        )


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None)
        if constraint not in _CONFLICTS:
            raise
        raise RecordConflict(f"{what}: {_CONFLICTS[constraint]}") from error
