"""The database on a real PostgreSQL: migrations, idempotent records, and the ledger's constraint."""

import hashlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tests.factories import reprocessing, simulation
from wms2.core.ledger import discrepancies
from wms2.db import audit, credit, dags, ledger, migrate, requests
from wms2.db.crosscheck import cross_check
from wms2.db.session import RecordConflict, transaction
from wms2.db.tables import RequestRow
from wms2.errors import UserError
from wms2.models.audit import Action
from wms2.models.base import LARGEST_EVENT
from wms2.models.dag import DagIntent, DagStatus, NodeCounts
from wms2.models.ledger import (
    EventRange,
    InputFileState,
    PlannedFile,
    PlannedRound,
    PlannedUnit,
    ProducedUnit,
    WorkUnitStatus,
)
from wms2.models.output import ProducedFile
from wms2.models.request import RequestStatus
from wms2.models.workflow import RoundKind, RoundStatus
from wms2.temporal.retries import RECORD


def digest(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    """One transaction for the whole test; tests of several transactions take the engine instead."""
    with transaction(engine) as session:
        yield session


def planned(
    number: int, *ranges: tuple[int, int], request: str = "simulation", first_unit: int = 0
) -> PlannedRound:
    units = tuple(
        PlannedUnit(
            number=first_unit + k,
            events=EventRange(first=first, last=last),
            planned_events=last - first + 1,
        )
        for k, (first, last) in enumerate(ranges)
    )
    return PlannedRound(
        request_name=request,
        number=number,
        kind=RoundKind.PILOT if number == 0 else RoundKind.PRODUCTION,
        snapshot_digest=digest(f"{request} {number} {ranges}"),
        nodes=len(units) * 4,
        work_units=units,
    )


def planned_files(number: int, *units: list[int], first_unit: int = 0) -> PlannedRound:
    return PlannedRound(
        request_name="reprocessing",
        number=number,
        kind=RoundKind.PRODUCTION,
        snapshot_digest=digest(f"files {number} {units}"),
        nodes=len(units) * 4,
        work_units=tuple(
            PlannedUnit(
                number=first_unit + k, planned_events=100 * len(files), files=tuple(map(input_file, files))
            )
            for k, files in enumerate(units)
        ),
    )


def lfn(number: int) -> str:
    return f"/store/data/Run2024A/MinBias/RAW/v1/{number:06d}.root"


def input_file(number: int) -> PlannedFile:
    return PlannedFile(lfn=lfn(number), events=100, size_bytes=10**9)


def produced(number: int, events: int = 100, attempt: int = 1, dataset: str | None = None) -> ProducedUnit:
    dataset = dataset or "/MinBias/Run2024A-Test-v1/GEN-SIM"
    return ProducedUnit(
        number=number,
        site="T2_US_Purdue",
        processed_events=events,
        produced_events=events,
        output_digest=digest(f"output {number} {attempt}"),
        files=(
            ProducedFile(
                lfn=f"/store/mc/Run2024A/MinBias/GEN-SIM/Test-v1/{number:06d}/{attempt}.root",
                dataset=dataset,
                size_bytes=1000,
                events=events,
                adler32="0a1b2c3d",
            ),
        ),
    )


def produced_reco(number: int, events: int) -> ProducedUnit:
    return produced(number, events, dataset="/MinBias/Run2024A-Test-v1/RECO")


def intent(attempt: int = 1, **changes: Any) -> DagIntent:
    fields: dict[str, Any] = {
        "dag_id": f"simulation-0-{attempt}",
        "request_name": "simulation",
        "round": 0,
        "attempt": attempt,
        "dag_file_path": "/submit/simulation/round_00/workflow.dag",
        "submit_dir": "/submit/simulation/round_00",
        "total_nodes": 4,
        "node_counts": {"Processing": 2, "Merge": 1},
    }
    return DagIntent.model_validate(fields | changes)


# Migrations


def created_in(engine: Engine) -> list[tuple[Any, ...]]:
    """Columns, constraints and indexes as PostgreSQL itself describes them."""
    with engine.connect() as connection:
        return [
            tuple(row)
            for query in (
                "SELECT table_name, column_name, data_type, character_maximum_length, column_default, is_nullable,"
                " is_identity FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
                "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
                " WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
                "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2",
            )
            for row in connection.execute(text(query))
            if "alembic_version" not in row[0]
        ]


def emptied(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))


