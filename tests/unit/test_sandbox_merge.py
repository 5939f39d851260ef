"""Merging and cleaning up: no event lost, no file left, nothing touched that was not named."""

import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from post_script.outputs import possible_files
from sandbox.manifest import MergeFile
from sandbox.merge import added_lumis, groups
from tests.unit.sandbox_kit import (
    CLUSTER,
    PREFIX,
    Finished,
    Record,
    Site,
    event_range,
    manifest,
    output,
    step,
)
from wms2.local.payload import check, make_inputs

MERGED = "/store/mc/Era/Prim/GEN-SIM/proc-v1/000003"
UNMERGED = "/store/unmerged/Era/Prim/GEN-SIM/proc-v1/000003"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def unmerged(site: Site, sizes: list[int], folder: str = "unit", **options: Any) -> list[Record]:
    """Files as accepted reports describe them."""
    entries: list[Record] = []
    for number, events in enumerate(sizes):
        base = f"{UNMERGED}/{folder}_{number}"
        [made] = make_inputs(site.storage.parent, 1, events, locations=[site.name], base=base, **options)
        data = site.path(made["lfn"]).read_bytes()
        entries.append(
            {
                **output(),
                "node": f"proc_{number:06d}",
                "lfn": made["lfn"],
                "size_bytes": len(data),
                "events": events,
                "adler32": f"{zlib.adler32(data):08x}",
                "lumis": made["lumis"],
                "parents": [f"/store/data/parent_{number % 2}.root"],
            }
        )
    return entries


def run(
    site: Site, mode: str, files: list[Record], leftovers: tuple[str, ...] = (), **changes: Any
) -> Finished:
    merge_input = {"version": 1, "files": files, "leftovers": list(leftovers)}
    return site.run(mode, mode, site.job_folder(manifest=manifest(**changes), merge_input=merge_input))


def test_merging_really_merges_and_keeps_every_event(site: Site) -> None:
    plan = manifest(nodes={f"proc_{n:06d}": event_range(1 + 100 * n, 100 + 100 * n) for n in range(3)})
    files = []
    for node in reversed(plan["nodes"]):
        job = site.process(plan, node)
        files += [{**entry, "node": node} for entry in job.report["outputs"]]
    job = run(site, "merge", files)
    assert job.status == 0, job.stderr
    [entry] = job.report["outputs"]
    assert entry["lfn"] == f"{MERGED}/{PREFIX}_mg_000003_{CLUSTER}_0.root"
    found = check([site.path(entry["lfn"])])
    assert list(found.numbers) == list(range(1, 301))
    assert (found.wrong_values, entry["events"]) == (0, 300)
    assert entry["merged_from"] == sorted(file["lfn"] for file in files)
    assert entry["adler32"] == f"{zlib.adler32(site.path(entry['lfn']).read_bytes()):08x}"
    assert sum(item["events"] for item in entry["lumis"]) == 300
    assert len(site.files()) == 4


def test_a_merge_has_one_thread_however_many_the_steps_have(site: Site) -> None:
    files = unmerged(site, [10, 20])
    job = run(site, "merge", files, steps=[step(cores=4)], cores=8)
    assert [entry["threads"] for entry in job.report["steps"]] == [1]


def test_large_files_are_copied_and_small_ones_merged_up_to_the_target(site: Site) -> None:
    files = unmerged(site, [2000, 10, 20, 30])
    job = run(site, "merge", files, merge_target_bytes=files[0]["size_bytes"] + 1)
    assert job.status == 0, job.stderr
    copied, merged = job.report["outputs"]
    assert (copied["merged_from"], copied["adler32"]) == ([files[0]["lfn"]], files[0]["adler32"])
    assert (merged["events"], len(merged["merged_from"])) == (60, 3)
    assert check([site.path(merged["lfn"])]).events == 60
    assert merged["parents"] == ["/store/data/parent_0.root", "/store/data/parent_1.root"]
    assert [s["name"] for s in job.report["steps"]] == ["merge"]


def test_each_dataset_is_merged_by_itself(site: Site) -> None:
    files = unmerged(site, [10, 20])
    other = output("DQMoutput", "GEN", "DQMIO")
    files[1] |= {"dataset": other["dataset"], "module": other["module"]}
    job = run(site, "merge", files, outputs=[output(), other])
    assert [entry["dataset"] for entry in job.report["outputs"]] == [output()["dataset"], other["dataset"]]
    assert [Path(entry["lfn"]).name[-6] for entry in job.report["outputs"]] == ["0", "1"]


def test_merged_files_have_names_that_can_be_told_without_a_report(site: Site) -> None:
    files = unmerged(site, [10, 20, 10, 5])
    other = output("DQMoutput", "GEN", "DQMIO")
    files[3] |= {"dataset": other["dataset"], "module": other["module"]}
    outputs, target = [output(), other], files[1]["size_bytes"]
    job = run(site, "merge", files, outputs=outputs, merge_target_bytes=target)
    made = {entry["lfn"] for entry in job.report["outputs"]}
    assert len(made) > len(outputs)
    possible = possible_files(manifest(outputs=outputs), {"files": files}, "merge", CLUSTER)
    assert made <= set(possible)


def test_files_without_events_merge_as_well(site: Site) -> None:
    job = run(site, "merge", unmerged(site, [0, 10, 0]))
    assert job.status == 0, job.stderr
    assert check([site.path(job.report["outputs"][0]["lfn"])]).events == 10


