"""Block lists, run lists and lumi masks; where files are read; what is left out."""

import gc
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.factories import SITES, input_file, reprocessing, snapshot
from wms2.core.planning import plan_round
from wms2.core.splitting import split
from wms2.core.splitting.pilot import pilot_files
from wms2.core.splitting.selection import Selection
from wms2.dagman.round_folder import write_round
from wms2.errors import UserError
from wms2.models.base import Lumi
from wms2.models.lumis import joined
from wms2.models.plan import InputFile, Snapshot

ALGORITHMS = ["FileBased", "EventBased", "LumiBased", "EventAwareLumiBased"]
BLOCKS = ["/MinBias/Run2024A-v1/RAW#1", "/MinBias/Run2024A-v1/RAW#2"]


def planned_from(algorithm: str, files: Sequence[InputFile], **request: Any) -> Snapshot:
    fields = {"splitting_params": {}, "time_per_event_sec": 0.001} | request
    return snapshot(reprocessing(splitting_algo=algorithm, **fields), inputs=tuple(files))


def read_by(planned: Snapshot) -> list[int]:
    """The files that jobs read."""
    return sorted({int(part.lfn[-11:-5]) for job in split(planned).jobs for part in job.files})


def three_runs() -> list[InputFile]:
    return [input_file(run, lumis=((run, 1, 10),)) for run in (1, 2, 3)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_runs_of_the_whitelist_are_read(algorithm: str) -> None:
    assert read_by(planned_from(algorithm, three_runs(), run_whitelist=[1, 3])) == [1, 3]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_runs_of_the_blacklist_are_not_read(algorithm: str) -> None:
    assert read_by(planned_from(algorithm, three_runs(), run_blacklist=[2])) == [1, 3]
    both = planned_from(algorithm, three_runs(), run_whitelist=[1, 3], run_blacklist=[2])
    assert read_by(both) == [1, 3]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_that_the_mask_does_not_name_is_not_read(algorithm: str) -> None:
    assert read_by(planned_from(algorithm, three_runs(), lumi_mask={"2": [[1, 10]]})) == [2]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_mask_and_run_lists_hold_together(algorithm: str) -> None:
    mask = {"1": [[1, 10]], "2": [[1, 10]]}
    planned = planned_from(algorithm, three_runs(), lumi_mask=mask, run_whitelist=[2, 3])
    assert read_by(planned) == [2]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_block_lists_choose_files(algorithm: str) -> None:
    files = [input_file(k, lumis=((1, k, k),), block=block) for k, block in enumerate(BLOCKS, 1)]
    assert read_by(planned_from(algorithm, files, block_whitelist=BLOCKS[:1])) == [1]
    without = planned_from(algorithm, files, block_blacklist=BLOCKS[:1])
    assert read_by(without) == [2]
    assert [told for told in plan_round(without).problems if told.startswith("1 files are in no block")]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_lists_and_masks_leave_out_is_told(algorithm: str) -> None:
    plan = plan_round(planned_from(algorithm, three_runs(), run_whitelist=[2]))
    assert [problem for problem in plan.problems if problem.startswith("2 files hold no lumi section that")]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_left_after_the_selection_is_a_clear_error(algorithm: str) -> None:
    with pytest.raises(
        UserError, match=r"nothing to run: 3 files hold no lumi section .* the lumi mask choose"
    ):
        plan_round(planned_from(algorithm, three_runs(), lumi_mask={"1": [[11, 12]], "7": [[1, 9]]}))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_files_of_unknown_content_are_reported_where_it_matters(algorithm: str) -> None:
    files = [*three_runs(), input_file(4)]
    by_run = split(planned_from(algorithm, files, run_blacklist=[9]))
    assert [str(left_out) for left_out in by_run.left_out if "no known lumi sections" in str(left_out)]
    by_block = split(planned_from(algorithm, [input_file(4)], block_blacklist=BLOCKS))
    assert [str(left_out) for left_out in by_block.left_out if "no known block" in str(left_out)]


def test_files_of_unknown_lumis_are_read_whole_where_nobody_asks_for_lumis() -> None:
    for algorithm in ("FileBased", "EventBased"):
        assert read_by(planned_from(algorithm, [input_file(4)])) == [4]


def test_file_based_jobs_carry_the_mask_for_their_files() -> None:
    files = [input_file(1, lumis=((1, 1, 10),)), input_file(2, lumis=((1, 11, 20), (2, 1, 5)))]
    planned = planned_from("FileBased", files, lumi_mask={"1": [[5, 12], [14, 30]]})
    (job,) = split(planned).jobs
    assert job.lumis == ((1, 5, 12), (1, 14, 20))
    assert [part.events for part in job.files] == [60, 60]
    (whole,) = split(planned_from("FileBased", files)).jobs
    assert whole.lumis is None


def test_event_based_jobs_cannot_read_some_lumis_of_a_file() -> None:
    files = [input_file(1, lumis=((1, 1, 10),)), input_file(2, lumis=((2, 1, 10),))]
    mask = {"1": [[1, 10]], "2": [[1, 9]]}
    with pytest.raises(
        UserError, match=r"cannot be split by events: of 1 files .*000002\.root.*use LumiBased"
    ):
        split(planned_from("EventBased", files, lumi_mask=mask))


def test_overlapping_pairs_of_a_mask_are_one_range() -> None:
    request = reprocessing(lumi_mask={"1": [[4, 9], [1, 5], [10, 12], [20, 30]]})
    assert Selection(request).part(((1, 2, 25),)) == ((1, 2, 12), (1, 20, 25))


spans = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 12)), max_size=6)