def test_the_migrations_make_exactly_the_tables_that_the_code_uses(engine: Engine) -> None:
    options = {"compare_type": True, "compare_server_default": True}
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, RequestRow.metadata) == []
    migrated = created_in(engine)
    emptied(engine)
    RequestRow.metadata.create_all(engine)
    assert created_in(engine) == migrated


def test_who_waits_for_a_lock_or_holds_one_idly_is_ended_before_the_activity_that_waits(
    session: Session,
) -> None:
    limits = [
        session.scalar(text(f"SHOW {name}"))
        for name in ("lock_timeout", "idle_in_transaction_session_timeout")
    ]
    assert limits == ["20s", "1min"]
    assert RECORD["start_to_close_timeout"] >= timedelta(seconds=60)


def test_upgrading_an_upgraded_database_changes_nothing(database_url: str, engine: Engine) -> None:
    before = created_in(engine)
    migrate.upgrade(database_url)
    assert created_in(engine) == before


def test_several_processes_can_upgrade_an_empty_database_at_once(database_url: str, engine: Engine) -> None:
    before = created_in(engine)
    emptied(engine)
    failures: list[BaseException] = []

    def upgrade() -> None:
        try:
            migrate.upgrade(database_url)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert created_in(engine) == before


@pytest.mark.parametrize(
    "url", ["postgresql://nobody@127.0.0.1:1/none", "mysql://host/database", "no url at all", "sqlite://"]
)
def test_a_database_that_cannot_be_used_is_one_sentence(url: str) -> None:
    with pytest.raises(UserError) as error:
        migrate.upgrade(url)
    assert "\n" not in str(error.value)


# Requests and their statuses


def test_a_request_comes_back_from_the_database_as_it_went_in(session: Session) -> None:
    request = simulation(priority=7, job_attributes={"Colour": "blue"}, site_whitelist=["T2_US_Purdue"])
    requests.insert_request(session, request, RequestStatus.SUBMITTED)
    record = requests.request_record(session, "simulation")
    assert record.request == request
    assert (record.status, record.status_sequence, record.priority) == (RequestStatus.SUBMITTED, 0, 7)
    assert record.request_no >= 1


def test_a_second_request_of_the_same_name_is_refused(engine: Engine) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
    with (
        pytest.raises(RecordConflict, match="named simulation exists already"),
        transaction(engine) as session,
    ):
        requests.insert_request(session, simulation(priority=1))
    with transaction(engine) as session:
        assert requests.request_record(session, "simulation").priority == 100_000


def test_a_request_can_replace_only_one_that_exists(session: Session) -> None:
    with pytest.raises(RecordConflict, match="there is no such request"):
        requests.insert_request(session, simulation(previous_version_request="older"))
    requests.insert_request(session, simulation(request_name="older"))
    requests.insert_request(session, simulation(previous_version_request="older"))


def test_a_request_that_does_not_exist_is_one_sentence(session: Session) -> None:
    with pytest.raises(UserError, match="no request named nothing"):
        requests.request_record(session, "nothing")


def test_a_status_applies_only_with_a_higher_sequence_number(session: Session) -> None:
    requests.insert_request(session, simulation())

    def record(status: RequestStatus, sequence: int) -> bool:
        return requests.record_status(session, "simulation", status, sequence, "worker", f"number {sequence}")

    assert record(RequestStatus.SUBMITTED, 1)
    assert record(RequestStatus.ACTIVE, 5)
    assert not record(RequestStatus.QUEUED, 5)
    assert not record(RequestStatus.QUEUED, 2)
    assert record(RequestStatus.HELD, 6)
    known = requests.request_record(session, "simulation")
    assert (known.status, known.status_sequence, known.status_reason) == (RequestStatus.HELD, 6, "number 6")
    changes = [(change.from_status, change.to_status, change.sequence) for change in known.status_transitions]
    assert changes == [(None, "submitted", 1), ("submitted", "active", 5), ("active", "held", 6)]
    assert session.scalar(text("SELECT status FROM workflows")) == "held"


