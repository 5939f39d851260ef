"""The entities: what they accept, and how they print."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.factories import reprocessing, simulation
from wms2.models.base import LARGEST_EVENT
from wms2.models.dag import DagIntent, DagStatus
from wms2.models.ledger import EventRange, PlannedFile, PlannedRound, PlannedUnit, ProducedUnit
from wms2.models.output import OutputStatus
from wms2.models.request import CleanupPolicy, RequestStatus
from wms2.models.site import SiteStatus
from wms2.models.splitting import PARAMS, SplittingAlgo
from wms2.models.workflow import RoundKind
from wms2.patterns import DATASET, LFN, OUTPUT_DATASET, REQUEST_NAME, SITE_NAME

DIGEST = "0" * 64


def planned_round(*units: PlannedUnit) -> PlannedRound:
    return PlannedRound(
        request_name="simulation",
        number=1,
        kind=RoundKind.PRODUCTION,
        snapshot_digest=DIGEST,
        nodes=4,
        work_units=units,
    )


@pytest.mark.parametrize(
    "kind", [RequestStatus, DagStatus, OutputStatus, SiteStatus, CleanupPolicy, SplittingAlgo]
)
def test_a_state_prints_as_its_own_value(kind: Any) -> None:
    for member in kind:
        assert f"{member}" == str(member) == member.value


def test_the_statuses_of_a_request_are_those_of_its_life() -> None:
    assert [status.name for status in RequestStatus] == [
        "NEW", "SUBMITTED", "QUEUED", "PILOT_RUNNING", "PLANNING", "ACTIVE", "PARTIAL", "HELD", "STOPPING",
        "RESUBMITTING", "COMPLETED", "FAILED", "ABORTED",
    ]  # fmt: skip
    assert [status for status in RequestStatus if status.is_final] == ["completed", "failed", "aborted"]


def test_every_algorithm_has_its_parameters() -> None:
    assert PARAMS.keys() == set(SplittingAlgo)
    assert all(params() for params in PARAMS.values())


def test_a_request_cannot_be_made_with_contradictions() -> None:
    with pytest.raises(ValidationError, match="because there is no input dataset"):
        simulation(splitting_algo="FileBased", splitting_params={})


def test_a_request_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        simulation().priority = 5  # type: ignore[misc]


def test_a_parameter_that_the_algorithm_has_not_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="FileBased splitting has no events_per_job"):
        _ = reprocessing().events_per_job


@given(first=st.integers(1, LARGEST_EVENT), last=st.integers(1, LARGEST_EVENT))
def test_a_range_of_events_holds_both_its_ends(first: int, last: int) -> None:
    if first > last:
        with pytest.raises(ValidationError, match="comes before the first"):
            EventRange(first=first, last=last)
    else:
        assert EventRange(first=first, last=last).events == last - first + 1


@pytest.mark.parametrize(("first", "last"), [(0, 5), (1, LARGEST_EVENT + 1), (True, 5), (1.0, 5)])
def test_event_numbers_are_whole_and_begin_with_one(first: Any, last: Any) -> None:
    with pytest.raises(ValidationError):
        EventRange(first=first, last=last)


def test_a_work_unit_counts_the_events_of_its_range() -> None:
    with pytest.raises(ValidationError, match="plans 5 events, not 10"):
        PlannedUnit(number=0, events=EventRange(first=1, last=10), planned_events=5)


def test_a_file_is_in_one_work_unit_of_a_round_only() -> None:
    file = PlannedFile(lfn="/store/data/a.root", events=1, size_bytes=1)
    units = [PlannedUnit(number=number, planned_events=1, files=(file,)) for number in (0, 1)]
    with pytest.raises(ValidationError, match=r"file /store/data/a\.root is planned twice"):
        planned_round(*units)
    with pytest.raises(ValidationError, match="work unit 0 is planned twice"):
        planned_round(units[0], PlannedUnit(number=0, planned_events=0))


@pytest.mark.parametrize("dag_id", ["", "a b", "-x", 'a"b', "x" * 400, "a\n"])
def test_the_id_of_a_dag_is_harmless_in_a_constraint(dag_id: str) -> None:
    with pytest.raises(ValidationError):
        DagIntent(
            dag_id=dag_id,
            request_name="simulation",
            round=0,
            attempt=1,
            dag_file_path="x",
            submit_dir="y",
            total_nodes=1,
        )


def test_a_digest_is_sixty_four_hex_digits() -> None:
    for digest in ("", "x" * 64, "0" * 63, "0" * 64 + "\n"):
        with pytest.raises(ValidationError):
            ProducedUnit(
                number=0,
                site="T2_US_Purdue",
                processed_events=0,
                produced_events=0,
                output_digest=digest,
                files=(),
            )


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (REQUEST_NAME, ["abc", "a_b-C1"], ["ab", "1abc", "a b c", "abc\n", "abc;", "é" * 4, "a" * 201]),
        (SITE_NAME, ["T2_US_Purdue", "T2_UK_London_IC", "T0_CH_CERN"], ["T4_US_X", "T2_us_x", "T2_US_", "T2_US_a-b"]),
        (DATASET, ["/A/B-v1/RAW", "/A/Run2024A-x-v1/GEN-SIM"], ["/A/B", "A/B/C", "/A/B/c", "/A/../C", "/A/B/-C"]),
        (OUTPUT_DATASET, ["/A/Era-proc-v1/GEN-SIM"], ["/A/Era-v1/RAW", "/A/Era-proc-v0/RAW", "/A/Era-proc-v1/"]),
        (LFN, ["/store/mc/a.root", "/store/a/b_c+d=e.root"], ["/store", "/store/../a", "/store/a b", "/tmp/a"]),
    ],
)  # fmt: skip
def test_patterns_take_the_names_of_the_experiment_and_nothing_else(
    pattern: Any, good: list[str], bad: list[str]
) -> None:
    assert all(pattern.fullmatch(name) for name in good)
    assert not any(pattern.fullmatch(name) for name in bad)


@pytest.mark.parametrize(
    ("text", "taken"), [("a\0b", False), ("\\\0", False), ("a\\u0000", True), ("\\\\u0000", True)]
)
def test_a_payload_with_a_nul_which_no_database_keeps_is_refused(text: str, taken: bool) -> None:
    payload = {"steps": [{"name": "GEN", "type": "demo"}], "note": text}
    if taken:
        assert simulation(payload_config=payload).payload_config == payload
    else:
        with pytest.raises(ValidationError, match="NUL"):
            simulation(payload_config=payload)
