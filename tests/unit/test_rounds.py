"""What comes after a round, and how long its jobs are."""

from hypothesis import given
from hypothesis import strategies as st

from tests.factories import reprocessing, rounds, simulation
from wms2.core.rounds import files_to_plan, next_round, tail_priority
from wms2.core.sizing import MOST_CHANGE, retuned
from wms2.models.ledger import Balance, InputFileState
from wms2.models.next_round import Need
from wms2.models.workflow import Round, RoundStatus


def balance(planned: int = 0, processed: int = 0, produced: int = 0, **files: int) -> Balance:
    return Balance(
        events_planned=planned,
        events_processed=processed,
        events_produced=produced,
        events_abandoned=planned - processed,
        units={},
        files={InputFileState(state.removesuffix("_files")): count for state, count in files.items()},
    )


def test_the_first_round_is_a_pilot_unless_the_request_is_urgent() -> None:
    assert next_round(simulation(), balance(), rounds(0), 100).need is Need.PILOT
    urgent = simulation(urgent=True, memory_mb=2000, time_per_event_sec=1.0, size_per_event_kb=1.0)
    assert next_round(urgent, balance(), rounds(0), 100).need is Need.ROUND


def test_a_simulation_goes_on_until_enough_was_written() -> None:
    request = simulation(total_events=1000)
    assert next_round(request, balance(500, 500, 400), rounds(1), 100).events == 750
    assert next_round(request, balance(1300, 1300, 999), rounds(2), 100).need is Need.ROUND
    assert next_round(request, balance(1300, 1300, 1000), rounds(2), 100).need is Need.NOTHING


def test_completion_by_offset_ends_when_enough_was_planned() -> None:
    request = simulation(total_events=1000, completion="offset")
    assert next_round(request, balance(900, 100, 100), rounds(2), 100).events == 100
    assert next_round(request, balance(1000, 100, 100), rounds(2), 100).need is Need.NOTHING


def test_a_filter_that_passes_nothing_asks_for_a_person_instead_of_going_on_for_ever() -> None:
    after = next_round(simulation(), balance(100, 100, 0), rounds(1), 100)
    assert after.need is Need.PERSON
    assert after.reason == "none of 100 events passed the filters, where the request says that one in 1 does"


def test_a_pilot_too_short_for_a_rare_event_says_nothing_about_the_filters() -> None:
    request = simulation(total_events=1000, filter_efficiency=0.004)
    after = next_round(request, balance(27, 27, 0), rounds(1), 900)
    assert (after.need, after.events) == (Need.ROUND, 250_000)
    assert next_round(request, balance(2499, 2499, 0), rounds(2), 900).need is Need.ROUND
    assert next_round(request, balance(2500, 2500, 0), rounds(2), 900).need is Need.PERSON


def test_input_goes_on_while_files_can_be_planned() -> None:
    request = reprocessing()
    assert next_round(request, balance(available=3, processed=0), rounds(1), 100).need is Need.ROUND
    assert next_round(request, balance(attempted=1), rounds(3), 100).need is Need.ROUND
    done = Balance(
        events_planned=0, events_processed=0, events_produced=0, events_abandoned=0, units={},
        files={InputFileState.PROCESSED: 5, InputFileState.EXCLUDED: 1},
    )  # fmt: skip
    assert next_round(request, done, rounds(3), 100).need is Need.NOTHING


def test_a_round_that_is_open_comes_first_also_when_nothing_else_is_left_to_plan() -> None:
    all_planned = balance(planned=1000, planned_files=5)
    for status in (RoundStatus.PLANNED, RoundStatus.ACTIVE):
        for request in (reprocessing(), simulation(completion="offset")):
            assert next_round(request, all_planned, rounds(1, status), 100).need is Need.PILOT
            assert next_round(request, all_planned, rounds(2, status), 100).need is Need.ROUND
            assert next_round(request, all_planned, rounds(2), 100).need is Need.NOTHING


@given(total=st.integers(1, 10**4), efficiency=st.floats(0.05, 1.0), per_job=st.integers(1, 1000))
def test_rounds_that_succeed_always_come_to_an_end(total: int, efficiency: float, per_job: int) -> None:
    request = simulation(total_events=total, filter_efficiency=efficiency)
    planned = produced = 0
    so_far: list[Round] = []
    while (step := next_round(request, balance(planned, planned, produced), so_far, per_job)).need in (
        Need.PILOT, Need.ROUND,
    ):  # fmt: skip
        planned += step.events
        produced = max(1, int(planned * efficiency))
        so_far += rounds(1)
        assert len(so_far) < 1000
    assert produced >= total


STEPS = [{"fraction": 0.1, "priority": 300_000}, {"fraction": 0.5, "priority": 200_000}]


def test_a_part_of_the_sample_goes_first_and_with_its_own_priority() -> None:
    request = simulation(total_events=1000, production_steps=STEPS)
    seen = [next_round(request, balance(n, n, n), rounds(1), 10) for n in (50, 100, 499, 500, 999)]
    assert [(step.events, step.priority) for step in seen] == [
        (50, 300_000), (400, 200_000), (1, 200_000), (500, 100_000), (1, 100_000)
    ]  # fmt: skip
    assert next_round(request, balance(), rounds(0), 10).priority == 300_000


def test_of_the_input_a_part_goes_first_as_well() -> None:
    request = reprocessing(production_steps=STEPS)
    seen = [balance(available=100 - done, processed_files=done) for done in (5, 10, 60)]
    assert [files_to_plan(request, state) for state in seen] == [5, 40, None]
    assert [next_round(request, state, rounds(1), 10).priority for state in seen] == [
        300_000,
        200_000,
        100_000,
    ]
    assert next_round(request, balance(), rounds(0), 10).priority == 300_000, "before the input is known"


@given(
    total=st.integers(1, 10**6),
    fractions=st.lists(st.floats(0.001, 0.999), max_size=5, unique=True),
    per_round=st.integers(1, 10**6),
)
def test_production_steps_neither_lose_nor_repeat_an_event(
    total: int, fractions: list[float], per_round: int
) -> None:
    steps = [{"fraction": part, "priority": 200_000 - k} for k, part in enumerate(sorted(fractions))]
    request = simulation(total_events=total, production_steps=steps)
    per_round = max(per_round, total // 50)
    planned, priorities = 0, []
    while (
        step := next_round(request, balance(planned, planned, planned), rounds(1), 100)
    ).need is Need.ROUND:
        planned += min(step.events, per_round)
        priorities.append(step.priority or 0)
    assert planned == total
    assert priorities == sorted(priorities, reverse=True)


@given(units=st.integers(1, 1000), done=st.integers(0, 1000))
def test_the_last_tenth_of_the_work_units_goes_first(units: int, done: int) -> None:
    done = min(done, units)
    raised = tail_priority(5, done, units) > 5
    assert raised == (0 < units - done <= units / 10)


@given(before=st.integers(1, 10**9), wanted=st.integers(1, 10**9))
def test_events_per_job_change_by_at_most_the_factor(before: int, wanted: int) -> None:
    after = retuned(before, wanted)
    assert after >= 1
    assert after <= before * MOST_CHANGE
    assert after > before // MOST_CHANGE - 100
