"""The rules of sizing: memory, length, time, disk, and an operator's word over all of them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.steps import STEP_TYPES
from tests.factories import input_file, reprocessing, simulation, snapshot
from wms2.core.planning import plan_round
from wms2.core.sizing import (
    DEFAULT_EVENTS_PER_JOB,
    LEAST_DISK_MB,
    LEAST_MB_PER_CORE,
    MOST_CHANGE,
    MOST_DISK_MB_PER_CORE,
    MOST_MB_PER_CORE,
    OPENS_ADDRESSES,
    ROUNDING,
    events_per_job,
    memory_mb,
    merge_disk_mb,
    next_sizing,
    processing_disk_mb,
    retuned,
    size_mistakes,
    sizing_of,
)
from wms2.models.messages import SizeAction
from wms2.models.plan import Job, RoundPlan, Sizing, WorkUnit
from wms2.models.request import Request
from wms2.models.sizing import KnownSizing, MeasuredRound, MeasuredSizing, SizingOverride

HOURS_8 = 28800


def figures(**changes: Any) -> dict[str, Any]:
    found = {
        "time_per_event_sec": 10.0,
        "startup_sec": 0.0,
        "peak_rss_mb": 2000,
        "size_per_event_kb": 300.0,
        "merged_kb_per_event": 200.0,
        "written_kb_per_event": 900.0,
    }
    return found | changes


def measured(**changes: Any) -> MeasuredSizing:
    return MeasuredSizing(**(figures(events_per_job=2800) | changes))


def measured_round(**changes: Any) -> MeasuredRound:
    return MeasuredRound(**(figures(jobs=10, job_sec=HOURS_8) | changes))


def known(override: dict[str, Any] | None = None, **changes: Any) -> KnownSizing:
    return KnownSizing(measured=measured(**changes), override=SizingOverride(**(override or {})))


def decided(**fields: Any) -> KnownSizing:
    return KnownSizing(override=SizingOverride(**fields))


def chain(*steps: dict[str, Any], **changes: Any) -> Request:
    named = [
        {"name": name, "type": "cmsRun", "parameters": {"pset": "config.py", **step}}
        for name, step in zip(("GEN", "SIM", "RECO"), steps, strict=False)
    ]
    fields = {"cmssw_version": "CMSSW_14_0_0", "scram_arch": ["el9_amd64_gcc12"]} | changes
    return simulation(payload_config={"steps": named}, **fields)


# Memory


@pytest.mark.parametrize(
    ("peak", "cores", "memory"), [(500, 1, 2000), (2000, 1, 2400), (9000, 1, 3000), (9000, 4, 10800)]
)
def test_memory_is_a_fifth_above_the_peak_within_what_sites_offer(peak: int, cores: int, memory: int) -> None:
    assert memory_mb(peak, cores) == memory


@given(peak=st.integers(1, 10**6), cores=st.integers(1, 256))
def test_measured_memory_always_fits_the_cores_it_is_asked_with(peak: int, cores: int) -> None:
    asked = memory_mb(peak, cores)
    assert LEAST_MB_PER_CORE * cores <= asked <= MOST_MB_PER_CORE * cores
    if asked < MOST_MB_PER_CORE * cores:
        assert asked >= math.floor(peak * 1.2)


def test_the_requestors_memory_holds_as_it_is_until_something_is_measured() -> None:
    request = simulation(memory_mb=500)
    assert sizing_of(request, None).memory_mb == 500
    assert sizing_of(request, None).peak_rss_mb is None
    sizing = sizing_of(request, known(peak_rss_mb=2000))
    assert (sizing.memory_mb, sizing.peak_rss_mb) == (2400, 2000)


def test_the_highest_peak_of_all_rounds_counts() -> None:
    after = next_sizing(measured_round(peak_rss_mb=1500), 2800, measured(peak_rss_mb=2200), HOURS_8)
    assert after.peak_rss_mb == 2200
    assert next_sizing(measured_round(peak_rss_mb=2300), 2800, after, HOURS_8).peak_rss_mb == 2300


# Length


@given(before=st.integers(1, 10**9), wanted=st.integers(1, 10**9))
def test_events_per_job_go_towards_what_is_wanted_by_at_most_the_factor_in_hundreds(
    before: int, wanted: int
) -> None:
    after = retuned(before, wanted)
    assert before <= after * MOST_CHANGE
    assert after <= before * MOST_CHANGE
    assert after <= max(wanted, math.ceil(before / MOST_CHANGE) + ROUNDING)
    assert after < ROUNDING or after % ROUNDING == 0 or after == before * MOST_CHANGE


@given(
    per_event=st.floats(0.001, 1e5),
    startup=st.floats(0, 7200),
    before=st.integers(1, 10**8),
    rounds=st.just(40),
)
def test_jobs_reach_the_target_after_some_rounds_and_stay_there(
    per_event: float, startup: float, before: int, rounds: int
) -> None:
    length = before
    for _ in range(rounds):
        found = measured_round(time_per_event_sec=per_event, startup_sec=startup)
        length = next_sizing(found, length, None, HOURS_8).events_per_job
    assert length == 1 or startup + length * per_event <= HOURS_8
    assert startup + (length + ROUNDING + 1) * per_event > HOURS_8
    assert next_sizing(found, length, None, HOURS_8).events_per_job == length


@pytest.mark.parametrize(("per_event", "events"), [(1000.0, 28), (288.5, 99), (10.0, 2800), (1e9, 1)])
def test_a_job_is_filled_with_events_up_to_eight_hours(per_event: float, events: int) -> None:
    assert (
        next_sizing(measured_round(time_per_event_sec=per_event), events, None, HOURS_8).events_per_job
        == events
    )


def test_what_a_job_needs_to_start_leaves_less_time_for_events() -> None:
    found = measured_round(time_per_event_sec=10.0, startup_sec=4800.0)
    assert next_sizing(found, 2400, None, HOURS_8).events_per_job == 2400


def test_the_request_says_how_long_jobs_are_until_something_is_measured() -> None:
    assert events_per_job(simulation(), None) == 100
    assert events_per_job(reprocessing(), None) == DEFAULT_EVENTS_PER_JOB
    assert events_per_job(simulation(), known(events_per_job=700)) == 700


# Steps


def test_a_job_asks_for_the_largest_of_its_steps() -> None:
    request = chain(
        {"memory_mb": 4000, "cores": 2}, {"memory_mb": 16000, "cores": 8}, {"cores": 4}, memory_mb=3000
    )
    sizing = sizing_of(request, None)
    assert (sizing.memory_mb, sizing.cores) == (16000, 8)
    assert sizing_of(request, known(peak_rss_mb=100)).memory_mb == 8 * LEAST_MB_PER_CORE


# Disk


def planned(
    request: Request, sizing: Sizing | None = None, units: list[list[int]] | None = None
) -> RoundPlan:
    """Units of jobs that have so many events each, or that read one file each, of 3 GB."""
    plan = snapshot(request, sizing=sizing or sizing_of(request, None))
    if not request.is_simulation:
        return plan_round(plan.model_copy(update={"inputs": (input_file(1, size=3 * 10**9),)}))
    return RoundPlan(
        plan,
        tuple(WorkUnit(n, (), tuple(Job(e) for e in unit), 0) for n, unit in enumerate(units or [[100]])),
    )


def test_disk_is_what_the_largest_job_writes_with_a_margin() -> None:
    sizing = sizing_of(simulation(), known(written_kb_per_event=2000.0, size_per_event_kb=1.0))
    assert processing_disk_mb(planned(simulation(), sizing, [[100], [1000, 1]])) == 4000


def test_before_anything_is_measured_each_step_is_taken_to_write_as_much_as_the_outputs_have() -> None:
    request = chain({}, {}, {}, size_per_event_kb=1000.0)
    assert processing_disk_mb(planned(request, units=[[1000]])) == 2 * 3 * 1000


def test_inputs_count_only_when_they_are_copied_to_the_machine() -> None:
    software = {"cmssw_version": "CMSSW_14_0_0", "scram_arch": ["el9_amd64_gcc12"]}
    opens = reprocessing(
        payload_config={"steps": [{"name": "RECO", "type": "cmsRun", "parameters": {"pset": "c.py"}}]},
        **software,
    )
    assert processing_disk_mb(planned(opens)) == LEAST_DISK_MB
    assert processing_disk_mb(planned(reprocessing())) == 6000


def test_planning_knows_which_steps_open_addresses_as_the_sandbox_does() -> None:
    assert {name for name, kind in STEP_TYPES.items() if kind.OPENS_ADDRESSES} == OPENS_ADDRESSES


@given(events=st.integers(1, 10**9), size=st.floats(0.001, 1e6), cores=st.integers(1, 64))
def test_disk_stays_within_what_a_job_can_be_matched_with(events: int, size: float, cores: int) -> None:
    request = simulation(size_per_event_kb=size, cores=cores)
    plan = planned(request, units=[[events, events]])
    assert LEAST_DISK_MB <= processing_disk_mb(plan) <= MOST_DISK_MB_PER_CORE * cores
    assert LEAST_DISK_MB <= merge_disk_mb(plan) <= MOST_DISK_MB_PER_CORE


def test_a_merge_asks_for_its_inputs_and_its_output_one_merged_file_at_a_time() -> None:
    """Whatever all units of the round have together, and however large the other outputs are."""
    sizing = sizing_of(simulation(), known(merged_kb_per_event=100.0, size_per_event_kb=150.0))
    request = simulation(merge_target_bytes=2 * 10**9)
    assert merge_disk_mb(planned(request, sizing, [[1000] * 10] * 5)) == 2 * 2 * 1000
    assert merge_disk_mb(planned(request, sizing, [[1000] * 100])) == 2 * 2 * 2000
    # A single file may be larger than the target, and is not cut.
    assert merge_disk_mb(planned(request, sizing, [[30_000, 1000]])) == 2 * 2 * 3000


# Work units


def test_a_work_unit_is_filled_by_the_largest_output_alone() -> None:
    """Forty events at 100 kB make the target; all outputs together would have made it at twenty."""
    request = simulation(
        total_events=120,
        merge_target_bytes=4_000_000,
        splitting_params={"events_per_job": 10, "events_per_lumi": 10},
    )
    figures = {"merged_kb_per_event": 100.0, "size_per_event_kb": 200.0, "events_per_job": 10}
    plan = plan_round(snapshot(request, sizing=sizing_of(request, known(**figures))))
    assert [unit.events for unit in plan.work_units] == [40, 40, 40]
    whole = plan_round(
        snapshot(request, sizing=sizing_of(request, known({"size_per_event_kb": 200.0}, **figures)))
    )
    assert [unit.events for unit in whole.work_units] == [20] * 6


# An operator's word


def test_an_operators_word_holds_over_the_request_and_over_measurements_for_the_given_fields_only() -> None:
    request = simulation(memory_mb=3000, cores=2)
    assert sizing_of(request, decided(memory_mb=5000)) == sizing_of(request, None).model_copy(
        update={"memory_mb": 5000}
    )
    sizing = sizing_of(request, known({"time_per_event_sec": 99.0, "disk_mb": 7000}))
    assert (sizing.time_per_event_sec, sizing.startup_sec, sizing.disk_mb) == (99.0, 0.0, 7000)
    assert (sizing.peak_rss_mb, sizing.size_per_event_kb) == (2000, 300.0)
    assert processing_disk_mb(planned(request, sizing, [[10**6]])) == 7000


def test_memory_that_was_measured_is_bounded_by_the_cores_that_were_decided() -> None:
    sizing = sizing_of(simulation(cores=1), known({"cores": 4}, peak_rss_mb=9000))
    assert (sizing.cores, sizing.memory_mb) == (4, 10800)


def test_a_decided_size_replaces_what_was_measured_of_single_outputs() -> None:
    sizing = sizing_of(simulation(), known({"size_per_event_kb": 50.0}))
    assert (sizing.merged_kb_per_event, sizing.written_kb_per_event) == (None, None)


def test_a_decided_memory_is_no_prediction_of_a_peak() -> None:
    assert sizing_of(simulation(), known({"memory_mb": 4000})).peak_rss_mb is None


def test_decided_events_per_job_reach_the_plan() -> None:
    request = simulation()
    assert events_per_job(request, known({"events_per_job": 50})) == 50
    plan = plan_round(snapshot(request, sizing=sizing_of(request, decided(events_per_job=50))))
    assert {job.events for unit in plan.work_units for job in unit.jobs} == {50}


def asked(clear: bool = False, **fields: Any) -> SizeAction:
    return SizeAction(actor="a", action_id="1", clear=clear, change=SizingOverride(**fields))


def test_every_mistake_of_an_operator_is_named() -> None:
    word = asked(clear=True, memory_mb=-1, cores=300, time_per_event_sec=0.0, events_per_job=5)
    found = "; ".join(size_mistakes(word, reprocessing()))
    for part in ("memory_mb is -1", "cores is 300", "time_per_event_sec is 0", "events_per_job", "clear"):
        assert part in found
    assert size_mistakes(asked()) == ["nothing was given that could be changed"]
    assert size_mistakes(asked(size_per_event_kb=float("nan"))) != []
    assert size_mistakes(asked(memory_mb=4000, events_per_job=5), simulation()) == []
    assert size_mistakes(asked(clear=True)) == []


def test_words_add_up_until_they_are_cleared() -> None:
    first = asked(memory_mb=4000, cores=2).applied_to(SizingOverride())
    second = asked(cores=8).applied_to(first)
    assert second == SizingOverride(memory_mb=4000, cores=8)
    assert asked(clear=True).applied_to(second) == SizingOverride()
