"""What the worker changes in a round that is planned: its priority, its sites, the memory of its jobs."""

import json
from pathlib import Path

from wms2.dagman.include import (
    base_priority,
    leave_out_sites,
    round_priority,
    set_memory,
    set_priorities,
)
from wms2.dagman.submit_files import round_include


def round_folder(tmp_path: Path) -> Path:
    (tmp_path / "round.inc").write_text(round_include(["T1_US_FNAL", "T2_DE_DESY", "T2_DE_DESY_2"], 7))
    return tmp_path


def test_a_round_has_the_priority_that_it_was_planned_with_until_it_is_set(tmp_path: Path) -> None:
    folder = round_folder(tmp_path)
    assert (base_priority(folder, 7), round_priority(folder)) == (7, 7)
    set_priorities(folder, 7, 107)
    assert (base_priority(folder, 7), round_priority(folder)) == (7, 107)
    set_priorities(folder, 3, 103)
    assert (base_priority(folder, 7), round_priority(folder)) == (3, 103)
    text = (folder / "round.inc").read_text()
    assert text.count("priority") == 2
    assert "allowed_sites = T1_US_FNAL,T2_DE_DESY,T2_DE_DESY_2\n" in text


def test_setting_what_is_set_writes_nothing(tmp_path: Path) -> None:
    folder = round_folder(tmp_path)
    set_priorities(folder, 3, 103)
    before = (folder / "round.inc").stat().st_ino
    set_priorities(folder, 3, 103)
    assert (folder / "round.inc").stat().st_ino == before


def test_sites_are_left_out_by_their_whole_names(tmp_path: Path) -> None:
    folder = round_folder(tmp_path)
    assert leave_out_sites(folder, ["T2_DE_DESY", "T1_US"]) == ("T1_US_FNAL", "T2_DE_DESY_2")
    assert leave_out_sites(folder, ["T2_DE_DESY"]) == ("T1_US_FNAL", "T2_DE_DESY_2"), "again changes nothing"
    assert leave_out_sites(folder, ["T1_US_FNAL", "T2_DE_DESY_2"]) == ()


def test_memory_is_set_for_every_processing_job_and_the_last_line_holds(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"nodes": {"proc_000004": {}, "proc_000005": {}}}))
    (tmp_path / "memory.inc").write_text("proc_000004_memory = 9000\n")
    set_memory(tmp_path, 4000)
    assert (tmp_path / "memory.inc").read_text().splitlines() == [
        "proc_000004_memory = 9000",
        "proc_000004_memory = 4000",
        "proc_000005_memory = 4000",
    ]