def test_requests_are_listed_by_priority_and_then_by_age(session: Session) -> None:
    for name, priority in (("first", 5), ("second", 9), ("third", 5)):
        requests.insert_request(session, simulation(request_name=name, priority=priority))
    requests.record_status(session, "third", RequestStatus.HELD, 1, "worker")
    assert [line.request_name for line in requests.list_requests(session)] == ["second", "first", "third"]
    held = requests.list_requests(session, [RequestStatus.HELD])
    assert [line.request_name for line in held] == ["third"]
    assert requests.list_requests(session, campaign="another") == []


# Plans


def test_planning_a_round_again_from_the_same_snapshot_changes_nothing(engine: Engine) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        assert ledger.record_plan(session, planned(0, (1, 100), (101, 250)))
    with transaction(engine) as session:
        assert not ledger.record_plan(session, planned(0, (1, 100), (101, 250)))
    with transaction(engine) as session:
        (known,) = ledger.rounds_of(session, "simulation")
        assert (known.work_units, known.planned_events, known.first_event, known.last_event) == (
            2,
            250,
            1,
            250,
        )
        assert session.scalar(text("SELECT next_first_event FROM workflows")) == 251


def test_another_plan_of_the_same_round_is_refused(session: Session) -> None:
    requests.insert_request(session, simulation())
    ledger.record_plan(session, planned(0, (1, 100)))
    with pytest.raises(RecordConflict, match="another snapshot"):
        ledger.record_plan(session, planned(0, (1, 200)))


def test_a_round_is_not_planned_while_another_is_open(engine: Engine) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        ledger.record_plan(session, planned(0, (1, 100)))
    with pytest.raises(RecordConflict, match="still open"), transaction(engine) as session:
        ledger.record_plan(session, planned(1, (101, 200), first_unit=1))


def closed_round(session: Session, plan: PlannedRound) -> None:
    ledger.record_plan(session, plan)
    for unit in plan.work_units:
        credit.abandon_work_unit(session, plan.request_name, unit.number, "a test")
    ledger.record_round_status(session, plan.request_name, plan.number, RoundStatus.CLOSED)


def test_events_of_an_abandoned_work_unit_are_never_planned_again(engine: Engine) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        closed_round(session, planned(0, (1, 100)))
    overlapping = planned(1, (101, 200), (100, 100), first_unit=1)
    with (
        pytest.raises(RecordConflict, match="events that were planned before"),
        transaction(engine) as session,
    ):
        ledger.record_plan(session, overlapping)
    with transaction(engine) as session:
        assert len(ledger.rounds_of(session, "simulation")) == 1, "a refused plan leaves nothing behind"


def test_two_requests_may_have_the_same_event_numbers(session: Session) -> None:
    for name in ("simulation", "another"):
        requests.insert_request(session, simulation(request_name=name))
        assert ledger.record_plan(session, planned(0, (1, 100), request=name))


def test_event_numbers_reach_to_the_end_of_64_bits(session: Session) -> None:
    requests.insert_request(session, simulation())
    ledger.record_plan(session, planned(0, (LARGEST_EVENT - 9, LARGEST_EVENT)))
    assert ledger.balance(session, "simulation").events_planned == 10


def test_the_number_of_a_work_unit_is_never_used_again(engine: Engine) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        closed_round(session, planned(0, (1, 100)))
    with pytest.raises(RecordConflict, match="numbers of work units again"), transaction(engine) as session:
        ledger.record_plan(session, planned(1, (101, 200), first_unit=0))


RANGES = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 15)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plans=RANGES)
def test_the_database_refuses_exactly_the_overlapping_ranges(
    engine: Engine, plans: list[tuple[int, int]]
) -> None:
    name = f"simulation_{uuid4().hex}"
    taken: set[int] = set()
    with transaction(engine) as session:
        requests.insert_request(session, simulation(request_name=name))
    for k, (first, length) in enumerate(plans):
        wanted = set(range(first, first + length + 1))
        plan = planned(k, (first, first + length), request=name, first_unit=k)
        try:
            with transaction(engine) as session:
                closed_round(session, plan)
            accepted = True
        except RecordConflict:
            accepted = False
        assert accepted == taken.isdisjoint(wanted)
        taken |= wanted if accepted else set()
    with transaction(engine) as session:
        assert ledger.balance(session, name).events_abandoned == len(taken)