@given(spans, spans.filter(bool))
def test_a_mask_chooses_exactly_the_lumis_in_it(held: list[Any], masked: list[Any]) -> None:
    lumis = joined((1, first, first + more) for first, more in held)
    mask = {"1": [[first, first + more] for first, more in masked]}
    part = Selection(reprocessing(lumi_mask=mask)).part(lumis)
    wanted = {n for first, more in masked for n in range(first, first + more + 1)}
    listed = {n for _, first, last in lumis for n in range(first, last + 1)}
    assert {n for _, first, last in part for n in range(first, last + 1)} == wanted & listed
    assert joined(part) == joined(reversed(part))


def test_trusted_site_lists_run_files_wherever_they_are() -> None:
    files = [input_file(1, locations=()), input_file(2, locations=SITES[:1])]
    assert read_by(planned_from("FileBased", files)) == [2]
    (job,) = split(planned_from("FileBased", files, trust_sitelists=True)).jobs
    assert (job.sites, len(job.files)) == (SITES, 2)


# Work units.


def test_jobs_of_one_file_are_one_work_unit_however_large_and_that_is_told() -> None:
    files = [input_file(k, lumis=((1, 3 * k + 1, 3 * k + 3),)) for k in range(4)]
    tied = planned_from("LumiBased", files, splitting_params={"lumis_per_job": 2}, merge_target_bytes=1000)
    plan = plan_round(tied)
    assert [len(unit.jobs) for unit in plan.work_units] == [2, 2, 2, 2]
    assert [problem for problem in plan.problems if "mg_000000 with 2 jobs); more lumis_per_job" in problem]
    loose = planned_from("LumiBased", files, splitting_params={"lumis_per_job": 3}, merge_target_bytes=1000)
    assert [len(unit.jobs) for unit in plan_round(loose).work_units] == [1, 1, 1, 1]
    assert not plan_round(loose).problems


def test_a_file_that_comes_late_for_a_spanning_lumi_ties_distant_jobs() -> None:
    files = [input_file(k, lumis=((1, k, k),)) for k in range(1, 5)]
    files.append(input_file(9, lumis=((1, 1, 1), (1, 9, 9))))
    planned = planned_from(
        "LumiBased", files, splitting_params={"lumis_per_job": 1}, merge_target_bytes=160_000
    )
    units = plan_round(planned).work_units
    read = [[sorted(int(part.lfn[-11:-5]) for part in job.files) for job in unit.jobs] for unit in units]
    assert read == [[[1, 9], [9]], [[2]], [[3]], [[4]]]


# The pilot.


def test_the_pilot_takes_a_few_files_at_one_place() -> None:
    files = [input_file(k, locations=SITES[k % 2 : k % 2 + 1], lumis=((1, k, k),)) for k in range(1, 20)]
    for algorithm in ALGORITHMS:
        chosen = pilot_files(files, reprocessing(splitting_algo=algorithm, splitting_params={}), 3, SITES)
        assert [file.lumis[0][1] for file in chosen] == [1, 3, 5]


def test_the_pilot_takes_files_that_share_lumis_together_or_not_at_all() -> None:
    lumis = [((1, 1, 2),), ((1, 2, 3),), ((1, 5, 5),), ((1, 7, 7),), ((1, 7, 8),), ((1, 9, 9),)]
    files = [input_file(k, lumis=ranges) for k, ranges in enumerate(lumis)]
    request = reprocessing(splitting_algo="LumiBased", splitting_params={})
    assert pilot_files(files, request, 1, SITES) == files[:2]
    assert pilot_files(files, request, 4, SITES) == [*files[:3], files[5]]
    assert pilot_files(files, request, 5, SITES) == files[:5]


# How lumi sections are written.


def test_lumis_listed_one_by_one_become_ranges() -> None:
    listed = [
        {"run": 2, "lumi": 1, "events": 5},
        {"run": 1, "lumi": 3},
        {"run": 1, "lumi": 2, "events": None},
    ]
    file = input_file(1, lumis=listed)
    assert file.lumis == ((1, 2, 3), (2, 1, 1))
    assert input_file(1, lumis=tuple(Lumi.model_validate(lumi) for lumi in listed)) == file
    assert input_file(1, lumis=[[2, 1, 1], [1, 3, 3], [1, 2, 3]]) == file