def test_a_merge_that_loses_an_event_fails_and_leaves_nothing(site: Site) -> None:
    losing = {"type": "demo", "parameters": {"faults": [{"step": "merge", "lose_event": True}]}}
    files = unmerged(site, [10, 20])
    before = site.files()
    job = run(site, "merge", files, merge=losing)
    assert (job.report["exit_code"], job.fjr_code, job.report["failed_step"]) == (8023, 8023, "merge")
    assert site.files() == before


def test_a_file_with_other_events_than_reported_fails_the_merge(site: Site) -> None:
    files = unmerged(site, [10, 20])
    files[0]["events"] = 11
    assert run(site, "merge", files).report["exit_code"] == 8023


def test_files_with_different_branches_do_not_merge(site: Site) -> None:
    files = unmerged(site, [10]) + unmerged(site, [10], folder="other", kb_per_event=0.3)
    assert run(site, "merge", files).report["exit_code"] == 8023


@pytest.mark.parametrize("damage", ["gone", "shorter", "changed"])
def test_an_unmerged_file_that_is_not_as_staged_out_is_named(site: Site, damage: str) -> None:
    files = unmerged(site, [10, 20])
    path = site.path(files[1]["lfn"])
    data = path.read_bytes()
    path.write_bytes(data[:-1] if damage == "shorter" else data[:-1] + b"!")
    if damage == "gone":
        path.unlink()
    job = run(site, "merge", files)
    assert job.report["exit_code"] == (8020 if damage == "gone" else 8021)
    assert job.report["bad_input_files"] == [files[1]["lfn"]]


def test_a_failing_merge_step_gives_its_long_code(site: Site) -> None:
    failing = {"type": "demo", "parameters": {"faults": [{"node": "merge", "exit_code": 8002}]}}
    job = run(site, "merge", unmerged(site, [10, 20]), merge=failing)
    assert (job.status, job.report["exit_code"]) == (8002 % 256, 8002)


def test_a_fault_of_the_processing_steps_does_not_strike_the_merge(site: Site) -> None:
    plan = {"steps": [step(faults=[{"exit_code": 8021, "at_site": site.name}])]}
    assert run(site, "merge", unmerged(site, [10, 20]), **plan).status == 0


def test_nothing_to_merge_is_a_failure(site: Site) -> None:
    assert run(site, "merge", []).report["exit_code"] == 60302


def test_a_dataset_that_is_no_output_of_the_request_is_refused(site: Site) -> None:
    files = unmerged(site, [10])
    files[0]["dataset"] = "/Other/Era-proc-v1/GEN-SIM"
    assert run(site, "merge", files).report["exit_code"] == 7002


def test_clean_up_removes_what_is_named_and_nothing_else(site: Site) -> None:
    files = unmerged(site, [10, 20])
    stray, other = f"{UNMERGED}/left/by_an_attempt.root", f"{UNMERGED}/left/of_another.root"
    for lfn in (stray, other):
        site.path(lfn).parent.mkdir(parents=True, exist_ok=True)
        site.path(lfn).write_text("x")
    gone = f"{UNMERGED}/gone/already.root"
    job = run(site, "cleanup", files, leftovers=(stray, gone))
    assert (job.status, job.report["exit_code"], job.fjr_code) == (0, 0, 0)
    assert job.report["removed"] == [*(file["lfn"] for file in files), stray, gone]
    assert job.report["left"] == []
    assert site.files() == [other]
    assert not site.path(files[0]["lfn"]).parent.exists()


def test_clean_up_tells_what_it_could_not_remove_and_succeeds(site: Site) -> None:
    files = unmerged(site, [10, 20])
    path = site.path(files[0]["lfn"])
    path.unlink()
    path.mkdir()
    job = run(site, "cleanup", files)
    assert (job.status, job.report["removed"]) == (0, [files[1]["lfn"]])
    [left] = job.report["left"]
    assert left["lfn"] == files[0]["lfn"]
    assert "directory" in left["reason"]


def test_clean_up_without_a_storage_leaves_everything_and_succeeds(site: Site) -> None:
    files = unmerged(site, [10])
    (site.siteconf / "storage.json").unlink()
    job = run(site, "cleanup", files)
    assert (job.status, job.report["exit_code"]) == (0, 0)
    assert [item["lfn"] for item in job.report["left"]] == [files[0]["lfn"]]
    assert "storage.json" in job.report["exit_message"]


def merge_file(number: int, size: int) -> MergeFile:
    lumis = ({"run": 1, "lumi": number // 2, "events": size},)
    return MergeFile(
        f"proc_{number:06d}", "m", "/A/B-v1/C", f"/store/{number}", size, size, "0" * 8, lumis, ()
    )


@given(sizes=st.lists(st.integers(1, 150), max_size=30), target=st.integers(1, 200))
def test_groups_hold_every_file_once_and_stay_below_the_target(sizes: list[int], target: int) -> None:
    files = [merge_file(number, size) for number, size in enumerate(sizes)]
    made = groups(reversed(files), target, 0.75)
    assert sorted((file for group in made for file in group), key=lambda file: file.node) == files
    for group in made:
        assert group == sorted(group, key=lambda file: file.node)
        assert len(group) == 1 or sum(file.size_bytes for file in group) <= target
        assert len(group) == 1 or all(file.size_bytes < 0.75 * target for file in group)


@given(sizes=st.lists(st.integers(1, 150), max_size=30))
def test_lumis_add_up(sizes: list[int]) -> None:
    lumis = added_lumis([merge_file(number, size) for number, size in enumerate(sizes)])
    assert sum(item["events"] for item in lumis) == sum(sizes)
    assert len(lumis) == len({(item["run"], item["lumi"]) for item in lumis}) == -(-len(sizes) // 2)
