"""The record of failures and the story of a request, on a real PostgreSQL."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from tests.factories import reprocessing
from wms2.activities.closing import ClosingActivities
from wms2.core.decisions import Policy, RoundEnd, decide, decision_record
from wms2.core.failures import Tally
from wms2.core.ledger import discrepancies
from wms2.db import audit, credit, dags, ledger, requests
from wms2.db.crosscheck import cross_check
from wms2.db.failures import file_failures, left_out_files, record_failures, request_errors, short_files
from wms2.db.overview import request_overview
from wms2.db.session import RecordConflict, transaction
from wms2.db.story import request_story
from wms2.errors import UserError
from wms2.models.audit import Action
from wms2.models.dag import DagIntent, DagStatus, NodeCounts
from wms2.models.failure import DagFailures, FailedNode, FailureSummary, FileFailure
from wms2.models.ledger import InputFileState, PlannedFile, PlannedRound, PlannedUnit, ProducedUnit
from wms2.models.messages import RoundOrder
from wms2.models.request import RequestStatus
from wms2.models.story import EventKind
from wms2.models.workflow import RoundKind, RoundStatus

NAME = "reprocessing"
SITES = ("T1_US_FNAL", "T2_DE_DESY")


def lfn(number: int) -> str:
    return f"/store/data/Run2024A/MinBias/RAW/v1/{number:06d}.root"


def planned(number: int, *units: list[int], first_unit: int = 0, **changes: Any) -> PlannedRound:
    """A round whose units read these files."""
    return PlannedRound(
        request_name=NAME,
        number=number,
        kind=RoundKind.PRODUCTION,
        snapshot_digest=hashlib.sha256(f"{number} {units}".encode()).hexdigest(),
        nodes=len(units) * 4,
        work_units=tuple(
            PlannedUnit(
                number=first_unit + k,
                planned_events=100 * len(files),
                files=tuple(PlannedFile(lfn=lfn(file), events=100, size_bytes=10**9) for file in files),
            )
            for k, files in enumerate(units)
        ),
        **changes,
    )


def dag_of(session: Session, round_: int, attempt: int = 1) -> str:
    dag_id = f"{NAME}:{round_}:{attempt}"
    intent = DagIntent(
        dag_id=dag_id, request_name=NAME, round=round_, attempt=attempt, dag_file_path="/s/workflow.dag",
        submit_dir="/s", total_nodes=8, parent_dag_id=f"{NAME}:{round_}:{attempt - 1}" if attempt > 1 else None,
    )  # fmt: skip
    dags.record_dag_intent(session, intent)
    dags.record_dag_submitted(session, dag_id, 100 * round_ + attempt, "schedd")
    return dag_id


def failures(*nodes: FailedNode, files: tuple[FileFailure, ...] = ()) -> DagFailures:
    tally = Tally()
    for node in nodes:
        tally.add([node])
    summary = FailureSummary(units=2, units_failed=len(nodes), nodes_failed=len(nodes), causes=tally.causes())
    looked_at = tuple(sorted({node.work_unit for node in nodes}))
    return DagFailures(summary=summary, nodes=nodes, files=files, looked_at=looked_at)


def failed(unit: int, node: str = "proc_000000", **changes: Any) -> FailedNode:
    fields: dict[str, Any] = {
        "category": "infrastructure", "exit_code": 8021, "site": SITES[0], "message": "cannot read it",
        "bad_input_files": (lfn(0),), "log_tail": "one\ntwo",
    }  # fmt: skip
    return FailedNode.model_validate({"work_unit": unit, "node": node} | fields | changes)


def unread(unit: int, file: int, site: str, cluster: int = 1, **changes: Any) -> FileFailure:
    fields = {"category": "infrastructure", "exit_code": 8021, "site": site, "node": "proc_000000"}
    return FileFailure.model_validate(
        {"work_unit": unit, "cluster": cluster, "lfn": lfn(file)} | fields | changes
    )


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with transaction(engine) as session:
        requests.insert_request(session, reprocessing(request_name=NAME))
        yield session


def test_failures_are_kept_and_telling_of_them_again_changes_nothing(session: Session) -> None:
    ledger.record_plan(session, planned(0, [0, 1], [2]))
    dag_id = dag_of(session, 0)
    told = failures(failed(0), failed(1, "merge"), files=(unread(0, 0, SITES[0]),))
    for _ in range(2):
        record_failures(session, dag_id, told)
        found = request_errors(session, NAME)
        assert [dag.dag_id for dag in found.dags] == [dag_id]
        assert found.dags[0].nodes == told.nodes
        assert found.dags[0].summary == told.summary
        assert found.files == told.files


def test_many_that_tell_of_the_same_failures_at_once_take_turns(recorded: Engine) -> None:
    """A follower that was given up for dead may still be at it."""
    with transaction(recorded) as session:
        ledger.record_plan(session, planned(0, [0, 1], [2]))
        dag_id = dag_of(session, 0)
    told = failures(failed(0), failed(1), files=(unread(0, 0, SITES[0]),))

    def tell(_: int) -> None:
        with transaction(recorded) as session:
            record_failures(session, dag_id, told)

    with ThreadPoolExecutor(4) as tellers:
        list(tellers.map(tell, range(20)))
    with transaction(recorded) as session:
        found = request_errors(session, NAME)
    assert (found.dags[0].nodes, found.files) == (told.nodes, told.files)


def test_what_is_known_later_replaces_what_was_known_before(session: Session) -> None:
    ledger.record_plan(session, planned(0, [0, 1], [2]))
    dag_id = dag_of(session, 0)
    record_failures(session, dag_id, failures(failed(0), files=(unread(0, 0, SITES[0]),)))
    record_failures(session, dag_id, failures(failed(0, site=SITES[1]), failed(1)))
    found = request_errors(session, NAME)
    assert [node.site for node in found.dags[0].nodes] == [SITES[1], SITES[0]]
    assert found.files == (), "its records no longer blame the file"


def test_each_dag_of_a_round_and_each_round_keeps_its_own_failures(session: Session) -> None:
    ledger.record_plan(session, planned(0, [0, 1]))
    record_failures(session, dag_of(session, 0), failures(failed(0)))
    record_failures(session, dag_of(session, 0, attempt=2), failures(failed(0, category="permanent")))
    credit.abandon_work_unit(session, NAME, 0, "given up")
    ledger.record_round_status(session, NAME, 0, RoundStatus.CLOSED)
    ledger.record_plan(session, planned(1, [0, 1], first_unit=1))
    record_failures(session, dag_of(session, 1), failures(failed(1)))
    assert [dag.dag_id for dag in request_errors(session, NAME).dags] == [
        f"{NAME}:0:1",
        f"{NAME}:0:2",
        f"{NAME}:1:1",
    ]
    assert [dag.dag_id for dag in request_errors(session, NAME, 1).dags] == [f"{NAME}:1:1"]


def test_failures_need_a_dag_and_errors_need_a_request(session: Session) -> None:
    with pytest.raises(RecordConflict, match="no DAG"):
        record_failures(session, "nobody:0:1", failures(failed(0)))
    with pytest.raises(UserError, match="no request"):
        request_errors(session, "nobody")


def test_files_that_are_left_out_are_shown_with_the_reason(session: Session) -> None:
    ledger.record_plan(session, planned(0, [0, 1]))
    credit.abandon_work_unit(session, NAME, 0, "given up", {lfn(1): "corrupt: exit code 8022"})
    assert [(file.lfn, file.state, file.reason) for file in left_out_files(session, NAME)] == [
        (lfn(1), "excluded", "corrupt: exit code 8022")
    ]
    assert request_overview(session, NAME).left_out[0].lfn == lfn(1)


# File states, when a round is closed ---------------------------------------------------------------------


@pytest.fixture
def recorded(engine: Engine) -> Engine:
    with transaction(engine) as session:
        requests.insert_request(session, reprocessing(request_name=NAME))
    return engine


def run_round(engine: Engine, number: int, files: list[int], *seen: FileFailure) -> int:
    """A round of one work unit with these files, which failed in this way."""
    with transaction(engine) as session:
        ledger.record_plan(session, planned(number, files, first_unit=number))
        told = failures(
            failed(number), files=tuple(one.model_copy(update={"work_unit": number}) for one in seen)
        )
        record_failures(session, dag_of(session, number), told)
    return number


async def close(engine: Engine, number: int, tmp_path: Path) -> None:
    """The folder is lost: what decides is in the database."""
    order = RoundOrder(request=NAME, round=number, folder=tmp_path / "lost", reason="released")
    closing = ClosingActivities(engine, 3600)
    first = await closing.close_round(order)
    again = await closing.close_round(order)
    assert first.units_abandoned == again.units_abandoned == 1
    assert first.discrepancies == again.discrepancies == ()


def states(engine: Engine) -> dict[int, InputFileState]:
    with transaction(engine) as session:
        found = [(state, ledger.input_files(session, NAME, state)) for state in InputFileState]
    return {int(file.lfn[-11:-5]): state for state, files in found for file in files}


async def test_a_file_that_cannot_be_read_at_one_site_is_attempted_and_at_a_second_site_excluded(
    recorded: Engine, tmp_path: Path
) -> None:
    await close(recorded, run_round(recorded, 0, [0, 1], unread(0, 0, SITES[0])), tmp_path)
    assert states(recorded) == {0: InputFileState.ATTEMPTED, 1: InputFileState.ATTEMPTED}
    await close(recorded, run_round(recorded, 1, [0, 1], unread(0, 0, SITES[1], exit_code=8028)), tmp_path)
    assert states(recorded) == {0: InputFileState.EXCLUDED, 1: InputFileState.ATTEMPTED}
    with transaction(recorded) as session:
        (excluded,) = left_out_files(session, NAME)
        assert len(file_failures(session, NAME)) == 2
    assert excluded.reason == "could not be read at T1_US_FNAL and T2_DE_DESY: exit code 8021, exit code 8028"


async def test_a_file_that_fails_twice_at_the_same_site_is_attempted_again(
    recorded: Engine, tmp_path: Path
) -> None:
    for number in range(2):
        await close(recorded, run_round(recorded, number, [0], unread(0, 0, SITES[0])), tmp_path)
    assert states(recorded) == {0: InputFileState.ATTEMPTED}


async def test_a_file_whose_corruption_is_confirmed_is_excluded_at_once(
    recorded: Engine, tmp_path: Path
) -> None:
    bad = unread(0, 1, SITES[0], category="data", exit_code=8022)
    await close(recorded, run_round(recorded, 0, [0, 1], bad), tmp_path)
    assert states(recorded) == {0: InputFileState.ATTEMPTED, 1: InputFileState.EXCLUDED}


async def test_a_record_that_blames_a_file_of_another_unit_excludes_nothing(
    recorded: Engine, tmp_path: Path
) -> None:
    stranger = unread(0, 7, SITES[0], category="data", exit_code=8022)
    await close(recorded, run_round(recorded, 0, [0, 1], stranger), tmp_path)
    assert states(recorded) == {0: InputFileState.ATTEMPTED, 1: InputFileState.ATTEMPTED}


# Files that gave fewer events than the catalogue says --------------------------------------------------------


def read(unit: int, **events: int) -> ProducedUnit:
    """What a work unit produced that read so many events of these files."""
    counts = {lfn(int(name[1:])): count for name, count in events.items()}
    processed = sum(counts.values())
    return ProducedUnit(
        number=unit, site=SITES[0], processed_events=processed, produced_events=0,
        output_digest=hashlib.sha256(str(unit).encode()).hexdigest(), files=(), files_read=counts,
    )  # fmt: skip


def short(session: Session) -> list[tuple[str, int, int, int]]:
    return [
        (one.lfn, one.work_unit, one.read_events, one.events) for one in request_errors(session, NAME).short
    ]


def test_a_file_of_which_fewer_events_were_read_than_the_catalogue_says_is_noted(session: Session) -> None:
    ledger.record_plan(session, planned(0, [0, 1], [2]))
    for _ in range(2):
        # Others may hold more: that does not make up for it.
        credit.credit_work_unit(session, NAME, read(0, f0=90, f1=120))
        credit.credit_work_unit(session, NAME, read(1, f2=100))
    assert short(session) == [(lfn(0), 0, 90, 100)]
    assert short_files(session, NAME, 1) == []
    ledger.record_round_status(session, NAME, 0, RoundStatus.COMPLETED)
    assert discrepancies(cross_check(session, NAME)) == ()
    assert ledger.balance(session, NAME).files == {InputFileState.PROCESSED: 3}


def test_where_nobody_knows_how_many_events_were_to_be_read_nothing_is_noted(session: Session) -> None:
    plan = planned(0, [0, 1], [2])
    chosen, untold = plan.work_units
    # Lumi sections of one of the files were chosen: how many events they hold is an estimate.
    chosen = chosen.model_copy(update={"planned_events": 170})
    ledger.record_plan(session, plan.model_copy(update={"work_units": (chosen, untold)}))
    credit.credit_work_unit(session, NAME, read(0, f0=90, f1=60))
    credit.credit_work_unit(session, NAME, read(1))
    assert short(session) == []


def test_what_is_read_is_held_against_the_catalogue_of_the_plan_that_was_made(session: Session) -> None:
    old = PlannedFile(lfn=lfn(0), events=120, size_bytes=1)
    ledger.record_input_files(session, NAME, [old])
    ledger.record_plan(session, planned(0, [0]))
    credit.credit_work_unit(session, NAME, read(0, f0=90))
    assert short(session) == [(lfn(0), 0, 90, 100)]


async def test_people_are_told_of_short_files_when_the_round_is_closed(
    recorded: Engine, tmp_path: Path
) -> None:
    with transaction(recorded) as session:
        ledger.record_plan(session, planned(0, [0, 1], [2]))
        credit.credit_work_unit(session, NAME, read(0, f0=90, f1=95))
    await close(recorded, 0, tmp_path)
    with transaction(recorded) as session:
        told = [event.why for event in request_story(session, NAME) if event.what == "alert: short_input"]
    assert told == [
        f"2 input files of round 0 gave 15 events fewer than the catalogue says, for example {lfn(0)} (90 of 100); "
        "`wms2 request errors` lists them"
    ]


# The story -----------------------------------------------------------------------------------------------


def test_the_story_tells_every_decision_with_its_rule_and_its_inputs_in_order(engine: Engine) -> None:
    steps: list[Any] = []

    def step(function: Any, *words: Any) -> None:
        with transaction(engine) as session:
            steps.append(function(session, *words))

    step(requests.insert_request, reprocessing(request_name=NAME))
    step(requests.record_status, NAME, RequestStatus.SUBMITTED, 1, "wms2", "")
    step(ledger.record_plan, planned(0, [0], [1], problems=("2 files have no location",)))
    step(dag_of, 0)
    step(record_failures, f"{NAME}:0:1", failures(failed(0)))
    step(dags.record_dag_status, f"{NAME}:0:1", DagStatus.PARTIAL, NodeCounts(done=4, failed=1))
    end, policy = (
        RoundEnd(units=2, units_failed=1, causes="1 infrastructure"),
        Policy(hold_threshold=0.2, max_rescues=3),
    )
    decision = decide(end, policy)
    for _ in range(2):
        step(audit.record_action, decision_record(f"{NAME}:0:1", NAME, end, policy, decision))
    assert steps[-2:] == [True, False], "recorded once"
    step(requests.record_status, NAME, RequestStatus.HELD, 2, "wms2", decision.reason)
    step(
        audit.record_action,
        Action(action_id="a1", actor="ann", action="release", request_name=NAME, reason="go on"),
    )
    with transaction(engine) as session:
        story = request_story(session, NAME)
    assert [event.kind for event in story] == [
        EventKind.STATUS, EventKind.PLAN, EventKind.DAG, EventKind.DAG, EventKind.DECISION, EventKind.STATUS,
        EventKind.ACTION,
    ]  # fmt: skip
    plan, ended, decided, held, released = story[1], story[3], story[4], story[5], story[6]
    assert plan.why == "2 files have no location"
    assert ended.why == "1 infrastructure at T1_US_FNAL (8021)"
    assert decided.what == (
        "hold: at or above the threshold (1 of 2 work units failed, threshold 20%, rescues 0 of 3)"
    )
    assert decided.detail["end"]["units_failed"] == 1
    assert held.why == "1 of 2 work units failed, the limit is 20%: 1 infrastructure"
    assert (released.actor, released.what, released.why) == ("ann", "release", "go on")