def test_a_snapshot_comes_back_as_it_was() -> None:
    files = [input_file(1, lumis=((1, 2, 3), (2, 1, 1)), block=BLOCKS[0]), input_file(2)]
    planned = planned_from("LumiBased", files)
    again = Snapshot.model_validate_json(planned.model_dump_json())
    assert again == planned


@pytest.mark.parametrize("lumis", [[[1, 5, 4]], [[0, 1, 1]], [[1, 1]], [[1, 1, 2**32]], [{"run": 1}], 5])
def test_lumis_that_are_none_are_refused(lumis: Any) -> None:
    with pytest.raises(ValidationError, match="lumis"):
        input_file(1, lumis=lumis)
    text = json.dumps([{"lfn": "/store/a", "size_bytes": 1, "events": 1, "locations": [], "lumis": lumis}])
    with pytest.raises(ValidationError, match="lumis"):
        TypeAdapter(tuple[InputFile, ...]).validate_json(text)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 30), st.integers(0, 5)), max_size=8))
def test_joined_ranges_hold_the_same_lumis_in_order_and_never_touch(drawn: list[Any]) -> None:
    ranges = [(run, first, first + more) for run, first, more in drawn]
    whole = joined(ranges)
    assert {(run, n) for run, first, last in ranges for n in range(first, last + 1)} == {
        (run, n) for run, first, last in whole for n in range(first, last + 1)
    }
    assert all(before[0] < after[0] or before[2] + 1 < after[1] for before, after in pairwise(whole))
    assert input_file(1, lumis=tuple(ranges)).lumis == whole


def test_the_manifest_tells_each_node_its_lumis(tmp_path: Path) -> None:
    files = [input_file(1, lumis=((1, 1, 3), (1, 7, 7), (2, 1, 1)))]
    params = {"lumis_per_job": 4, "split_on_run": False}
    write_round(plan_round(planned_from("LumiBased", files, splitting_params=params)), tmp_path / "round")
    nodes = json.loads((tmp_path / "round/mg_000000/manifest.json").read_text())["nodes"]
    assert [node["lumis"] for node in nodes.values()] == [{"1": [[1, 3], [7, 7]]}, {"2": [[1, 1]]}]


def test_the_collector_of_garbage_is_as_it_was_after_splitting() -> None:
    split(planned_from("LumiBased", three_runs()))
    assert gc.isenabled()
    with pytest.raises(UserError):
        split(planned_from("EventAwareLumiBased", three_runs(), time_per_event_sec=10**6))
    assert gc.isenabled()


def test_a_pilot_passes_over_files_that_no_allowed_site_has() -> None:
    files = [input_file(0, locations=()), input_file(1, locations=("T2_DE_DESY",)), input_file(2)]
    chosen = pilot_files(files, reprocessing(), 5, ["T1_US_FNAL"])
    assert chosen == [files[2]]
    assert pilot_files(files, reprocessing(), 2, ["T2_CH_CERN"]) == files[:2], "so that planning can say why"
    trusting = reprocessing(trust_sitelists=True, site_whitelist=["T2_CH_CERN"])
    assert pilot_files(files, trusting, 1, ["T2_CH_CERN"]) == files[:1]


@given(
    st.sampled_from(ALGORITHMS),
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 9)), min_size=1, max_size=12),
    st.integers(1, 120),
    st.integers(0, 4),
)
def test_a_unit_is_planned_with_all_events_of_its_files_only_when_all_of_them_are_to_be_read(
    algorithm: str, sizes: list[tuple[int, int]], per_job: int, cut: int
) -> None:
    """What is read is held against the catalogue only then. Neighbours share a lumi section."""
    files = {}
    for number, (events, lumis) in enumerate(sizes):
        file = input_file(number, events=events, lumis=((1, 5 * number + 1, 5 * number + lumis),))
        files[file.lfn] = file
    splitting = {
        "FileBased": {"files_per_job": 1 + per_job % 4},
        "LumiBased": {"lumis_per_job": 1 + per_job % 7},
    }.get(algorithm, {"events_per_job": per_job})
    # EventBased refuses to cut files.
    mask = {"1": [[1, 1000 if algorithm == "EventBased" else 5 * len(sizes) - cut]]}
    planned = planned_from(algorithm, list(files.values()), splitting_params=splitting, lumi_mask=mask)
    selection = Selection(planned.request)
    for unit in plan_round(planned).work_units:
        own = [files[lfn] for lfn in {part.lfn for job in unit.jobs for part in job.files}]
        whole = all(selection.part(file.lumis) == file.lumis for file in own if file.events)
        assert (unit.events == sum(file.events for file in own)) == whole
