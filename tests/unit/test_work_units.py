"""Which jobs are merged together, and how many work units one round takes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.factories import SITES, input_file, reprocessing, simulation, snapshot
from wms2.core.planning import plan_round
from wms2.models.plan import InputFile, Limits, RoundPlan


def runs_of(plan: RoundPlan) -> list[list[int]]:
    """The runs in each work unit."""
    run = {file.lfn: file.lumis[0][0] for file in plan.snapshot.inputs}
    return [sorted({run[part.lfn] for job in unit.jobs for part in job.files}) for unit in plan.work_units]


def files_of_runs(*runs: int) -> list[InputFile]:
    """A file of 100 events for each number, whose names are in another order than the runs."""
    return [input_file(number, lumis=((run, 1, 1),)) for number, run in enumerate(runs)]


def planned(inputs: list[InputFile], files_per_unit: int, **changes: object) -> RoundPlan:
    """One file a job, and a merge target that so many files fill."""
    request = reprocessing(
        splitting_params={"files_per_job": 1},
        size_per_event_kb=1.0,
        merge_target_bytes=files_per_unit * 100 * 1000,
    )
    return plan_round(snapshot(request, inputs=tuple(inputs), **changes))


def test_files_of_one_run_are_merged_together_whatever_their_names() -> None:
    plan = planned(files_of_runs(7, 5, 7, 5, 7, 5, 7, 5), files_per_unit=4)
    assert runs_of(plan) == [[5], [7]]


def test_a_new_run_begins_a_new_work_unit_only_when_the_old_one_is_half_full() -> None:
    plan = planned(files_of_runs(1, 2, 2, 2, 3, 4), files_per_unit=4)
    assert runs_of(plan) == [[1, 2], [3, 4]]
    plan = planned(files_of_runs(1, 1, 1, 2, 3, 4), files_per_unit=4)
    assert runs_of(plan) == [[1], [2, 3, 4]]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=60), st.integers(1, 8))
def test_runs_never_make_a_work_unit_too_large_or_lose_a_file(runs: list[int], per_unit: int) -> None:
    plan = planned(files_of_runs(*runs), per_unit)
    read = sorted(part.lfn for unit in plan.work_units for job in unit.jobs for part in job.files)
    assert read == sorted(file.lfn for file in plan.snapshot.inputs)
    assert all(len(unit.jobs) <= per_unit for unit in plan.work_units)
    assert [unit.first_job for unit in plan.work_units] == [
        sum(len(before.jobs) for before in plan.work_units[:k]) for k in range(len(plan.work_units))
    ]


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 6))
def test_a_round_takes_no_more_nodes_than_its_limit(files: int, nodes: int, per_unit: int) -> None:
    limits = Limits(nodes_per_round=nodes)
    plan = planned([input_file(number) for number in range(files)], per_unit, limits=limits)
    taken = sum(unit.node_count for unit in plan.work_units)
    assert taken <= nodes or len(plan.work_units) == 1
    assert plan.left == files - plan.jobs
    if plan.left:
        assert taken + per_unit + 3 > nodes, "another work unit would have fitted"


def test_a_simulation_beyond_all_measure_is_planned_a_round_at_a_time() -> None:
    request = simulation(total_events=10**9, splitting_params={"events_per_job": 1})
    plan = plan_round(snapshot(request, limits=Limits(nodes_per_round=1000)))
    assert 800 < sum(unit.node_count for unit in plan.work_units) <= 1000
    assert plan.events == plan.jobs == 10**9 - plan.left


def test_a_round_that_wants_a_part_of_the_input_takes_whole_work_units() -> None:
    plan = planned([input_file(number) for number in range(20)], files_per_unit=4, files=6)
    assert plan.jobs == 8


def test_work_units_of_different_places_are_never_mixed_by_their_runs() -> None:
    files = [
        input_file(number, locations=(SITES[number % 2],), lumis=((1 + number // 2, 1, 1),))
        for number in range(8)
    ]
    plan = planned(files, files_per_unit=8)
    assert [unit.sites for unit in plan.work_units] == [(SITES[0],), (SITES[1],)]


def test_files_that_were_tried_before_wait_until_no_fresh_one_is_left() -> None:
    fresh, tried = [input_file(1)], [input_file(2)]
    plan = planned(fresh, files_per_unit=4, attempted=tuple(tried))
    assert [part.lfn for unit in plan.work_units for job in unit.jobs for part in job.files] == [fresh[0].lfn]
    plan = planned([], files_per_unit=4, attempted=tuple(tried))
    assert plan.jobs == 1


def test_fresh_files_that_no_site_has_keep_no_others_waiting_and_are_told() -> None:
    nowhere, tried = input_file(1, locations=("T2_US_Nowhere",)), input_file(2)
    plan = planned([nowhere], files_per_unit=4, attempted=(tried,))
    assert [part.lfn for unit in plan.work_units for job in unit.jobs for part in job.files] == [tried.lfn]
    assert nowhere.lfn in plan.problems[0]
