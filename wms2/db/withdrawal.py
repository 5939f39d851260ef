"""Plans that nobody will run: recorded, and then nobody heard the planner's answer any more."""

from __future__ import annotations

from sqlalchemy import case, delete, exists, select, update
from sqlalchemy.orm import Session

from wms2.db.requests import request_number
from wms2.db.tables import DagRow, InputFileRow, RoundRow, WorkflowRow, WorkUnitRow
from wms2.models.ledger import InputFileState
from wms2.models.workflow import RoundStatus


def withdraw_plan(session: Session, request_name: str) -> int | None:
    """Take back the plan of a round that was never to be submitted; the number of the round, if there was one.

    To be asked only when the request's workflow knows of no open round. As nothing of the plan ran, its events and
    its files are as if they had never been planned: a file that was attempted before is attempted still. A round that
    has a DAG is left alone: it may run.
    """
    row = _round_without_dags(session, request_no := request_number(session, request_name))
    if row is None:
        return None
    _free_files(session, request_no, row.number)
    if row.first_event is not None:
        session.execute(
            update(WorkflowRow)
            .where(WorkflowRow.request_name == request_name)
            .values(next_first_event=row.first_event)
            .execution_options(synchronize_session=False)
        )
    session.execute(
        delete(WorkUnitRow)
        .where(WorkUnitRow.request_no == request_no, WorkUnitRow.round == row.number)
        .execution_options(synchronize_session=False)
    )
    session.delete(row)
    session.flush()
    return row.number


def _round_without_dags(session: Session, request_no: int) -> RoundRow | None:
    has_dags = exists().where(DagRow.request_no == RoundRow.request_no, DagRow.round == RoundRow.number)
    query = select(RoundRow).where(
        RoundRow.request_no == request_no, RoundRow.status == RoundStatus.PLANNED, ~has_dags
    )
    return session.scalars(query.with_for_update()).one_or_none()


def _free_files(session: Session, request_no: int, round_number: int) -> None:
    units = select(WorkUnitRow.number).where(
        WorkUnitRow.request_no == request_no, WorkUnitRow.round == round_number
    )
    session.execute(
        update(InputFileRow)
        .where(InputFileRow.request_no == request_no, InputFileRow.work_unit.in_(units))
        .values(
            state=case(
                (InputFileRow.attempted_in.is_not(None), InputFileState.ATTEMPTED),
                else_=InputFileState.AVAILABLE,
            ),
            work_unit=InputFileRow.attempted_in,
        )
        .execution_options(synchronize_session=False)
    )
