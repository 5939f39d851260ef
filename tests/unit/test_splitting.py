import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import SITES, input_file, reprocessing, simulation, snapshot
from wms2.core.planning import allowed_sites, events_to_generate, plan_round
from wms2.core.splitting import split
from wms2.core.work_units import group_jobs
from wms2.errors import UserError
from wms2.models.base import LARGEST_EVENT, LARGEST_LUMI
from wms2.models.plan import Job, PilotPlan


def test_the_example_of_event_and_lumi_numbers() -> None:
    request = simulation(total_events=250, splitting_params={"events_per_job": 100, "events_per_lumi": 40})
    jobs = split(snapshot(request)).jobs
    assert [(job.first_event, job.last_event) for job in jobs] == [(1, 100), (101, 200), (201, 250)]
    assert [(job.first_lumi, job.last_lumi) for job in jobs] == [(1, 3), (4, 6), (7, 8)]


@given(
    first=st.integers(1, 2**62),
    events=st.integers(1, 5000),
    per_job=st.integers(1, 700),
    per_lumi=st.integers(1, 700),
)
def test_each_event_number_is_in_exactly_one_job_and_lumis_never_repeat(
    first: int, events: int, per_job: int, per_lumi: int
) -> None:
    request = simulation(
        total_events=events, splitting_params={"events_per_job": per_job, "events_per_lumi": per_lumi}
    )
    jobs = split(snapshot(request, first_event=first, events=events)).jobs
    assert jobs[0].first_event == first
    assert jobs[-1].last_event == first + events - 1
    for before, after in pairwise(jobs):
        assert after.first_event == (before.last_event or 0) + 1
        assert after.first_lumi == (before.last_lumi or 0) + 1
    assert all(job.events == (job.last_event or 0) - (job.first_event or 0) + 1 <= per_job for job in jobs)


files = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.integers(0, 900),
        st.lists(st.sampled_from(SITES), unique=True, max_size=3),
    ),
    max_size=40,
    unique_by=lambda entry: entry[0],
)


@given(files, st.integers(1, 7), st.randoms())
def test_file_based_puts_each_file_that_has_a_site_into_exactly_one_job(entries, per_job, random) -> None:
    inputs = [input_file(number, events, tuple(sites)) for number, events, sites in entries]
    request = reprocessing(splitting_params={"files_per_job": per_job})
    jobs = split(snapshot(request, inputs=tuple(inputs))).jobs
    read = [part.lfn for job in jobs for part in job.files]
    assert sorted(read) == sorted(file.lfn for file in inputs if file.locations)
    by_lfn = {file.lfn: file for file in inputs}
    for job in jobs:
        assert len(job.files) <= per_job
        assert all(set(job.sites) == set(by_lfn[part.lfn].locations) for part in job.files)
    random.shuffle(inputs)
    assert split(snapshot(request, inputs=tuple(inputs))).jobs == jobs


@given(files, st.integers(1, 300))
def test_event_based_reads_each_position_of_each_file_exactly_once(entries, per_job) -> None:
    inputs = [input_file(number, events, tuple(sites)) for number, events, sites in entries]
    request = reprocessing(splitting_algo="EventBased", splitting_params={"events_per_job": per_job})
    read: dict[str, list[int]] = {}
    for job in split(snapshot(request, inputs=tuple(inputs))).jobs:
        (part,) = job.files
        first, last = part.first_event or 1, part.last_event or part.events
        read.setdefault(part.lfn, []).extend(range(first, last + 1))
        assert job.events == part.events <= max(per_job, 0)
    for file in inputs:
        assert read.get(file.lfn, []) == (list(range(1, file.events + 1)) if file.locations else [])


@given(
    events=st.integers(1, 3000),
    per_job=st.integers(1, 200),
    target=st.integers(1000, 10**6),
    first_unit=st.integers(0, 50),
)
def test_work_units_hold_every_job_once_and_stay_within_the_merge_target(
    events: int, per_job: int, target: int, first_unit: int
) -> None:
    request = simulation(
        total_events=events, merge_target_bytes=target, splitting_params={"events_per_job": per_job}
    )
    planned = snapshot(request, first_work_unit=first_unit)
    jobs = split(planned).jobs
    units = group_jobs(jobs, planned)
    assert [job for unit in units for job in unit.jobs] == jobs
    assert [unit.number for unit in units] == list(range(first_unit, first_unit + len(units)))
    names = [name for unit in units for name, _ in unit.nodes()]
    assert len(set(names)) == len(jobs)
    for unit in units:
        expected = unit.events * planned.sizing.size_per_event_kb * 1000
        assert expected <= target or len(unit.jobs) == 1
        assert len(unit.jobs) <= planned.limits.jobs_per_work_unit