@pytest.mark.parametrize("events", ["empty", "[0,5)", "[1,)", "(,5)", "[1,7)"])
def test_a_range_that_is_none_or_has_another_size_than_planned_is_refused(
    engine: Engine, events: str
) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        ledger.record_plan(session, planned(0, (100, 104)))
    with pytest.raises(IntegrityError), transaction(engine) as session:
        session.execute(text("UPDATE work_units SET events = CAST(:events AS int8range)"), {"events": events})


# Credit


@pytest.fixture
def simulated(session: Session) -> Session:
    requests.insert_request(session, simulation())
    ledger.record_plan(session, planned(0, (1, 100), (101, 200), (201, 300)))
    return session


def test_a_work_unit_is_credited_once_however_often_it_is_reported(simulated: Session) -> None:
    assert credit.credit_work_unit(simulated, "simulation", produced(1))
    assert not credit.credit_work_unit(simulated, "simulation", produced(1))
    assert credit.credited_units(simulated, "simulation", 0) == {1}
    assert simulated.scalar(text("SELECT count(*) FROM output_files WHERE status = 'pending'")) == 1
    assert simulated.scalar(text("SELECT count(*) FROM output_datasets WHERE status = 'pending'")) == 1
    assert ledger.balance(simulated, "simulation").events_produced == 100


def test_a_work_unit_that_was_credited_with_another_output_is_refused(simulated: Session) -> None:
    credit.credit_work_unit(simulated, "simulation", produced(1))
    with pytest.raises(RecordConflict, match="another output"):
        credit.credit_work_unit(simulated, "simulation", produced(1, attempt=2))


def test_many_workers_crediting_the_same_unit_credit_it_once(engine: Engine) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        ledger.record_plan(session, planned(0, (1, 100)))
    answers: list[bool] = []

    def work() -> None:
        with transaction(engine) as session:
            answers.append(credit.credit_work_unit(session, "simulation", produced(0)))

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, False, False, True]


def test_a_credit_that_fails_half_way_leaves_nothing_behind(engine: Engine) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        ledger.record_plan(session, planned(0, (1, 100), (101, 200)))
        credit.credit_work_unit(session, "simulation", produced(0))
    same_file = produced(1).model_copy(update={"files": produced(0).files})
    with pytest.raises(RecordConflict, match="known already"), transaction(engine) as session:
        credit.credit_work_unit(session, "simulation", same_file)
    with transaction(engine) as session:
        assert credit.credited_units(session, "simulation", 0) == {0}


def test_a_dataset_that_the_request_does_not_make_is_refused(simulated: Session) -> None:
    with pytest.raises(RecordConflict, match="does not make the dataset"):
        credit.credit_work_unit(
            simulated, "simulation", produced(1, dataset="/Other/Run2024A-Test-v1/GEN-SIM")
        )


def test_what_a_pilot_leaves_of_its_range_counts_as_abandoned(simulated: Session) -> None:
    credit.credit_work_unit(simulated, "simulation", produced(0, events=70))
    balance = ledger.balance(simulated, "simulation")
    assert (balance.events_planned, balance.events_processed, balance.events_abandoned) == (300, 70, 30)


def test_a_unit_cannot_have_processed_more_events_than_its_range_has(simulated: Session) -> None:
    with pytest.raises(RecordConflict, match="100 were planned"):
        credit.credit_work_unit(simulated, "simulation", produced(0, events=101))


def test_an_abandoned_unit_is_not_credited_and_a_produced_one_not_abandoned(simulated: Session) -> None:
    assert credit.abandon_work_unit(simulated, "simulation", 0, "no site left")
    assert not credit.abandon_work_unit(simulated, "simulation", 0, "no site left")
    with pytest.raises(RecordConflict, match="was abandoned"):
        credit.credit_work_unit(simulated, "simulation", produced(0))
    credit.credit_work_unit(simulated, "simulation", produced(1))
    with pytest.raises(RecordConflict, match="was produced"):
        credit.abandon_work_unit(simulated, "simulation", 1, "too late")
    with pytest.raises(RecordConflict, match="never planned"):
        credit.credit_work_unit(simulated, "simulation", produced(17))


