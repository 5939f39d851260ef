"""LumiBased and EventAwareLumiBased."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import SITES, input_file, reprocessing, snapshot
from wms2.core.planning import plan_round
from wms2.core.splitting import Split, split
from wms2.core.splitting.spanning import find_spanning
from wms2.core.work_units import UnitBudget, unit_budget
from wms2.errors import UserError
from wms2.models.lumis import LumiRange, joined
from wms2.models.plan import InputFile, Job, RoundPlan, Snapshot

LUMI, EVENT_AWARE = "LumiBased", "EventAwareLumiBased"
HERE, THERE = SITES[:1], SITES[1:2]


numbered = st.integers(1, 25)
held = st.tuples(st.integers(1, 3), numbered, st.integers(0, 8)).map(
    lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
)
contents = st.lists(held, max_size=4)


def planned_from(
    algorithm: str, files: Sequence[InputFile], request: dict[str, Any] | None = None, **params: Any
) -> Snapshot:
    fields = {"time_per_event_sec": 0.001} | (request or {})
    return snapshot(
        reprocessing(splitting_algo=algorithm, splitting_params=params, **fields), inputs=tuple(files)
    )


def jobs_of(
    algorithm: str, *files: InputFile, request: dict[str, Any] | None = None, **params: Any
) -> list[Job]:
    return split(planned_from(algorithm, files, request, **params)).jobs


def file(number: int, *lumis: LumiRange, events: int = 100, locations: tuple[str, ...] = HERE) -> InputFile:
    return input_file(number, events, locations, lumis=lumis)


def lumis_of(jobs: Sequence[Job]) -> list[tuple[LumiRange, ...] | None]:
    return [job.lumis for job in jobs]


def numbers_of(job: Job) -> list[int]:
    """Which files the job reads."""
    return [int(part.lfn[-11:-5]) for part in job.files]


def single(lumis: Sequence[LumiRange] | None) -> list[tuple[int, int]]:
    return [(run, lumi) for run, first, last in lumis or () for lumi in range(first, last + 1)]


# By lumi sections.


def test_every_job_but_the_last_has_exactly_the_wanted_number_of_lumis() -> None:
    jobs = jobs_of(LUMI, file(1, (1, 1, 10)), file(2, (1, 11, 20)), file(3, (1, 21, 25)), lumis_per_job=8)
    assert lumis_of(jobs) == [((1, 1, 8),), ((1, 9, 16),), ((1, 17, 24),), ((1, 25, 25),)]
    assert [numbers_of(job) for job in jobs] == [[1], [1, 2], [2, 3], [3]]


def test_gaps_become_ranges_of_their_own() -> None:
    jobs = jobs_of(LUMI, file(1, (1, 1, 2), (1, 5, 5), (1, 7, 9)), lumis_per_job=4)
    assert lumis_of(jobs) == [((1, 1, 2), (1, 5, 5), (1, 7, 7)), ((1, 8, 9),)]


def test_files_come_by_their_lowest_run_and_then_by_its_lumis() -> None:
    jobs = jobs_of(
        LUMI, file(1, (2, 1, 1)), file(2, (1, 4, 4)), file(3, (1, 1, 1), (3, 1, 1)), lumis_per_job=9
    )
    assert [numbers_of(job) for job in jobs] == [[3], [3], [2], [1]]
    assert lumis_of(jobs) == [((1, 1, 1),), ((3, 1, 1),), ((1, 4, 4),), ((2, 1, 1),)]


@given(
    st.lists(st.lists(st.sets(st.integers(1, 9), min_size=1), min_size=1, max_size=2), min_size=2, max_size=6)
)
def test_files_are_ordered_as_if_their_lumis_were_listed_one_by_one(contents: list[list[set[int]]]) -> None:
    listed = [
        [(run, lumi) for run, lumis in enumerate(runs, 1) for lumi in sorted(lumis)] for runs in contents
    ]
    files = [file(number, *((run, lumi, lumi) for run, lumi in lumis)) for number, lumis in enumerate(listed)]
    job = jobs_of(LUMI, *files, lumis_per_job=10**6, split_on_run=False)[0]
    lowest = [[lumi for run, lumi in lumis if run == 1] for lumis in listed]
    expected = sorted(range(len(files)), key=lambda number: (lowest[number], number))
    seen: set[tuple[int, int]] = set()
    first_to_give = []
    for number in expected:
        if not seen >= set(listed[number]):
            first_to_give.append(number)
        seen.update(listed[number])
    assert [number for number in numbers_of(job) if number in first_to_give] == first_to_give


def test_a_job_never_crosses_into_the_next_run_unless_told() -> None:
    files = file(1, (1, 1, 3), (2, 1, 2)), file(2, (2, 3, 3), (3, 1, 1))
    assert lumis_of(jobs_of(LUMI, *files, lumis_per_job=5)) == [
        ((1, 1, 3),),
        ((2, 1, 3),),
        ((3, 1, 1),),
    ]
    assert lumis_of(jobs_of(LUMI, *files, lumis_per_job=5, split_on_run=False)) == [
        ((1, 1, 3), (2, 1, 2)),
        ((2, 3, 3), (3, 1, 1)),
    ]


def test_halting_at_file_boundaries_gives_each_job_one_file() -> None:
    files = file(1, (1, 1, 3)), file(2, (1, 4, 6))
    jobs = jobs_of(LUMI, *files, lumis_per_job=2, halt_at_file_boundaries=True)
    assert lumis_of(jobs) == [((1, 1, 2),), ((1, 3, 3),), ((1, 4, 5),), ((1, 6, 6),)]
    assert [numbers_of(job) for job in jobs] == [[1], [1], [2], [2]]


def test_files_at_different_sites_are_never_in_one_job() -> None:
    files = file(1, (1, 1, 3)), file(2, (1, 4, 6), locations=THERE), file(3, (1, 7, 9))
    jobs = jobs_of(LUMI, *files, lumis_per_job=100)
    assert [(job.sites, numbers_of(job)) for job in jobs] == [(HERE, [1, 3]), (THERE, [2])]


# Lumi sections that span files.


def test_a_lumi_that_spans_files_is_in_one_job_with_all_of_them() -> None:
    jobs = jobs_of(LUMI, file(1, (1, 1, 3)), file(2, (1, 3, 5)), lumis_per_job=3)
    assert lumis_of(jobs) == [((1, 1, 3),), ((1, 4, 5),)]
    assert [numbers_of(job) for job in jobs] == [[1, 2], [2]]


def test_a_spanning_lumi_counts_once() -> None:
    jobs = jobs_of(
        LUMI, file(1, (1, 1, 2)), file(2, (1, 2, 4)), file(3, (1, 2, 2), (1, 5, 5)), lumis_per_job=4
    )
    assert lumis_of(jobs) == [((1, 1, 4),), ((1, 5, 5),)]
    assert [numbers_of(job) for job in jobs] == [[1, 2, 3], [3]]


def test_halting_at_a_file_does_not_tear_a_lumi_apart() -> None:
    files = file(1, (1, 1, 3)), file(2, (1, 3, 5))
    jobs = jobs_of(LUMI, *files, lumis_per_job=10, halt_at_file_boundaries=True)
    assert lumis_of(jobs) == [((1, 1, 3),), ((1, 4, 5),)]
    assert [numbers_of(job) for job in jobs] == [[1, 2], [2]]


def test_events_of_a_spanning_lumi_are_those_of_all_its_files() -> None:
    jobs = jobs_of(LUMI, file(1, (1, 1, 2), events=20), file(2, (1, 2, 3), events=200), lumis_per_job=2)
    assert [job.events for job in jobs] == [120, 100]


def test_files_that_share_a_lumi_run_where_all_of_them_are() -> None:
    files = (
        file(1, (1, 1, 2), locations=SITES[:2]),
        file(2, (1, 2, 3), locations=SITES[1:3]),
        file(3, (1, 4, 4), locations=SITES[:2]),
    )
    jobs = jobs_of(LUMI, *files, lumis_per_job=10)
    assert [(job.sites, numbers_of(job)) for job in jobs] == [(SITES[:2], [3]), (SITES[1:2], [1, 2])]


def test_files_that_share_a_lumi_and_no_site_are_left_out_and_named() -> None:
    work = split(
        planned_from(LUMI, [file(1, (1, 1, 2)), file(2, (1, 2, 3), locations=THERE), file(3, (1, 9, 9))])
    )
    assert [numbers_of(job) for job in work.jobs] == [[3]]
    (left_out,) = map(str, work.left_out)
    assert left_out.startswith("2 files share lumi sections with each other, and no allowed site has all")


@given(st.lists(st.lists(held, max_size=3).map(joined), max_size=8))
def test_exactly_the_lumis_in_several_files_span_files_and_tie_them(
    contents: list[tuple[LumiRange, ...]],
) -> None:
    spanning = find_spanning(contents)
    holders: dict[tuple[int, int], list[int]] = {}
    for number, lumis in enumerate(contents):
        for lumi in single(lumis):
            holders.setdefault(lumi, []).append(number)
    shared = {lumi for lumi, numbers in holders.items() if len(numbers) > 1}
    assert shared == {
        (run, n) for run, spans in spanning.spans.items() for a, b in spans for n in range(a, b + 1)
    }
    family_of = {number: tuple(family) for family in spanning.families for number in family}
    assert family_of.keys() == {number for lumi in shared for number in holders[lumi]}
    for lumi in shared:
        assert len({family_of[number] for number in holders[lumi]}) == 1
    for number, family in family_of.items():
        assert any(lumi in shared for lumi in single(contents[number]))
        assert len(family) > 1
    for run, first, last in (span for lumis in contents for span in lumis if span[0] in spanning.spans):
        pieces = [
            (n, is_shared) for a, b, is_shared in spanning.cut(run, first, last) for n in range(a, b + 1)
        ]
        assert pieces == [(n, (run, n) in shared) for n in range(first, last + 1)]


def test_files_tied_by_a_chain_are_one_family_and_others_are_not() -> None:
    contents = [((1, 1, 9),), ((1, 2, 3),), ((2, 1, 1),), ((1, 5, 5),), ((2, 1, 1),), ((3, 1, 9),)]
    assert find_spanning(contents).families == [[0, 1, 3], [2, 4]]


def test_a_file_waits_for_the_rest_of_its_lumis() -> None:
    """A lumi section is never read without a part of it that is only out of reach for now."""
    work = split(
        planned_from(LUMI, [file(1, (1, 1, 2)), file(2, (1, 2, 3), locations=()), file(3, (1, 9, 9))])
    )
    assert [numbers_of(job) for job in work.jobs] == [[3]]
    assert [str(left_out)[:40] for left_out in work.left_out] == [
        "1 files are at no allowed site (for exam",
        "1 files share lumi sections with each ot",
    ]


# By events in lumi sections.


def test_a_job_takes_as_many_whole_lumis_as_its_events_allow() -> None:
    jobs = jobs_of(EVENT_AWARE, file(1, (1, 1, 10), events=1000), events_per_job=350)
    assert lumis_of(jobs) == [((1, 1, 3),), ((1, 4, 6),), ((1, 7, 9),), ((1, 10, 10),)]
    assert [job.events for job in jobs] == [300, 300, 300, 100]


def test_a_lumi_with_more_events_than_a_job_is_a_job() -> None:
    jobs = jobs_of(EVENT_AWARE, file(1, (1, 1, 3), events=3000), events_per_job=10)
    assert lumis_of(jobs) == [((1, 1, 1),), ((1, 2, 2),), ((1, 3, 3),)]


def test_the_events_of_a_job_carry_over_to_the_next_file() -> None:
    files = file(1, (1, 1, 3), events=300), file(2, (1, 4, 8), events=250)
    jobs = jobs_of(EVENT_AWARE, *files, events_per_job=420)
    assert lumis_of(jobs) == [((1, 1, 5),), ((1, 6, 8),)]
    halting = jobs_of(EVENT_AWARE, *files, events_per_job=420, halt_at_file_boundaries=True)
    assert lumis_of(halting) == [((1, 1, 3),), ((1, 4, 8),)]


def test_files_without_events_cost_a_job_nothing_and_are_read() -> None:
    files = file(1, (1, 1, 3), events=300), file(2, (1, 4, 900), events=0), file(3, (1, 901, 901), events=100)
    jobs = jobs_of(EVENT_AWARE, *files, events_per_job=300)
    assert lumis_of(jobs) == [((1, 1, 900),), ((1, 901, 901),)]
    assert [job.events for job in jobs] == [300, 100]


def test_an_average_that_rounds_to_zero_costs_nothing_of_the_others() -> None:
    files = file(1, (1, 1, 10), events=3), file(2, (1, 11, 15), events=50)
    assert lumis_of(jobs_of(EVENT_AWARE, *files, events_per_job=50)) == [((1, 1, 15),)]


def test_averages_that_round_to_zero_fill_a_job_in_the_end() -> None:
    files = [file(number, (1, number * 10 + 1, number * 10 + 10), events=4) for number in range(100)]
    jobs = jobs_of(EVENT_AWARE, *files, events_per_job=40)
    assert [job.events for job in jobs] == [40] * 10


def test_a_lumi_over_the_time_limit_is_an_error_that_names_it() -> None:
    files = file(1, (1, 1, 2), events=20), file(7, (5, 33, 33), (6, 1, 1), events=2000)
    with pytest.raises(UserError, match=r"lumi section 33 of run 5 in .*000007\.root .* 1000 s.* 999 s"):
        jobs_of(EVENT_AWARE, *files, request={"time_per_event_sec": 1}, job_time_limit_sec=999)
    assert jobs_of(EVENT_AWARE, *files, request={"time_per_event_sec": 1}, job_time_limit_sec=1000)


def test_a_lumi_over_the_time_limit_that_is_not_chosen_is_no_error() -> None:
    request = {"time_per_event_sec": 1, "run_blacklist": [5]}
    assert jobs_of(EVENT_AWARE, file(1, (1, 1, 1)), file(7, (5, 33, 33), events=10**9), request=request)


def test_measured_events_per_job_hold_from_then_on() -> None:
    planned = planned_from(EVENT_AWARE, [file(1, (1, 1, 10), events=1000)], events_per_job=1000)
    sizing = planned.sizing.model_copy(update={"events_per_job": 500})
    assert len(split(planned.model_copy(update={"sizing": sizing})).jobs) == 2


# Both.


@pytest.mark.parametrize("algorithm", [LUMI, EVENT_AWARE])
def test_files_without_lumis_are_reported(algorithm: str) -> None:
    plan = plan_round(planned_from(algorithm, [file(1, (1, 1, 1)), file(2)]))
    assert [numbers_of(job) for unit in plan.work_units for job in unit.jobs] == [[1]]
    (problem,) = plan.problems
    assert problem.startswith("1 files have no known lumi sections")
    assert "000002.root" in problem
    with pytest.raises(UserError, match="nothing to run: 1 files have no known lumi sections"):
        plan_round(planned_from(algorithm, [file(2)]))


places = st.sampled_from([HERE, THERE, SITES[:2], ()])
entries = st.lists(st.tuples(st.sampled_from([0, 1, 3, 50, 99, 1000]), contents, places), max_size=10)
masks = st.dictionaries(
    st.integers(1, 3).map(str),
    st.lists(st.tuples(numbered, numbered).map(sorted), min_size=1, max_size=3),
    max_size=3,
)
runs = st.sets(st.integers(1, 3), max_size=2)
rules = st.fixed_dictionaries({"halt_at_file_boundaries": st.booleans(), "split_on_run": st.booleans()})
sizes = st.one_of(
    st.tuples(st.just(LUMI), st.fixed_dictionaries({"lumis_per_job": st.integers(1, 9)})),
    st.tuples(
        st.just(EVENT_AWARE), st.fixed_dictionaries({"events_per_job": st.sampled_from([1, 20, 100, 900])})
    ),
)


def files_of(drawn: Any, spanning: bool = True) -> list[InputFile]:
    files, used = [], set()
    for number, (events, lumis, locations) in enumerate(drawn):
        kept = [lumi for lumi in single(lumis) if spanning or lumi not in used]
        used.update(kept)
        files.append(file(number, *((run, n, n) for run, n in kept), events=events, locations=locations))
    return files


def read_by(work: Split, files: Sequence[InputFile]) -> list[InputFile]:
    unread = {file.lfn for left_out in work.left_out for file in left_out.files}
    return [file for file in files if file.lfn not in unread]


@given(entries, sizes, rules, masks, runs, runs, st.randoms())
def test_every_chosen_lumi_is_in_exactly_one_job_with_all_its_files_and_nothing_else_is(
    drawn: Any, size: Any, rule: Any, mask: Any, white: set[int], black: set[int], random: Random
) -> None:
    (algorithm, params), files = size, files_of(drawn)
    black -= white
    request = {"lumi_mask": mask, "run_whitelist": list(white), "run_blacklist": list(black)}
    work = split(planned_from(algorithm, files, request, **params, **rule))

    def chosen(run: int, lumi: int) -> bool:
        in_mask = any(first <= lumi <= last for first, last in mask.get(str(run), ()))
        return (not white or run in white) and run not in black and (not mask or in_mask)

    holders: dict[tuple[int, int], set[str]] = {}
    for read in read_by(work, files):
        for lumi in single(read.lumis):
            if chosen(*lumi):
                holders.setdefault(lumi, set()).add(read.lfn)
    planned = [lumi for job in work.jobs for lumi in single(job.lumis)]
    assert sorted(planned) == sorted(holders)
    for job in work.jobs:
        lfns = [part.lfn for part in job.files]
        assert len(lfns) == len(set(lfns))
        assert set(lfns) == set().union(*(holders[lumi] for lumi in single(job.lumis)))
        assert job.lumis == joined(job.lumis or ())
        assert job.events == sum(part.events for part in job.files)
        located = {file.lfn: set(file.locations) for file in files}
        assert all(set(job.sites) <= located[lfn] for lfn in lfns)
    random.shuffle(files)
    assert split(planned_from(algorithm, files, request, **params, **rule)) == work


@given(entries, sizes, rules)
def test_the_jobs_of_a_file_together_read_all_its_events(drawn: Any, size: Any, rule: Any) -> None:
    (algorithm, params), files = size, files_of(drawn)
    work = split(planned_from(algorithm, files, **params, **rule))
    events: Counter[str] = Counter()
    for job in work.jobs:
        for part in job.files:
            events[part.lfn] += part.events
    assert events == Counter({file.lfn: file.events for file in read_by(work, files)})


@given(entries, sizes, rules)
def test_jobs_stay_within_run_file_and_size(drawn: Any, size: Any, rule: Any) -> None:
    (algorithm, params), files = size, files_of(drawn, spanning=False)
    costs = {
        lumi: round(file.events / len(single(file.lumis))) for file in files for lumi in single(file.lumis)
    }
    for job in jobs_of(algorithm, *files, **params, **rule):
        lumis = single(job.lumis)
        assert len({run for run, _ in lumis}) == 1 or not rule["split_on_run"]
        assert len(job.files) == 1 or not rule["halt_at_file_boundaries"]
        if algorithm == LUMI:
            assert len(lumis) <= params["lumis_per_job"]
        else:
            costly = [costs[lumi] for lumi in lumis if costs[lumi]]
            assert sum(costly) <= params["events_per_job"] or len(costly) == 1


@given(entries, st.integers(1, 9))
def test_only_the_last_job_at_a_place_is_smaller(drawn: Any, per_job: int) -> None:
    jobs = jobs_of(LUMI, *files_of(drawn), lumis_per_job=per_job, split_on_run=False)
    for job, after in pairwise(jobs):
        assert len(single(job.lumis)) == per_job or job.sites != after.sites


def kb(planned: Snapshot) -> float:
    return planned.sizing.size_per_event_kb


@given(entries, sizes, rules)
def test_a_file_is_in_one_work_unit_only(drawn: Any, size: Any, rule: Any) -> None:
    (algorithm, params), files = size, files_of(drawn)
    planned = planned_from(algorithm, files, {"merge_target_bytes": 10**5}, **params, **rule)
    if not split(planned).jobs:
        return
    plan = plan_round(planned)
    jobs = [job for unit in plan.work_units for job in unit.jobs]
    assert sorted(jobs) == sorted(split(planned, unit_budget(planned)).jobs)
    units = {(part.lfn, unit.number) for unit in plan.work_units for job in unit.jobs for part in job.files}
    assert len(units) == len({lfn for lfn, _ in units})
    oversized = [
        unit for unit in plan.work_units if unit.events * kb(planned) * 1000 > 10**5 and len(unit.jobs) > 1
    ]
    assert bool(oversized) == any("larger than the merge target" in problem for problem in plan.problems)


# Within the budget of a work unit.


def chained(count: int, lumis: int = 10, events: int = 100) -> list[InputFile]:
    """Files of one run, one after another."""
    return [
        file(number, (1, number * lumis + 1, (number + 1) * lumis), events=events) for number in range(count)
    ]


def unit_sizes(plan: RoundPlan) -> list[list[int]]:
    """The events of each job, in each work unit."""
    return [[job.events for job in unit.jobs] for unit in plan.work_units]


def planned_within(
    algorithm: str, files: Sequence[InputFile], jobs: int = 100, events: int = 10**9, **params: Any
) -> RoundPlan:
    planned = planned_from(algorithm, files, {"merge_target_bytes": events * 1000}, **params)
    sizing = planned.sizing.model_copy(update={"size_per_event_kb": 1.0})
    limits = planned.limits.model_copy(update={"jobs_per_work_unit": jobs})
    return plan_round(planned.model_copy(update={"sizing": sizing, "limits": limits}))


def test_jobs_that_cross_files_do_not_tie_all_files_into_one_work_unit() -> None:
    wanted = [[120, 120, 120, 40], [120, 120, 120, 40], [100]]
    plan = planned_within(LUMI, chained(9), events=400, lumis_per_job=12)
    assert unit_sizes(plan) == wanted
    plan = planned_within(EVENT_AWARE, chained(9), jobs=4, events_per_job=120)
    assert unit_sizes(plan) == wanted
    assert plan.problems == ()


def test_a_job_that_is_larger_than_a_work_unit_should_be_still_has_all_its_files() -> None:
    plan = planned_within(LUMI, chained(9), events=200, lumis_per_job=10**6)
    assert unit_sizes(plan) == [[900]]
    plan = planned_within(LUMI, chained(9), events=200, lumis_per_job=45)
    assert unit_sizes(plan) == [[400], [400], [100]]


def test_a_file_with_more_jobs_than_a_work_unit_should_have_is_alone_in_its_own() -> None:
    files = [file(1, (1, 1, 5)), file(2, (1, 6, 45)), file(3, (1, 46, 50))]
    plan = planned_within(LUMI, files, jobs=4, lumis_per_job=6)
    assert [sorted({n for job in unit.jobs for n in numbers_of(job)}) for unit in plan.work_units] == [
        [1],
        [2],
        [3],
    ]
    assert "larger than the merge target or have more than 4 jobs" in plan.problems[0]


def test_a_chain_that_ends_by_itself_leaves_the_next_one_all_its_room() -> None:
    """Of a run that begins anew, the first jobs are not shortened for what the run before it took."""
    files = [file(1, (1, 1, 30), events=300), *(file(n, (2, n * 10 + 1, n * 10 + 10)) for n in range(2, 6))]
    plan = planned_within(LUMI, files, events=400, lumis_per_job=12)
    assert unit_sizes(plan) == [[120, 120, 60], [120, 120, 120, 40]]


def test_files_that_share_a_lumi_and_lie_apart_tie_nothing_between_them() -> None:
    apart = [file(90, (1, 1, 1), (5, 7, 7), events=20), file(91, (5, 7, 8), events=20)]
    files = [*apart, *(file(n, (3, n * 10 + 1, n * 10 + 10)) for n in range(8))]
    plan = planned_within(LUMI, files, events=400, lumis_per_job=15, split_on_run=False)
    assert plan.problems == ()
    assert all(unit.events <= 400 for unit in plan.work_units)


def test_below_the_budget_of_one_work_unit_the_jobs_are_the_same_as_without_one() -> None:
    apart = [file(90, (1, 1, 1), (5, 7, 7), events=20), file(91, (5, 7, 8), events=20)]
    files = [*apart, *(file(n, (3, n * 10 + 1, n * 10 + 10)) for n in range(8))]
    for rule in ({}, {"split_on_run": False}):
        plan = planned_within(LUMI, files, lumis_per_job=15, **rule)
        jobs = [job for unit in plan.work_units for job in unit.jobs]
        assert sorted(jobs) == sorted(jobs_of(LUMI, *files, lumis_per_job=15, **rule))


@given(entries, sizes, rules, st.integers(1, 6), st.sampled_from([1, 50, 300, 2000]), st.randoms())
def test_work_units_are_within_their_budget_unless_a_single_job_or_family_of_files_exceeds_it(
    drawn: Any, size: Any, rule: Any, most_jobs: int, most_events: int, random: Random
) -> None:
    (algorithm, params), files = size, files_of(drawn)
    work = split(planned_from(algorithm, files, **params, **rule))
    if not work.jobs:
        return
    plan = planned_within(algorithm, files, most_jobs, most_events, **params, **rule)
    jobs = [job for unit in plan.work_units for job in unit.jobs]
    assert sorted(lumi for job in jobs for lumi in single(job.lumis)) == sorted(
        lumi for job in work.jobs for lumi in single(job.lumis)
    )
    known = [file.lfn for file in files]
    families = [{known[k] for k in family} for family in find_spanning([f.lumis for f in files]).families]
    for unit in plan.work_units:
        read = {part.lfn for job in unit.jobs for part in job.files}
        if len(unit.jobs) > 1 and (len(unit.jobs) > most_jobs or unit.events > most_events):
            assert len(read) == 1 or any(read <= family for family in families)
    random.shuffle(files)
    again = planned_within(algorithm, files, most_jobs, most_events, **params, **rule)
    assert again.work_units == plan.work_units


@given(entries, sizes, rules)
def test_a_budget_that_holds_everything_changes_no_job(drawn: Any, size: Any, rule: Any) -> None:
    (algorithm, params), files = size, files_of(drawn)
    planned = planned_from(algorithm, files, **params, **rule)
    assert split(planned, UnitBudget(10**6, 10**9)) == split(planned)
