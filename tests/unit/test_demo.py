"""The demo's requests, and the counting at its end."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms2.cli.demo import print_report
from wms2.local.demo import CAMPAIGN, INPUT_EVENTS, write_requests
from wms2.local.payload import check, make_inputs
from wms2.local.tally import RequestReport, Tally, credited_numbers, tally
from wms2.models.merge_output import MergeOutput
from wms2.models.request import RequestStatus
from wms2.models.request_file import validate_request_file

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_demo_asks_for_a_simulation_and_for_a_reprocessing_under_new_names(tmp_path: Path) -> None:
    simulation, reprocessing = (validate_request_file(path) for path in write_requests(tmp_path, NOW))
    assert simulation.is_simulation
    assert not reprocessing.is_simulation
    again = [validate_request_file(path) for path in write_requests(tmp_path, NOW + timedelta(seconds=1))]
    requests = [simulation, reprocessing, *again]
    assert {request.campaign for request in requests} == {CAMPAIGN}
    assert len({request.request_name for request in requests}) == 4
    assert len({request.output_datasets for request in requests}) == 4
    assert len({request.input_dataset for request in requests}) == 3


def test_exactly_one_job_of_the_demo_is_made_to_fail_once(tmp_path: Path) -> None:
    steps = [
        step
        for path in write_requests(tmp_path, NOW)
        for step in validate_request_file(path).payload_config["steps"]
    ]
    faults = [fault for step in steps for fault in step.get("parameters", {}).get("faults", [])]
    assert [fault["times"] for fault in faults] == [1]


numbers = st.lists(st.integers(1, 30))


@given(expected=st.sets(st.integers(1, 30)), found=numbers)
def test_a_tally_is_exact_if_and_only_if_every_number_is_there_once(
    expected: set[int], found: list[int]
) -> None:
    assert tally(expected, found).is_exact == (Counter(found) == Counter(expected))


def test_a_tally_tells_apart_what_is_missing_twice_and_unexpected() -> None:
    assert tally(range(1, 6), [1, 2, 2, 2, 9]) == Tally(expected=5, found=5, missing=3, twice=1, unexpected=1)


def merge_output(**nodes: tuple[int | None, int | None]) -> MergeOutput:
    summaries = {
        name: {"cluster": 1, "events": 50, "first_event": first, "last_event": last, "files": []}
        for name, (first, last) in nodes.items()
    }
    return MergeOutput.model_validate(
        {
            "version": 1, "request": "demo", "round": 0, "work_unit": 0, "site": "T2_CH_CERN", "cluster": 1,
            "files": [], "nodes": summaries, "metrics": {},
        }
    )  # fmt: skip


def test_a_simulation_is_credited_with_the_ranges_that_its_nodes_worked_on() -> None:
    """A pilot that ended early says so in its last event."""
    outputs = [merge_output(proc_000000=(1, 3)), merge_output(proc_000000=(51, 52), proc_000001=(53, 53))]
    assert list(credited_numbers(outputs)) == [1, 2, 3, 51, 52, 53]
    assert list(credited_numbers([merge_output(proc_000000=(None, None))])) == []


def report(**changes: Any) -> RequestReport:
    fields: dict[str, Any] = {
        "name": "demo", "status": RequestStatus.COMPLETED, "reason": "because", "requested": 10, "produced": 12,
        "wrong_values": 0, "events": Tally(expected=12, found=12, missing=0, twice=0, unexpected=0), "files": 2,
        "size_bytes": 2000, "sites": ("T1_US_FNAL", "T2_CH_CERN"), "repeated": 1, "rounds": 2, "seconds": 61.2,
    }  # fmt: skip
    return RequestReport(**(fields | changes))


def test_more_events_than_requested_are_no_flaw() -> None:
    assert list(report().flaws()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": RequestStatus.HELD}, "it is held: because"),
        ({"requested": 13}, "12 of 13 events were produced"),
        ({"produced": 13}, "the ledger counts 13 events and the merged files hold 12"),
        ({"wrong_values": 1}, "1 events have wrong values"),
        ({"events": tally(range(12), [*range(11), 10])}, "1 event numbers are missing"),
        ({"events": tally(range(11), [*range(11), 10])}, "1 event numbers are there twice"),
        ({"events": tally(range(11), range(12))}, "1 event numbers are there that nobody asked for"),
    ],
)
def test_each_way_of_being_inexact_is_told(changes: dict[str, Any], words: str) -> None:
    assert words in list(report(**changes).flaws())


def test_the_report_has_a_column_for_each_request(capsys: pytest.CaptureFixture[str]) -> None:
    print_report([report(name="one"), report(name="two", repeated=0)])
    shown = capsys.readouterr().out
    rows = {line[:26].strip(): line[26:].split() for line in shown.splitlines()}
    assert rows["events requested"] == ["10", "10"]
    assert rows["attempts repeated"] == ["1", "0"]
    assert rows["time"] == ["61", "s", "61", "s"]


def test_the_events_of_an_input_dataset_are_numbered_through_all_its_sites(tmp_path: Path) -> None:
    """What the demo expects to find after a reprocessing."""
    for number in range(2):
        make_inputs(
            tmp_path,
            2,
            5,
            locations=[f"T2_XX_{number}"],
            base=f"/store/{number}",
            first_event=10 * number + 1,
        )
    assert check(tmp_path.rglob("*.root")).numbers.tolist() == list(range(1, 21))
    assert INPUT_EVENTS == 800