def test_a_round_ends_only_when_each_of_its_units_has_ended(simulated: Session) -> None:
    assert ledger.record_round_status(simulated, "simulation", 0, RoundStatus.ACTIVE)
    assert not ledger.record_round_status(simulated, "simulation", 0, RoundStatus.ACTIVE)
    with pytest.raises(RecordConflict, match="3 work units are planned"):
        ledger.record_round_status(simulated, "simulation", 0, RoundStatus.CLOSED)
    credit.credit_work_unit(simulated, "simulation", produced(0))
    credit.credit_work_unit(simulated, "simulation", produced(1))
    credit.abandon_work_unit(simulated, "simulation", 2, "released")
    with pytest.raises(RecordConflict, match="1 work units are planned or abandoned"):
        ledger.record_round_status(simulated, "simulation", 0, RoundStatus.COMPLETED)
    assert ledger.record_round_status(simulated, "simulation", 0, RoundStatus.CLOSED)
    with pytest.raises(RecordConflict, match="has ended as closed"):
        ledger.record_round_status(simulated, "simulation", 0, RoundStatus.ACTIVE)


# Input files


@pytest.fixture
def selected(session: Session) -> Session:
    requests.insert_request(session, reprocessing())
    assert ledger.record_input_files(session, "reprocessing", map(input_file, range(6))) == 6
    assert ledger.record_input_files(session, "reprocessing", map(input_file, range(7))) == 1
    return session


def states(session: Session) -> dict[InputFileState, list[int]]:
    found = {state: ledger.input_files(session, "reprocessing", state) for state in InputFileState}
    return {state: [int(file.lfn[-11:-5]) for file in files] for state, files in found.items() if files}


def test_each_file_of_the_input_is_in_exactly_one_state(selected: Session) -> None:
    ledger.record_plan(selected, planned_files(1, [0, 1], [2, 3]))
    assert states(selected) == {InputFileState.PLANNED: [0, 1, 2, 3], InputFileState.AVAILABLE: [4, 5, 6]}
    credit.credit_work_unit(selected, "reprocessing", produced_reco(0, 200))
    credit.abandon_work_unit(selected, "reprocessing", 1, "given up", bad_files={lfn(3): "corrupt"})
    ledger.record_round_status(selected, "reprocessing", 1, RoundStatus.CLOSED)
    assert states(selected) == {
        InputFileState.PROCESSED: [0, 1],
        InputFileState.ATTEMPTED: [2],
        InputFileState.EXCLUDED: [3],
        InputFileState.AVAILABLE: [4, 5, 6],
    }
    ledger.record_plan(selected, planned_files(2, [4, 5, 6, 2], first_unit=2))
    assert sum(ledger.balance(selected, "reprocessing").files.values()) == 7
    assert states(selected)[InputFileState.PLANNED] == [2, 4, 5, 6]


@pytest.mark.parametrize("file", [0, 3], ids=["processed", "excluded"])
def test_a_file_that_was_processed_or_excluded_is_never_planned_again(selected: Session, file: int) -> None:
    ledger.record_plan(selected, planned_files(1, [0, 1], [2, 3]))
    credit.credit_work_unit(selected, "reprocessing", produced_reco(0, 200))
    credit.abandon_work_unit(selected, "reprocessing", 1, "given up", bad_files={lfn(3): "corrupt"})
    ledger.record_round_status(selected, "reprocessing", 1, RoundStatus.CLOSED)
    with pytest.raises(RecordConflict, match=lfn(file)):
        ledger.record_plan(selected, planned_files(2, [4, file], first_unit=2))


def test_a_bad_file_must_be_one_of_the_work_unit(selected: Session) -> None:
    ledger.record_plan(selected, planned_files(1, [0, 1], [2, 3]))
    with pytest.raises(RecordConflict, match="does not read"):
        credit.abandon_work_unit(selected, "reprocessing", 1, "given up", bad_files={lfn(0): "corrupt"})


