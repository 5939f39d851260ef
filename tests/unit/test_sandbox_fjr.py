"""Framework job reports, in every state in which they come."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import fjr
from sandbox.failure import exit_status
from sandbox.process import Outcome
from sandbox.steps import judge

REPORT = """<?xml version="1.0" encoding="us-ascii"?>
<FrameworkJobReport>
<InputFile>
  <LFN>/store/data/a.root</LFN><PFN>root://door//store/data/a.root</PFN><EventsRead>12</EventsRead>
</InputFile>
<File>
  <LFN></LFN><PFN>out.root</PFN><ModuleLabel>AODoutput</ModuleLabel><TotalEvents>10</TotalEvents>
  <Runs><Run ID="1"><LumiSection ID="5" NEvents="4"/><LumiSection ID="6" NEvents=""/><LumiSection ID="7"/></Run></Runs>
</File>
<FallbackAttempt Pfn="root://door//store/data/b.root" Lfn="/store/data/b.root"></FallbackAttempt>
</FrameworkJobReport>
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / fjr.NAME


def outcome(status: int, stalled: bool = False) -> Outcome:
    return Outcome(status=status, wall_sec=1.0, cpu_sec=1.0, peak_rss_mb=1, stalled=stalled)


def test_a_whole_report_is_read(path: Path) -> None:
    path.write_text(REPORT)
    report = fjr.read(path)
    assert (report.complete, report.exit_code) == (True, 0)
    assert report.inputs == (fjr.InputEntry("/store/data/a.root", "root://door//store/data/a.root", 12),)
    [entry] = report.outputs
    assert (entry.module, entry.pfn, entry.events) == ("AODoutput", "out.root", 10)
    assert entry.lumis == (fjr.Lumi(1, 5, 4), fjr.Lumi(1, 6, None), fjr.Lumi(1, 7, None))
    assert "/store/data/b.root" in report.doubtful_files


def test_an_error_without_a_status_is_some_other_exception(path: Path) -> None:
    path.write_text("<FrameworkJobReport><FrameworkError Type='x'>why</FrameworkError></FrameworkJobReport>")
    assert (fjr.read(path).exit_code, fjr.read(path).message) == (8001, "why")


def test_a_report_with_entities_is_not_expanded(path: Path) -> None:
    path.write_text('<!DOCTYPE x [<!ENTITY a "aaaa">]><FrameworkJobReport>&a;</FrameworkJobReport>')
    assert fjr.read(path) == fjr.StepReport()


@given(cut=st.integers(0, len(REPORT)), junk=st.binary(max_size=40))
def test_no_damage_makes_reading_raise_or_a_failure_look_like_success(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / fjr.NAME
    path.write_bytes(REPORT.encode()[:cut] + junk)
    report = fjr.read(path)
    assert report.complete or report.exit_code != 0


@given(message=st.text(), code=st.integers(1, 99999))
def test_what_the_wrapper_writes_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, message: str, code: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.xml"
    fjr.write(path, code, message)
    assert (fjr.read(path).complete, fjr.read(path).exit_code) == (True, code)


@given(
    status=st.integers(-31, 255),
    told=st.none() | st.integers(0, 99999),
    complete=st.booleans(),
    stalled=st.booleans(),
)
def test_a_step_succeeds_only_if_process_and_report_both_say_so(
    status: int, told: int | None, complete: bool, stalled: bool
) -> None:
    code, _ = judge(outcome(status, stalled), fjr.StepReport(complete=complete, exit_code=told))
    assert (code == 0) == (status == 0 and not told and complete and not stalled)
    assert (exit_status(code) == 0) == (code == 0)


@pytest.mark.parametrize(
    ("status", "told", "code"),
    [
        (85, 8021, 8021),
        (85, 0, 85),
        (85, None, 85),
        (85, 8028, 85),
        (0, 8021, 8021),
        (-9, 8021, 137),
        (-11, None, 139),
    ],
)
def test_the_low_byte_decides_whose_code_is_taken(status: int, told: int | None, code: int) -> None:
    assert judge(outcome(status), fjr.StepReport(complete=told is not None, exit_code=told))[0] == code
