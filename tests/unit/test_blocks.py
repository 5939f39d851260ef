"""Which files share a block, when blocks close, and when their source is let go."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms2.core.blocks import BlockLimits, Load, is_due, takes
from wms2.core.outputs import BlockSteps, dataset_status
from wms2.core.placement import BlockToPlace, Placement, is_let_go, misses_a_rule, placement, trouble
from wms2.models.output import OutputStatus
from wms2.models.rule import Rule

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SOURCE = "source"
BLOCK = BlockToPlace(files=4, source_rule=SOURCE, locks={"other": 4, "half": 2})

loads = st.builds(Load, st.integers(1, 50), st.integers(1, 1000), st.integers(0, 100))


def rule(rule_id: str = "other", *, ok: int = 4, waiting: int = 0, state: str = "OK", **more: object) -> Rule:
    return Rule.model_validate(
        {
            "id": rule_id,
            "name": "/A/B-C-v1/RAW#1",
            "rse_expression": "T1_US_FNAL_Tape",
            "state": state,
            "locks_ok": ok,
            "locks_replicating": waiting,
            **more,
        }
    )


OF_SOURCE = rule(SOURCE)


@given(units=st.lists(loads, max_size=60), most=loads)
def test_no_block_of_several_work_units_is_larger_than_the_limit_and_none_is_left_out(
    units: list[Load], most: Load
) -> None:
    blocks: list[list[Load]] = [[]]
    for unit in units:
        held = sum(blocks[-1], Load())
        if not takes(held, unit, most):
            blocks.append([])
        blocks[-1].append(unit)
    assert [unit for block in blocks for unit in block] == units
    for block in blocks:
        held = sum(block, Load())
        within = held.files <= most.files and held.size_bytes <= most.size_bytes and held.lumis <= most.lumis
        assert within or len(block) == 1


def test_a_block_closes_when_it_is_old_or_when_no_more_will_come() -> None:
    limits = BlockLimits(age=timedelta(hours=24))
    assert not is_due(NOW - timedelta(hours=23), NOW, limits, finishing=False)
    assert is_due(NOW - timedelta(hours=24), NOW, limits, finishing=False)
    assert is_due(NOW, NOW, limits, finishing=True)


@pytest.mark.parametrize(
    ("of_block", "of_dataset", "where"),
    [
        ([OF_SOURCE], [], Placement.NOWHERE),
        ([OF_SOURCE, rule()], [], Placement.PLACED),
        ([OF_SOURCE, rule(state="REPLICATING", ok=3, waiting=1)], [], Placement.UNDER_WAY),
        ([OF_SOURCE, rule(state="STUCK", ok=3)], [], Placement.UNDER_WAY),
        ([OF_SOURCE], [rule(ok=10)], Placement.PLACED),
        ([OF_SOURCE], [rule("half", ok=10)], Placement.UNDER_WAY),
        ([OF_SOURCE], [rule("blind", ok=100)], Placement.UNDER_WAY),
        ([OF_SOURCE], [rule(ok=10, copies=2)], Placement.UNDER_WAY),
        ([OF_SOURCE, rule(ok=3)], [], Placement.UNDER_WAY),
        ([OF_SOURCE, rule(ok=4, copies=2)], [], Placement.UNDER_WAY),
        ([OF_SOURCE, rule(ok=8, copies=2)], [], Placement.PLACED),
        ([OF_SOURCE, rule(expires_at=NOW + timedelta(hours=1))], [], Placement.UNDER_WAY),
        ([OF_SOURCE, rule(expires_at=NOW + timedelta(days=90))], [], Placement.PLACED),
    ],
    ids=[
        "only its own rule",
        "another rule that holds all",
        "another rule under way",
        "a stuck rule",
        "a rule on the whole dataset",
        "a rule on the dataset that holds some of it",
        "a rule on the dataset that holds only other blocks",
        "a rule on the dataset that has one of two copies",
        "a rule that says OK before the last file came",
        "two copies wanted and one there",
        "two copies there",
        "a rule that ends soon",
        "a rule that lasts",
    ],
)
def test_the_source_is_let_go_only_when_another_rule_holds_every_file(
    of_block: list[Rule], of_dataset: list[Rule], where: Placement
) -> None:
    assert placement(BLOCK, of_block, of_dataset, NOW) is where


def test_all_destinations_that_the_request_named_must_hold_it() -> None:
    wanted = BlockToPlace(4, SOURCE, frozenset({"tape", "disk"}))
    tape, disk = rule("tape"), rule("disk", state="REPLICATING", ok=2, waiting=2)
    assert placement(wanted, [OF_SOURCE, tape, disk], [], NOW) is Placement.UNDER_WAY
    assert placement(wanted, [OF_SOURCE, tape], [], NOW) is Placement.UNDER_WAY
    assert placement(wanted, [OF_SOURCE, tape, rule("disk")], [], NOW) is Placement.PLACED


def test_what_was_made_at_a_destination_stays_there_when_it_is_at_the_others_too() -> None:
    wanted = BlockToPlace(4, SOURCE, frozenset({SOURCE, "tape"}))
    under_way = rule("tape", state="REPLICATING", ok=2, waiting=2)
    assert placement(wanted, [OF_SOURCE, under_way], [], NOW) is Placement.UNDER_WAY
    assert placement(wanted, [OF_SOURCE, rule("tape")], [], NOW) is Placement.STAYS
    assert placement(BlockToPlace(4, SOURCE, frozenset({SOURCE})), [OF_SOURCE], [], NOW) is Placement.STAYS


def test_a_rule_for_a_destination_may_be_as_short_as_the_request_said_and_no_shorter() -> None:
    wanted = BlockToPlace(4, SOURCE, frozenset({"tape"}), kept_for=timedelta(days=2))
    as_asked = rule("tape", expires_at=NOW + timedelta(hours=47))
    deleted = rule("tape", expires_at=NOW + timedelta(hours=1))
    assert placement(wanted, [as_asked], [], NOW) is Placement.PLACED
    assert not misses_a_rule(wanted, [as_asked], NOW)
    assert placement(wanted, [deleted], [], NOW) is Placement.UNDER_WAY
    assert misses_a_rule(wanted, [deleted], NOW)
    assert misses_a_rule(wanted, [OF_SOURCE], NOW)
    assert not misses_a_rule(BLOCK, [OF_SOURCE], NOW), "it asked for none"


def test_a_stuck_transfer_is_told_with_rucios_own_words() -> None:
    stuck = rule(state="STUCK", locks_stuck=2, error="no space left")
    assert trouble([OF_SOURCE, stuck]) == "the rule for T1_US_FNAL_Tape is stuck with 2 files: no space left"
    assert trouble([OF_SOURCE]) == ""


def test_a_transfer_that_rucio_has_given_up_is_told_too() -> None:
    suspended = rule(state="SUSPENDED", locks_stuck=2, error="no space left")
    assert "is suspended with 2 files: no space left" in trouble([OF_SOURCE, suspended])


def test_a_block_is_let_go_where_it_was_made_when_its_own_rule_is_gone_or_about_to_go() -> None:
    deleted = rule(SOURCE, expires_at=NOW + timedelta(hours=1))
    assert not is_let_go(BLOCK, [rule(), OF_SOURCE], NOW)
    assert is_let_go(BLOCK, [rule(), deleted], NOW)
    assert is_let_go(BLOCK, [rule()], NOW)


def steps(**done: bool) -> BlockSteps:
    names = BlockSteps.__dataclass_fields__
    return BlockSteps(**{name: done.get(name, False) for name in names})


def test_a_dataset_is_as_far_as_the_block_that_is_furthest_behind() -> None:
    protected = steps(protected=True)
    registered = steps(protected=True, registered=True)
    asked = steps(protected=True, registered=True, transfers_requested=True)
    looked = steps(protected=True, registered=True, transfers_looked_at=True)
    kept = steps(protected=True, registered=True, archived=True)
    released = steps(protected=True, registered=True, archived=True, source_released=True)

    def status(*blocks: BlockSteps) -> OutputStatus:
        return dataset_status(OutputStatus.PENDING, blocks)

    assert status() is OutputStatus.PENDING
    assert status(released, steps()) is OutputStatus.PENDING
    assert status(released, protected) is OutputStatus.SOURCE_PROTECTED
    assert status(registered, kept) is OutputStatus.DBS_REGISTERED
    assert status(asked) is OutputStatus.TRANSFERS_REQUESTED
    assert status(looked, released) is OutputStatus.TRANSFERRING
    assert status(kept, released) is OutputStatus.TRANSFERRED
    assert status(released) is OutputStatus.SOURCE_RELEASED
    assert dataset_status(OutputStatus.ANNOUNCED, [protected]) is OutputStatus.ANNOUNCED