def test_a_file_may_hold_more_events_than_its_catalogue_says(selected: Session) -> None:
    ledger.record_plan(selected, planned_files(1, [0, 1]))
    assert credit.credit_work_unit(selected, "reprocessing", produced_reco(0, 205))
    assert ledger.balance(selected, "reprocessing").events_abandoned == 0


# DAGs


def test_the_intent_of_a_dag_is_recorded_once(simulated: Session) -> None:
    first = dags.record_dag_intent(simulated, intent())
    assert dags.record_dag_intent(simulated, intent()) == first
    assert (first.status, first.dagman_cluster_id) == (DagStatus.READY, None)
    with pytest.raises(RecordConflict, match="belongs to another DAG"):
        dags.record_dag_intent(simulated, intent(submit_dir="/elsewhere"))


def test_an_attempt_of_a_round_has_one_dag(engine: Engine) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        ledger.record_plan(session, planned(0, (1, 100)))
        dags.record_dag_intent(session, intent())
    with pytest.raises(RecordConflict, match="another id already"), transaction(engine) as session:
        dags.record_dag_intent(session, intent(dag_id="another"))
    with pytest.raises(RecordConflict, match="was not planned"), transaction(engine) as session:
        dags.record_dag_intent(session, intent(dag_id="another", round=3))


def test_a_dag_is_submitted_as_one_cluster_only(simulated: Session) -> None:
    dags.record_dag_intent(simulated, intent())
    assert dags.record_dag_submitted(simulated, "simulation-0-1", 17, "schedd")
    assert not dags.record_dag_submitted(simulated, "simulation-0-1", 17, "schedd")
    with pytest.raises(RecordConflict, match="was submitted as 17"):
        dags.record_dag_submitted(simulated, "simulation-0-1", 18, "schedd")
    dag = dags.dag_by_id(simulated, "simulation-0-1")
    assert (dag.status, dag.dagman_cluster_id, dag.schedd_name) == (DagStatus.SUBMITTED, 17, "schedd")


def test_late_news_do_not_change_how_a_dag_ended(simulated: Session) -> None:
    dags.record_dag_intent(simulated, intent())
    dags.record_dag_submitted(simulated, "simulation-0-1", 17, "schedd")
    assert dags.record_dag_status(simulated, "simulation-0-1", DagStatus.RUNNING, NodeCounts(running=2))
    assert dags.record_dag_status(
        simulated, "simulation-0-1", DagStatus.RUNNING, NodeCounts(running=1, done=1)
    )
    ended = NodeCounts(done=3, failed=1)
    assert dags.record_dag_status(
        simulated, "simulation-0-1", DagStatus.PARTIAL, ended, "workflow.dag.rescue001"
    )
    assert not dags.record_dag_status(simulated, "simulation-0-1", DagStatus.RUNNING, NodeCounts(running=1))
    dag = dags.dag_by_id(simulated, "simulation-0-1")
    assert (dag.status, dag.nodes, dag.rescue_dag_path) == (
        DagStatus.PARTIAL,
        ended,
        "workflow.dag.rescue001",
    )
    told = [(entry.event_type, entry.to_status) for entry in dags.dag_history(simulated, "simulation-0-1")]
    assert told == [
        ("intent", "ready"),
        ("submitted", "submitted"),
        ("status", "running"),
        ("status", "partial"),
    ]


def test_a_rescue_knows_the_dag_it_continues(simulated: Session) -> None:
    dags.record_dag_intent(simulated, intent())
    assert dags.record_dag_stop(simulated, "simulation-0-1", "the host is drained")
    assert not dags.record_dag_stop(simulated, "simulation-0-1", "again")
    dags.record_dag_status(simulated, "simulation-0-1", DagStatus.STOPPED, NodeCounts())
    dags.record_dag_intent(simulated, intent(2, parent_dag_id="simulation-0-1"))
    first, second = dags.dags_of_round(simulated, "simulation", 0)
    assert (first.stop_reason, second.intent.parent_dag_id) == ("the host is drained", first.intent.dag_id)
    assert [dag.intent.attempt for dag in dags.list_dags(simulated, [DagStatus.STOPPED])] == [1]
    assert len(dags.list_dags(simulated)) == 2


