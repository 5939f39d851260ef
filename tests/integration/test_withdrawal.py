"""Plans that nobody will run, in the real database."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from tests.factories import reprocessing, simulation
from tests.integration.test_database import lfn, planned, planned_files, produced
from wms2.core.ledger import discrepancies
from wms2.db import credit, ledger
from wms2.db.crosscheck import cross_check
from wms2.db.dags import record_dag_intent
from wms2.db.failures import files_of_unit
from wms2.db.requests import insert_request, next_first_event
from wms2.db.session import RecordConflict, transaction
from wms2.db.withdrawal import withdraw_plan
from wms2.models.dag import DagIntent
from wms2.models.ledger import InputFileState
from wms2.models.workflow import RoundStatus

pytestmark = pytest.mark.pool


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with transaction(engine) as session:
        insert_request(session, simulation())
        insert_request(session, reprocessing())
        yield session


def close(session: Session) -> None:
    credit.credit_work_unit(session, "simulation", produced(0))
    ledger.record_round_status(session, "simulation", 0, RoundStatus.COMPLETED)


def test_events_and_work_units_of_a_withdrawn_plan_are_planned_again(session: Session) -> None:
    ledger.record_plan(session, planned(0, (1, 100)))
    close(session)
    ledger.record_plan(session, planned(1, (101, 200), (201, 300), first_unit=1))
    assert withdraw_plan(session, "simulation") == 1
    assert next_first_event(session, "simulation") == 101
    assert discrepancies(cross_check(session, "simulation")) == ()
    assert ledger.balance(session, "simulation").events_planned == 100
    # Other work units this time: the jobs have another length.
    assert ledger.record_plan(session, planned(1, (101, 250), first_unit=1))
    assert [round_.number for round_ in ledger.rounds_of(session, "simulation")] == [0, 1]


def test_files_of_a_withdrawn_plan_can_be_planned_or_left_out(session: Session) -> None:
    ledger.record_plan(session, planned_files(0, [0, 1], [2]))
    assert withdraw_plan(session, "reprocessing") == 0
    assert ledger.balance(session, "reprocessing").files == {InputFileState.AVAILABLE: 3}
    assert ledger.record_plan(session, planned_files(0, [0], [2]))


def test_files_of_a_withdrawn_plan_that_were_attempted_before_are_attempted_still(session: Session) -> None:
    ledger.record_plan(session, planned_files(0, [0, 1], [2]))
    for unit in (0, 1):
        credit.abandon_work_unit(session, "reprocessing", unit, "given up")
    ledger.record_round_status(session, "reprocessing", 0, RoundStatus.CLOSED)
    ledger.record_plan(session, planned_files(1, [0, 2], [3], first_unit=2))
    assert withdraw_plan(session, "reprocessing") == 1
    files = {
        state: [file.lfn for file in ledger.input_files(session, "reprocessing", state)]
        for state in (InputFileState.AVAILABLE, InputFileState.ATTEMPTED)
    }
    assert files == {InputFileState.AVAILABLE: [lfn(3)], InputFileState.ATTEMPTED: [lfn(0), lfn(1), lfn(2)]}
    assert discrepancies(cross_check(session, "reprocessing")) == ()
    assert files_of_unit(session, "reprocessing", 0) == [lfn(0), lfn(1)], (
        "so that a drop of the unit finds them"
    )
    assert ledger.record_plan(session, planned_files(1, [3], [0, 1, 2], first_unit=2))


def test_nothing_is_withdrawn_that_ran_or_may_run(session: Session) -> None:
    assert withdraw_plan(session, "simulation") is None, "nothing was planned"
    ledger.record_plan(session, planned(0, (1, 100)))
    close(session)
    assert withdraw_plan(session, "simulation") is None, "it is over"
    ledger.record_plan(session, planned(1, (101, 200), first_unit=1))
    intent = DagIntent(
        dag_id="simulation:1:1", request_name="simulation", round=1, attempt=1,
        dag_file_path="/f/workflow.dag", submit_dir="/f", total_nodes=4,
    )  # fmt: skip
    record_dag_intent(session, intent)
    assert withdraw_plan(session, "simulation") is None, "its DAG may be in the queue"
    with pytest.raises(RecordConflict, match="planned from another snapshot"):
        ledger.record_plan(session, planned(1, (101, 250), first_unit=1))
