"""The demo payload: deterministic events, so that any file can be checked against its event numbers."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import PATIENCE_SEC
from wms2.local import process
from wms2.local.events import FIXED_BYTES, Numbers, contents
from wms2.local.faults import FaultError
from wms2.local.job_report import JobReport
from wms2.local.payload import check, main, make_inputs, merge, produce


def job(**changes: Any) -> dict[str, Any]:
    return {
        "node": "proc_000001",
        "site": "T2_US_Purdue",
        "step": "GEN",
        "parameters": {"kb_per_event": 0.1},
        "input_files": [],
        "lumis": None,
        "simulation": {
            "run": 1,
            "first_event": 1,
            "last_event": 100,
            "first_lumi": 1,
            "lumi_offset": 0,
            "events_per_lumi": 40,
        },
        "outputs": [{"module": "out", "file": "out.root"}],
        **changes,
    }


def range_of(first: int, last: int) -> dict[str, Any]:
    return {"simulation": {**job()["simulation"], "first_event": first, "last_event": last}}


def test_the_same_event_number_has_the_same_values_in_every_file(tmp_path: Path) -> None:
    for name, wanted in (("a", range_of(1, 100)), ("b", range_of(51, 150))):
        outputs = [{"module": "out", "file": f"{name}.root"}]
        produce(job(**wanted, outputs=outputs), tmp_path, JobReport())
    first, second = (uproot.open({tmp_path / f"{name}.root": "Events"}).arrays(library="np") for name in "ab")
    for branch in ("event", "pt", "eta", "phi", "tracks", "padding"):
        assert np.array_equal(first[branch][50:], second[branch][:50])


def test_events_have_the_size_that_was_asked_for(tmp_path: Path) -> None:
    sizes = []
    for last in (1000, 2000):
        wanted = {**range_of(1, last), "parameters": {"kb_per_event": 2.0}}
        produce(job(**wanted), tmp_path, JobReport())
        sizes.append((tmp_path / "out.root").stat().st_size)
    assert sizes[1] - sizes[0] == pytest.approx(2_000_000, rel=0.01)


def test_event_numbers_may_be_larger_than_32_bits(tmp_path: Path) -> None:
    produce(job(**range_of(2**40, 2**40 + 9)), tmp_path, JobReport())
    found = check([tmp_path / "out.root"])
    assert (found.first, found.last, found.wrong_values) == (2**40, 2**40 + 9, 0)


def test_a_filter_passes_the_same_events_each_time(tmp_path: Path) -> None:
    wanted = {**range_of(1, 2000), "parameters": {"kb_per_event": 0.1, "filter_efficiency": 0.25}}
    passed = []
    for _ in range(2):
        produce(job(**wanted), tmp_path, JobReport())
        passed.append(list(check([tmp_path / "out.root"]).numbers))
    assert passed[0] == passed[1]
    assert len(passed[0]) == pytest.approx(500, rel=0.15)


def test_a_check_sees_duplicates_gaps_and_wrong_values(tmp_path: Path) -> None:
    produce(job(), tmp_path, JobReport())
    path = tmp_path / "out.root"
    twice = check([path, path])
    assert (twice.files, twice.events, twice.duplicates) == (2, 200, 100)
    values = contents(
        Numbers(np.ones(3, np.uint32), np.ones(3, np.uint32), np.array([5, 6, 9], np.uint64)), 0
    )
    values["pt"][1] += 1
    with uproot.recreate(tmp_path / "bad.root") as root_file:
        root_file.mktree("Events", {name: array.dtype for name, array in values.items()}).extend(values)
    found = check([tmp_path / "bad.root"])
    assert (found.wrong_values, found.first, found.last, found.distinct) == (1, 5, 9, 3)


def test_the_check_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    produce(job(), tmp_path, JobReport())
    assert main(["check", str(tmp_path / "out.root")]) == 0
    counts = {
        "files": 1,
        "events": 100,
        "distinct": 100,
        "first": 1,
        "last": 100,
        "wrong_values": 0,
        "lumis": 3,
    }
    assert json.loads(capsys.readouterr().out) == {**counts, "duplicates": 0}


def test_input_files_are_described_as_the_planner_wants_them(tmp_path: Path) -> None:
    files = make_inputs(tmp_path, 2, 10, locations=["T1_US_FNAL", "T2_DE_DESY"], lumis_per_file=2)
    assert [file["events"] for file in files] == [10, 10]
    assert files[1]["lumis"] == [{"run": 1, "lumi": 3, "events": 5}, {"run": 1, "lumi": 4, "events": 5}]
    for site in files[0]["locations"]:
        paths = [Path(f"{tmp_path}/{site}{file['lfn']}") for file in files]
        assert [path.stat().st_size for path in paths] == [file["size_bytes"] for file in files]
        assert list(check(paths).numbers) == list(range(1, 21))


def test_parameters_that_make_no_sense_are_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(job(parameters={"kb_per_event": "large"})))
    command = [sys.executable, "-m", "wms2.local.payload", "produce", "--job", "job.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert done.returncode == 7002 % 256
    assert b'ExitStatus="7002"' in (tmp_path / "FrameworkJobReport.xml").read_bytes()


def with_fault(folder: Path, **fault: Any) -> dict[str, Any]:
    return {"parameters": {"kb_per_event": 0.1, "faults": [fault], "fault_dir": str(folder / "faults")}}


def test_a_job_waits_until_the_file_is_there_and_then_does_its_work(tmp_path: Path) -> None:
    gate, output = tmp_path / "open", tmp_path / "out.root"
    # Only a fault that is counted leaves a sign that the job has come to it.
    wanted = job(**with_fault(tmp_path, until=str(gate), times=1))
    with ThreadPoolExecutor() as threads:
        running = threads.submit(produce, wanted, tmp_path, JobReport())
        try:
            assert process.wait_until((tmp_path / "faults/GEN_fault_0_0").exists, PATIENCE_SEC)
            assert not running.done()
            assert not output.exists()
        finally:
            gate.touch()
        running.result()
    assert check([output]).events == 100
    produce(job(**with_fault(tmp_path, until=str(tmp_path / "never"), times=1)), tmp_path, JobReport())


def test_a_job_that_waited_can_fail_afterwards(tmp_path: Path) -> None:
    gate = tmp_path / "open"
    gate.touch()
    with pytest.raises(FaultError) as failed:
        produce(job(**with_fault(tmp_path, until=str(gate), exit_code=8028)), tmp_path, JobReport())
    assert failed.value.code == 8028
    assert not (tmp_path / "out.root").exists()


@pytest.mark.parametrize(
    "elsewhere", [{"node": "proc_000002"}, {"at_site": "T2_DE_DESY"}, {"step": "RECO"}, {"node": "merge"}]
)
def test_only_the_jobs_that_a_fault_names_wait(tmp_path: Path, elsewhere: dict[str, str]) -> None:
    never = str(tmp_path / "never")
    produce(job(**with_fault(tmp_path, until=never, **elsewhere)), tmp_path, JobReport())
    assert check([tmp_path / "out.root"]).events == 100


def test_a_merge_waits_only_where_the_fault_names_it(tmp_path: Path) -> None:
    produce(job(), tmp_path, JobReport())
    source = {
        "lfn": "/store/f.root",
        "pfn": str(tmp_path / "out.root"),
        "first_event": None,
        "last_event": None,
    }
    merging = {"node": "merge", "step": "merge", "input_files": [source]}
    outputs = [{"module": "out", "file": "merged.root"}]
    never = str(tmp_path / "never")
    merge(job(**merging, outputs=outputs, **with_fault(tmp_path, until=never)), tmp_path, JobReport())
    assert check([tmp_path / "merged.root"]).events == 100


@given(
    run=st.integers(1, 3),
    lumis=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), max_size=30),
    mask=st.dictionaries(
        st.sampled_from(["1", "2"]), st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    ),
)
def test_a_mask_chooses_exactly_its_lumis(
    run: int, lumis: list[tuple[int, int]], mask: dict[str, list[tuple[int, int]]]
) -> None:
    numbers = Numbers(
        np.array([r for r, _ in lumis], np.uint32),
        np.array([n for _, n in lumis], np.uint32),
        np.arange(len(lumis), dtype=np.uint64),
    )
    chosen = [
        number
        for number, (r, n) in enumerate(lumis)
        if any(first <= n <= last for first, last in mask.get(str(r), []))
    ]
    assert list(numbers.chosen(mask).event) == chosen
    assert sum(numbers.per_lumi().values()) == len(lumis)


def test_the_fixed_branches_are_as_small_as_they_are_said_to_be() -> None:
    one = contents(Numbers(np.ones(1, np.uint32), np.ones(1, np.uint32), np.ones(1, np.uint64)), 0)
    assert sum(array.itemsize for array in one.values()) == FIXED_BYTES
