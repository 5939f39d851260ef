"""What a round left on storage: which files go, and which never."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import simulation, snapshot
from wms2.core.planning import plan_round
from wms2.core.removals import UnitLeavings, files_to_remove, left_in_words, shared_out, strange_files
from wms2.dagman.outputs import produced_units
from wms2.dagman.removals import NO_WORD, leavings, rounds_to_sweep, sweep_jobs, write_list
from wms2.dagman.round_folder import RoundFile, write_round
from wms2.models.removal import FileList, LeftFile

SITES = ["T1_US_FNAL", "T2_DE_DESY", "T2_US_Purdue"]
UNMERGED, MERGED = "/store/unmerged/A/000000", "/store/mc/A/000000"
OWN = (f"{UNMERGED}/0a1b2c3d_", f"{MERGED}/0a1b2c3d_")
NAMES = [
    *(f"{start}{number}.root" for start in OWN for number in range(3)),
    f"{MERGED}/ffffffff_1.root",
    f"{OWN[0]}deep/1.root",
    "/store/data/input.root",
]

files = st.builds(LeftFile, lfn=st.sampled_from(NAMES), site=st.sampled_from(SITES))
units = st.builds(
    UnitLeavings,
    named=st.lists(files),
    removed=st.sets(st.tuples(st.sampled_from(SITES), st.sampled_from(NAMES))),
    own=st.sampled_from([OWN, OWN[:1], ()]),
)


@given(st.lists(units), st.sets(st.sampled_from(NAMES)))
def test_a_credited_file_and_a_file_that_is_not_the_units_own_are_never_removed(
    left: list[UnitLeavings], credited: set[str]
) -> None:
    removed = files_to_remove(left, credited)
    assert not {file.lfn for file in removed} & credited
    assert all(file.lfn.startswith(OWN) and file.lfn.count("/") == 5 for file in removed)


@given(st.lists(units), st.sets(st.sampled_from(NAMES)))
def test_all_else_that_was_left_is_removed_once_or_told_of(
    left: list[UnitLeavings], credited: set[str]
) -> None:
    removed = [(file.site, file.lfn) for file in files_to_remove(left, credited)]
    assert len(removed) == len(set(removed))
    strange = {(file.site, file.lfn) for file in strange_files(left)}
    for unit in left:
        for file in unit.named:
            key = (file.site, file.lfn)
            assert key in removed or key in strange or key in unit.removed or file.lfn in credited


@given(st.sets(st.tuples(st.sampled_from(SITES), st.integers(0, 50))), st.integers(1, 7))
def test_each_job_has_a_bounded_list_of_files_at_one_site(left: set[tuple[str, int]], most: int) -> None:
    asked = [LeftFile(lfn=f"{OWN[0]}{number}.root", site=site) for site, number in left]
    jobs = shared_out(asked, most)
    assert sorted(file.lfn for job in jobs for file in job) == sorted(file.lfn for file in asked)
    assert all(len(job) <= most and len({file.site for file in job}) == 1 for job in jobs)
    assert shared_out(reversed(asked), most) == jobs
    assert len(jobs) == sum(-(-sum(at == site for at, _ in left) // most) for site in SITES)


def test_people_are_told_how_many_files_are_left_where_and_why() -> None:
    left = [
        LeftFile(lfn=NAMES[0], site=site, reason="it is down") for site in [*SITES, "T2_IT_Pisa", SITES[1]]
    ]
    assert left_in_words(7, left) == (
        "files of round 7 are left on storage and could not be removed: "
        "2 at T2_DE_DESY, 1 at T1_US_FNAL, 1 at T2_US_Purdue and 1 more sites; it is down"
    )


class Folder:
    """A planned round of one work unit, in which a test writes what came back."""

    def __init__(self, place: Path) -> None:
        self.path = place / "simulation" / "round_00"
        self.planned: RoundFile = write_round(plan_round(snapshot(simulation())), self.path)
        self.unit = self.path / self.planned.work_units[0].name
        (output, *_) = json.loads((self.unit / "manifest.json").read_text())["outputs"]
        self.dataset, prefix = output["dataset"], output["file_prefix"]
        self.unmerged = f"{output['unmerged_base']}/{prefix}_proc_000000_7_out.root"
        self.merged = f"{output['merged_base']}/{prefix}_mg_000000_9_0.root"

    def write(self, name: str, **record: Any) -> None:
        (self.unit / name).write_text(json.dumps({"version": 1, "site": SITES[0], **record}))

    def produce(self) -> None:
        file = {"dataset": self.dataset, "lfn": self.merged, "size_bytes": 1, "events": 1, "adler32": "0" * 8}
        self.write(
            "merge_output.json", request="simulation", round=0, work_unit=0, cluster=9, metrics={}, nodes={},
            files=[{**file, "lumis": [], "parents": []}],
        )  # fmt: skip
        assert len(list(produced_units(self.path, self.planned))) == 1

    def left(self, *credited: str) -> list[str]:
        return [file.lfn for file in files_to_remove(leavings(self.path, self.planned), credited)]


def staged(*lfns: str) -> list[dict[str, Any]]:
    return [{"lfn": lfn, "events": 1} for lfn in lfns]


def test_of_a_work_unit_that_was_not_produced_all_that_its_attempts_staged_out_is_left(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    accepted, begun = folder.unmerged, folder.unmerged.replace("_7_", "_8_")
    folder.write("proc_000000.7.post.json", produced={"outputs": staged(accepted), "site": SITES[0]})
    folder.write("proc_000001.8.report.json", outputs=[], left=[{"lfn": begun, "reason": "it was killed"}])
    folder.write("merge.9.report.json", outputs=staged(folder.merged), left=[])
    assert folder.left() == sorted([accepted, begun, folder.merged])


def test_of_an_attempt_that_left_no_report_what_there_may_be_is_left(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("proc_000000.7.post.json", produced=None, left=[{"lfn": folder.unmerged, "site": SITES[1]}])
    (unit,) = (found for found in leavings(folder.path, folder.planned) if found.named)
    assert [(file.lfn, file.site) for file in files_to_remove([unit], ())] == [(folder.unmerged, SITES[1])]


def test_of_a_work_unit_that_was_produced_and_cleaned_up_only_what_its_cleanup_lists_is_left(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    folder.produce()
    folder.write("proc_000000.7.report.json", outputs=staged(folder.unmerged))
    earlier = folder.merged.replace("_9_", "_6_")
    folder.write("removals.json", files=[{"lfn": earlier, "site": SITES[1], "reason": "not accepted"}])
    assert folder.left(folder.merged) == [earlier]
    (listed,) = leavings(folder.path, folder.planned)[0].named
    assert (listed.site, listed.reason) == (SITES[1], "not accepted")


def test_of_a_work_unit_whose_cleanup_left_no_list_what_it_removed_is_not_looked_for_again(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    folder.produce()
    other = folder.unmerged.replace("_7_", "_8_")
    folder.write("proc_000000.7.report.json", outputs=staged(folder.unmerged, other))
    folder.write("merge.9.report.json", outputs=staged(folder.merged))
    folder.write("cleanup.10.report.json", removed=[folder.unmerged], left=[])
    assert folder.left(folder.merged) == [other]


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["lfn", "site", "outputs", "x"]), inner),
)


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("spoiled"))


@given(
    record=st.dictionaries(st.sampled_from(["outputs", "left", "removed", "produced", "files", "site"]), junk)
)
def test_records_that_make_no_sense_name_no_file(spoiled: Folder, record: dict[str, Any]) -> None:
    for name in ("proc_000000.7.report.json", "proc_000000.7.post.json", "removals.json"):
        (spoiled.unit / name).write_text(json.dumps(record))
    assert spoiled.left() == []


def test_a_round_whose_records_are_lost_or_torn_left_nothing_that_is_known(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (folder.unit / "proc_000000.7.report.json").write_text('{"outputs": [{"lfn": "/st')
    assert folder.left() == []
    folder.unit.rename(folder.path / "gone")
    assert folder.left() == []


def test_a_job_that_removes_files_is_a_cleanup_pinned_to_their_site(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    left = [LeftFile(lfn=folder.unmerged, site=site) for site in SITES[:2]]
    jobs = sweep_jobs(folder.path, 1, left)
    assert [job.folder.name for job in jobs] == ["sweep_1_000", "sweep_1_001"]
    for job, site in zip(jobs, SITES[:2], strict=True):
        assert (job.folder / "site.inc").read_text() == f"elected_site = {site}\n"
        asked = json.loads((job.folder / "merge_input.json").read_text())
        assert asked == {"version": 1, "files": [], "leftovers": [folder.unmerged]}
        assert (job.folder / "manifest.json").read_bytes() == (folder.unit / "manifest.json").read_bytes()
        assert not job.was_submitted
    jobs[0].folder.joinpath("cleanup.log").write_text("000 (1.0.0)")
    assert [job.was_submitted for job in sweep_jobs(folder.path, 1, left)] == [True, False]


def test_what_a_job_did_not_remove_is_left_with_the_newest_reason(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    lfns = [folder.unmerged.replace("_7_", f"_{cluster}_") for cluster in (1, 2, 3)]
    (job,) = sweep_jobs(folder.path, 1, [LeftFile(lfn=lfn, site=SITES[0], reason="old") for lfn in lfns])
    assert {file.reason for file in job.left()} == {NO_WORD}
    (job.folder / "cleanup.log").write_text("009 (1.0.0) Job was aborted.\n\tWMS2 idle at T1_US_FNAL\n...\n")
    assert {file.reason for file in job.left()} == {"WMS2 idle at T1_US_FNAL"}
    report = {"site": SITES[0], "removed": lfns[:1], "left": [{"lfn": lfns[1], "reason": "no permission"}]}
    (job.folder / "cleanup.5.report.json").write_text(json.dumps(report))
    assert job.has_reported
    assert [(file.lfn, file.reason) for file in job.left()] == [
        (lfns[1], "no permission"),
        (lfns[2], "WMS2 idle at T1_US_FNAL"),
    ]


def test_a_round_is_swept_until_it_says_what_is_left(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert rounds_to_sweep(tmp_path) == []
    assert rounds_to_sweep(tmp_path / "nowhere") == []
    listed = FileList(schedd="here", files=(LeftFile(lfn=folder.unmerged, site=SITES[0]),))
    write_list(folder.path / "sweep.json", listed)
    assert rounds_to_sweep(tmp_path) == [folder.path]
    write_list(folder.path / "left.json", listed.model_copy(update={"files": ()}))
    assert rounds_to_sweep(tmp_path) == []