def test_the_parts_of_one_file_stay_in_one_work_unit() -> None:
    request = reprocessing(
        splitting_algo="EventBased", splitting_params={"events_per_job": 10}, merge_target_bytes=1000
    )
    planned = snapshot(request, inputs=(input_file(1, 95), input_file(2, 95)))
    units = group_jobs(split(planned).jobs, planned)
    assert [sorted({part.lfn for job in unit.jobs for part in job.files}) for unit in units] == [
        [input_file(1).lfn],
        [input_file(2).lfn],
    ]


def test_jobs_with_different_sites_never_share_a_work_unit() -> None:
    jobs = [Job(1, ("T1_US_FNAL",)), Job(1, ("T2_US_Purdue",))]
    assert [unit.sites for unit in group_jobs(jobs, snapshot())] == [("T1_US_FNAL",), ("T2_US_Purdue",)]


def test_a_request_whose_input_is_nowhere_allowed_is_refused_with_the_files_named() -> None:
    planned = snapshot(reprocessing(), inputs=(input_file(7, locations=("T2_XX_Elsewhere",)),))
    with pytest.raises(UserError, match=r"nothing to run: 1 files are at no allowed site .*000007\.root"):
        plan_round(planned)


def test_files_left_out_are_named_in_the_plan() -> None:
    planned = plan_round(
        snapshot(reprocessing(), inputs=(input_file(1), input_file(2, 0), input_file(3, 5, ())))
    )
    assert len(planned.problems) == 2
    assert "000003.root" in planned.problems[0]
    assert "000002.root" in planned.problems[1]


def test_no_site_in_common_is_refused() -> None:
    with pytest.raises(UserError, match="may run nowhere"):
        plan_round(snapshot(sites=()))


def test_event_numbers_beyond_64_bits_are_refused() -> None:
    with pytest.raises(UserError, match="event numbers above"):
        plan_round(snapshot(first_event=LARGEST_EVENT))


def test_lumi_numbers_beyond_32_bits_are_refused() -> None:
    """1000 events, 100 a job, 40 a lumi section: 30 lumi sections."""
    assert (
        plan_round(snapshot(first_lumi=LARGEST_LUMI - 29)).work_units[-1].jobs[-1].last_lumi == LARGEST_LUMI
    )
    with pytest.raises(UserError, match="lumi section numbers above 4294967295"):
        plan_round(snapshot(first_lumi=LARGEST_LUMI - 28))


def test_site_lists_of_the_request_choose_among_the_known_sites() -> None:
    request = simulation(
        site_whitelist=["T2_US_Purdue", "T2_DE_DESY", "T2_IT_Pisa"], site_blacklist=["T1_US_FNAL"]
    )
    assert allowed_sites(request, list(SITES)) == ("T2_DE_DESY", "T2_US_Purdue")
    assert allowed_sites(simulation(), list(SITES)) == SITES


def test_a_filter_makes_the_round_generate_more() -> None:
    assert events_to_generate(100, 0.3) == 334
    assert events_to_generate(100, 1.0) == 100


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        ("FileBased", {"files_per_job": 1}),
        ("EventBased", {"events_per_job": 10}),
        ("LumiBased", {"lumis_per_job": 1}),
        ("EventAwareLumiBased", {"events_per_job": 10}),
    ],
)
def test_a_pilot_reads_all_its_files_in_one_job(algorithm: str, params: dict[str, int]) -> None:
    inputs = tuple(
        dataclasses.replace(input_file(number, 100, SITES[:1]), lumis=((1, number + 1, number + 1),))
        for number in range(5)
    )
    request = reprocessing(splitting_algo=algorithm, splitting_params=params)
    (job,) = split(snapshot(request, inputs=inputs, pilot=PilotPlan(first_events=1))).jobs
    assert [part.lfn for part in job.files] == [file.lfn for file in inputs]
    assert {(part.first_event, part.events) for part in job.files} == {(None, 100)}