def test_a_dag_that_does_not_exist_is_one_sentence(session: Session) -> None:
    with pytest.raises(UserError, match="no DAG with the id nothing"):
        dags.dag_by_id(session, "nothing")


# Audit


def test_an_action_is_told_once(session: Session) -> None:
    action = Action(
        action_id="a1", actor="operator", action="release", request_name="simulation", reason="fixed"
    )
    assert audit.record_action(session, action)
    assert not audit.record_action(session, action)
    with pytest.raises(RecordConflict, match="used for something else"):
        audit.record_action(session, action.model_copy(update={"action": "fail"}))
    audit.record_action(session, Action(action_id="a2", actor="operator", action="ban", request_name=None))
    assert [entry.action.action_id for entry in audit.audit_trail(session)] == ["a2", "a1"]
    assert [entry.action for entry in audit.audit_trail(session, "simulation")] == [action]


def test_the_units_of_a_request_are_counted_by_status(simulated: Session) -> None:
    credit.credit_work_unit(simulated, "simulation", produced(0))
    credit.abandon_work_unit(simulated, "simulation", 1, "no site left")
    assert ledger.balance(simulated, "simulation").units == dict.fromkeys(WorkUnitStatus, 1)


# Everything counted twice


def ended(session: Session) -> None:
    """A round of three units: two produced, one given up."""
    for number in (0, 1):
        credit.credit_work_unit(session, "simulation", produced(number))
    credit.abandon_work_unit(session, "simulation", 2, "a test")
    ledger.record_round_status(session, "simulation", 0, RoundStatus.CLOSED)


def test_a_ledger_that_was_only_written_through_its_functions_adds_up(simulated: Session) -> None:
    ended(simulated)
    check = cross_check(simulated, "simulation")
    assert discrepancies(check) == ()
    assert (check.offset, check.units, check.units_without_end) == (300, 3, 0)


def test_a_ledger_that_begins_at_a_later_event_adds_up(session: Session) -> None:
    requests.insert_request(session, simulation(request_name="extension", first_event=1001))
    assert requests.next_first_event(session, "extension") == 1001
    assert discrepancies(cross_check(session, "extension")) == ()


def test_the_ledger_of_files_adds_up(selected: Session) -> None:
    ledger.record_plan(selected, planned_files(0, [0, 1], [2]))
    credit.credit_work_unit(selected, "reprocessing", produced_reco(0, 30))
    credit.abandon_work_unit(selected, "reprocessing", 1, "a test")
    check = cross_check(selected, "reprocessing")
    assert discrepancies(check) == ()
    assert check.offset is None
    assert check.files_processed == check.files_of_produced_units == 2


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE workflows SET next_first_event = 300", "299 event numbers used up, 300 planned"),
        ("DELETE FROM output_files WHERE work_unit = 0", "1 work units unlike their output files"),
        ("UPDATE output_files SET events = 99", "2 work units unlike their output files"),
        ("UPDATE work_units SET produced_events = 50 WHERE number = 1", "1 work units unlike"),
        ("UPDATE rounds SET planned_events = 200", "300 events planned in work units, 200 in rounds"),
        ("DELETE FROM work_units WHERE number = 2", "2 work units recorded, 3 in rounds"),
        ("UPDATE work_units SET status = 'planned' WHERE number = 2", "1 work units neither produced nor"),
    ],
)
def test_whatever_was_changed_by_hand_shows(simulated: Session, statement: str, words: str) -> None:
    ended(simulated)
    simulated.execute(text(statement))
    assert any(found.startswith(words) for found in discrepancies(cross_check(simulated, "simulation")))


def test_an_action_that_speaks_of_what_no_database_keeps_is_recorded_all_the_same(session: Session) -> None:
    told = Action(action_id="one", actor="operator", action="hold", reason="a\0b", detail={"said": ["c\0"]})
    assert audit.record_action(session, told)
    assert not audit.record_action(session, told)
    (entry,) = audit.audit_trail(session)
    assert (entry.action.reason, entry.action.detail) == ("a\ufffdb", {"said": ["c\ufffd"]})
