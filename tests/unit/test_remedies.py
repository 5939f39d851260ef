"""What is wrong with a person's word on a request."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.factories import rounds, simulation
from tests.unit.test_rounds import balance
from wms2.core.remedies import drop_mistakes
from wms2.core.rounds import RESCUE_RAISE, events_left, events_of_units, next_round, round_priority
from wms2.models.messages import Changes, DropAction, ReleaseAction
from wms2.models.next_round import Need


def drop(**what: Any) -> DropAction:
    return DropAction(actor="operator", action_id="one", **what)


@pytest.mark.parametrize(
    ("asked", "simulated", "words"),
    [
        (drop(), None, "say what to drop"),
        (drop(units=[1], events_left=True), None, "say what to drop"),
        (drop(files_left=True), True, "reads no files"),
        (drop(events_left=True), False, "it reads files"),
    ],
)
def test_what_cannot_be_dropped_is_said_in_a_sentence(
    asked: DropAction, simulated: bool | None, words: str
) -> None:
    (mistake,) = drop_mistakes(asked, simulation=simulated)
    assert words in mistake


@pytest.mark.parametrize(
    "hostile",
    [
        {"exclude_files": ["/store/a;rm -rf"]},
        {"avoid_sites": ["T2_DE_DESY,T1_US_FNAL"]},
        {"avoid_sites": ["T2_DE\nround_priority = 9"]},
        {"hold_threshold": 0.0},
        {"max_rescues": 101},
        {"attempts": 0},
        {"attempts": 21},
    ],
)
def test_changes_that_would_end_in_a_file_are_checked_first(hostile: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Changes.model_validate(hostile)


def test_a_release_tells_its_changes_in_words_and_many_names_by_their_number() -> None:
    files = tuple(f"/store/data/{number}.root" for number in range(4))
    asked = ReleaseAction(
        actor="operator", action_id="one", reason="why", changes=Changes(memory_mb=4000, exclude_files=files)
    )
    assert asked.words == "release by operator (exclude_files 4 of them; memory_mb 4000): why"


def test_what_is_dropped_is_not_waited_for() -> None:
    request = simulation(total_events=1000)
    after = balance(600, 600, 500).model_copy(update={"events_dropped": 300})
    assert events_left(request, after) == 200
    assert next_round(request, after, rounds(2), 100).events == 240
    done = after.model_copy(update={"events_dropped": 500})
    assert next_round(request, done, rounds(2), 100).need is Need.NOTHING


def test_a_dropped_work_unit_counts_what_it_would_have_written_at_most_all_that_is_left() -> None:
    request = simulation(total_events=1000)
    half_passes = balance(1000, 1000, 500)
    assert events_of_units(request, half_passes, 100) == 50
    assert events_of_units(request, half_passes, 5000) == 500
    by_offset = simulation(total_events=1000, completion="offset")
    assert events_of_units(by_offset, half_passes, 100) == 0, "its numbers are used up all the same"


def test_what_failed_once_goes_before_what_was_never_tried() -> None:
    assert round_priority(7, retried=True) == 7 + RESCUE_RAISE
    assert round_priority(7, retried=False) == 7
