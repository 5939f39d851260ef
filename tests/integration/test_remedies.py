"""What people take out of a request or replace, on a real PostgreSQL: once, exactly, and with who did it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from tests.factories import reprocessing, simulation
from tests.integration.test_database import lfn, planned, planned_files, produced, produced_reco
from wms2.activities.endings import EndingActivities
from wms2.core.blocks import BlockLimits
from wms2.core.ledger import discrepancies
from wms2.core.rounds import events_left, next_round
from wms2.db import bans, blocks, credit, drops, ledger, requests, versions
from wms2.db.audit import audit_trail
from wms2.db.crosscheck import cross_check
from wms2.db.invalidation import written_manifest
from wms2.db.session import RecordConflict, transaction
from wms2.errors import UserError
from wms2.models.audit import Action
from wms2.models.ledger import InputFileState
from wms2.models.messages import Changes, DropAction, Dropped
from wms2.models.next_round import Need
from wms2.models.request import CleanupPolicy, RequestStatus
from wms2.models.workflow import RoundStatus


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with transaction(engine) as session:
        yield session


@pytest.fixture
def simulated(session: Session) -> Session:
    """1000 events asked for; of a round of three work units with 100 each, two are produced."""
    requests.insert_request(session, simulation())
    ledger.record_plan(session, planned(0, (1, 100), (101, 200), (201, 300)))
    for number in (0, 1):
        credit.credit_work_unit(session, "simulation", produced(number))
    credit.abandon_work_unit(session, "simulation", 2, "failed")
    ledger.record_round_status(session, "simulation", 0, RoundStatus.CLOSED)
    return session


@pytest.fixture
def reprocessed(session: Session) -> Session:
    """Two files processed, two attempted in vain."""
    requests.insert_request(session, reprocessing())
    ledger.record_plan(session, planned_files(0, [0, 1], [2, 3]))
    credit.credit_work_unit(session, "reprocessing", produced_reco(0, 200))
    credit.abandon_work_unit(session, "reprocessing", 1, "failed")
    ledger.record_round_status(session, "reprocessing", 0, RoundStatus.CLOSED)
    return session


def action(name: str, request: str, action_id: str = "one") -> Action:
    return Action(action_id=action_id, actor="operator", action=name, request_name=request, reason="because")


def drop(session: Session, request: str, action_id: str = "one", **what: Any) -> Dropped:
    asked = DropAction(actor="operator", action_id=action_id, **what)
    return drops.drop_work(session, action("drop", request, action_id), asked)


def what_is_next(session: Session, request: str) -> Need:
    asked = requests.request_record(session, request).request
    known = ledger.rounds_of(session, request)
    return next_round(asked, ledger.balance(session, request), known, 100).need


def test_requested_minus_dropped_is_produced_plus_remaining(simulated: Session) -> None:
    request = requests.request_record(simulated, "simulation").request
    assert drop(simulated, "simulation", units=[2]) == Dropped(events=100)
    balance = ledger.balance(simulated, "simulation")
    assert 1000 - balance.events_dropped == balance.events_produced + events_left(request, balance)
    assert events_left(request, balance) == 700
    assert discrepancies(cross_check(simulated, "simulation")) == ()


def test_a_simulation_whose_events_left_are_dropped_has_nothing_more_to_do(simulated: Session) -> None:
    assert what_is_next(simulated, "simulation") is Need.ROUND
    assert drop(simulated, "simulation", events_left=True) == Dropped(events=800)
    assert what_is_next(simulated, "simulation") is Need.NOTHING
    assert discrepancies(cross_check(simulated, "simulation")) == ()


def test_the_same_drop_twice_drops_once(simulated: Session) -> None:
    assert drop(simulated, "simulation", units=[2]) == drop(simulated, "simulation", units=[2])
    assert ledger.balance(simulated, "simulation").events_dropped == 100
    assert len(audit_trail(simulated, "simulation")) == 1


@pytest.mark.parametrize(
    ("unit", "words"), [(0, "is produced"), (7, "is unknown"), (2, "is dropped already")]
)
def test_a_work_unit_is_dropped_only_when_it_was_given_up_and_only_once(
    simulated: Session, unit: int, words: str
) -> None:
    drop(simulated, "simulation", "first", units=[2])
    with pytest.raises(RecordConflict, match=words):
        drop(simulated, "simulation", "second", units=[unit])


@pytest.mark.parametrize("what", [{"files": [lfn(2), lfn(3)]}, {"files_left": True}, {"units": [1]}])
def test_files_that_are_dropped_are_in_that_state_with_who_did_it(
    reprocessed: Session, what: dict[str, Any]
) -> None:
    assert drop(reprocessed, "reprocessing", **what) == Dropped(files=2)
    balance = ledger.balance(reprocessed, "reprocessing")
    assert balance.files == {InputFileState.PROCESSED: 2, InputFileState.DROPPED: 2}
    assert set(reprocessed.scalars(text("SELECT reason FROM input_files WHERE state = 'dropped'"))) == {
        "drop by operator: because"
    }
    assert what_is_next(reprocessed, "reprocessing") is Need.NOTHING
    assert discrepancies(cross_check(reprocessed, "reprocessing")) == ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE workflows SET dropped_events = 99",
        "UPDATE input_files SET state = 'available' WHERE state = 'dropped'",
    ],
)
def test_a_drop_that_was_changed_by_hand_shows(reprocessed: Session, statement: str) -> None:
    drop(reprocessed, "reprocessing", files_left=True)
    reprocessed.execute(text(statement))
    assert any("dropped" in found for found in discrepancies(cross_check(reprocessed, "reprocessing")))


def test_files_that_are_processed_or_unknown_are_not_taken_out(reprocessed: Session) -> None:
    with pytest.raises(RecordConflict, match="is processed already"):
        drop(reprocessed, "reprocessing", files=[lfn(0)])
    with pytest.raises(RecordConflict, match="is no file of the input"):
        drop(reprocessed, "reprocessing", files=[lfn(99)])


def test_a_release_excludes_files_and_bans_sites_with_the_persons_reason_once(reprocessed: Session) -> None:
    changes = Changes(exclude_files=(lfn(2),), avoid_sites=("T2_US_Purdue", "T2_DE_DESY"))
    told = action("release", "reprocessing")
    assert drops.apply_changes(reprocessed, told, changes)
    assert not drops.apply_changes(reprocessed, told, changes)
    assert ledger.balance(reprocessed, "reprocessing").files[InputFileState.EXCLUDED] == 1
    assert bans.banned_sites(reprocessed, "reprocessing") == dict.fromkeys(
        ["T2_DE_DESY", "T2_US_Purdue"], "by operator: because"
    )
    assert reprocessed.scalar(text("SELECT count(*) FROM site_bans")) == 2
    assert discrepancies(cross_check(reprocessed, "reprocessing")) == ()


def test_a_ban_of_a_request_holds_for_it_alone_and_ends(reprocessed: Session) -> None:
    requests.insert_request(reprocessed, simulation())
    bans.ban_sites(reprocessed, "reprocessing", ["T2_US_Purdue"], action("release", "reprocessing"))
    assert bans.banned_sites(reprocessed, "simulation") == {}
    reprocessed.execute(text("UPDATE site_bans SET expires_at = now() - interval '1 second'"))
    assert bans.banned_sites(reprocessed, "reprocessing") == {}


def test_a_restart_records_the_next_version_and_supersedes_the_old_one_together(simulated: Session) -> None:
    told = action("restart", "simulation")
    assert versions.supersede(simulated, told, 5) == "simulation_v2"
    assert versions.supersede(simulated, told, 5) == "simulation_v2", "again is the same one"
    old = requests.request_record(simulated, "simulation")
    new = requests.request_record(simulated, "simulation_v2")
    assert old.superseded_by_request == "simulation_v2"
    assert new.request.previous_version_request == "simulation"
    assert new.request.processing_version == 2
    assert new.request.output_datasets == ("/MinBias/Run2024A-Test-v2/GEN-SIM",)
    assert (new.status, new.status_sequence) == (RequestStatus.SUBMITTED, 0)
    assert audit_trail(simulated, "simulation")[0].action.detail == {"superseded_by": "simulation_v2"}


def test_a_restart_can_say_what_becomes_of_the_outputs_that_it_replaces_and_of_those_to_come(
    simulated: Session,
) -> None:
    told = action("restart", "simulation").model_copy(update={"detail": {"cleanup_policy": "grace_period"}})
    assert versions.supersede(simulated, told, 5) == "simulation_v2"
    assert versions.supersede(simulated, action("restart", "simulation_v2", "two"), 5) == "simulation_v3"
    for name in ("simulation", "simulation_v2", "simulation_v3"):
        record = requests.request_record(simulated, name)
        assert record.request.cleanup_policy is CleanupPolicy.GRACE_PERIOD
    assert audit_trail(simulated, "simulation")[0].action.detail == {
        "cleanup_policy": "grace_period",
        "superseded_by": "simulation_v2",
    }
    policies = simulated.scalars(text("SELECT DISTINCT cleanup_policy FROM requests")).all()
    assert policies == ["grace_period"]


def test_a_request_is_restarted_only_so_often(simulated: Session) -> None:
    name = "simulation"
    for version in (2, 3):
        name = versions.supersede(simulated, action("restart", name, f"to {version}"), 3)
    assert name == "simulation_v3"
    with pytest.raises(UserError, match="version 3 of at most 3"):
        versions.supersede(simulated, action("restart", name, "to 4"), 3)


def test_a_name_that_somebody_else_took_is_refused_before_anything_changes(simulated: Session) -> None:
    requests.insert_request(simulated, simulation(request_name="simulation_v2"))
    with pytest.raises(UserError, match="simulation_v2 exists already"):
        versions.supersede(simulated, action("restart", "simulation"), 5)
    assert requests.request_record(simulated, "simulation").superseded_by_request is None


def test_a_priority_of_today_is_in_the_listing(simulated: Session) -> None:
    requests.record_priority(simulated, "simulation", 7)
    assert requests.list_requests(simulated)[0].priority == 7
    assert requests.request_record(simulated, "simulation").request.priority == 100_000


async def test_the_list_of_what_to_invalidate_names_what_was_registered_and_is_written_once(
    engine: Engine, tmp_path: Path
) -> None:
    dataset = "/MinBias/Run2024A-Test-v1/GEN-SIM"
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        ledger.record_plan(session, planned(0, (1, 100), (101, 200)))
        unit = produced(0)
        credit.credit_work_unit(session, "simulation", unit)
        blocks.assign_files(session, "simulation", dataset, BlockLimits())
        credit.credit_work_unit(session, "simulation", produced(1))
    endings = EndingActivities(engine, None, tmp_path, 5)  # type: ignore[arg-type]
    told = action("fail", "simulation")
    await endings.write_invalidation(told)
    await endings.write_invalidation(told)
    with transaction(engine) as session:
        written = written_manifest(session, "simulation")
    assert written is not None
    assert (written.datasets, written.blocks, written.files) == (1, 1, 1)
    listed = json.loads(Path(written.path).read_bytes())
    assert listed["datasets"][0]["blocks"][0]["files"][0]["lfn"] == unit.files[0].lfn
    assert len(listed["datasets"][0]["not_registered"]) == 1
    assert (listed["actor"], listed["reason"]) == ("operator", "because")
