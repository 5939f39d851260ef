"""POST on what other pools, other releases of HTCondor and CMSSW itself leave behind.

Names and texts are made up; the form of events and reports is that of the real ones.
"""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from post_script import policy
from post_script.files import write_json
from post_script.job_report import JobReport
from post_script.joblog import read_attempt, wall_seconds
from post_script.names import DONE, GIVE_UP, RETRY
from post_script.node import finish_attempt
from tests.unit.test_post_script import newest, write_report
from tests.unit.test_post_script_failures import NODE, fail, make_unit, verdict
from tests.unit.test_sandbox_fjr import END, ERROR, FAILED, GOOD, INPUT, MESSAGE, PLACEHOLDER, REST
from wms2.dagman.posts import newest_post

DATES = [
    "03/14 {}",
    "2026-03-14 {}",
    "2026-03-14T{}",
    "2026-03-14 {}.123",
    "2026-03-14T{}Z",
    "2026-03-14T{}.123+01:00",
]


def error(code: int, text: str) -> str:
    return f'<FrameworkError ExitStatus="{code}" Type="Error" >\n<![CDATA[\n{text}\n]]>\n</FrameworkError>\n'


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_unit(tmp_path, monkeypatch)


def event(number: int, head: str, *lines: str, date: str = DATES[0], clock: str = "09:26:53") -> str:
    body = "".join(f"\t{line}\n" for line in lines)
    return f"{number:03d} (8842.000.000) {date.format(clock)} {head}\n{body}...\n"


def glidein(date: str = DATES[0]) -> str:
    """A life on a pool of pilots: files moved, evicted, lost, found again, held, released, run again and ended."""
    address = "<188.184.1.2:4080?addrs=188.184.1.2-4080+[2001-db8--1]-4080&alias=schedd.example&noUDP>"
    return "".join(
        [
            event(0, f"Job submitted from host: {address}", "DAG Node: proc_000000", date=date, clock="09:00:00"),
            event(40, "Started transferring input files", "Transferring to host: <10.0.0.1:9618>", date=date),
            event(40, "Finished transferring input files", date=date),
            event(21, "Message from starter on slot1_2@glidein_1@node.example:", "PREPARE_JOB succeeded", date=date),
            event(1, "Job executing on host: <10.0.0.1:9618?CCBID=1>", "SlotName: slot1_2@glidein_1@node.example",
                  'CondorScratchDir = "/srv/glide/execute/dir_1"', "Cpus = 1", "Memory = 2048", date=date,
                  clock="09:30:00"),
            event(22, "Job disconnected, attempting to reconnect", "Socket closed unexpectedly", date=date),
            event(23, "Job reconnected to slot1_2@glidein_1@node.example", date=date),
            event(7, "Shadow exception!", "Error from slot1_2@glidein_1: Failed to transfer files", date=date),
            event(4, "Job was evicted. Code 1022 Subcode 0", "(0) CPU times",
                  "\tUsr 0 00:00:07, Sys 0 00:00:00  -  Run Remote Usage", "Reason: Job vacated by schedd", date=date),
            event(12, "Job was held.", "Transfer input files failure at the execution point:",
                  "'/store/a': No such file (errno 2)", "Code 13 Subcode 2", date=date),
            event(13, "Job was released.", "via condor_release (by user operator)", date=date),
            event(1, "Job executing on host: <10.0.0.2:9618?CCBID=2>", 'GLIDEIN_CMSSite = "T2_IT_Legnaro"', date=date,
                  clock="10:00:00"),
            event(6, "Image size of job updated: 2200000", "1875  -  MemoryUsage of job (MB)",
                  "1919820  -  ResidentSetSize of job (KB)", date=date),
            event(5, "Job terminated.", "(1) Normal termination (return value 85)",
                  "\tUsr 0 01:02:03, Sys 0 00:01:00  -  Run Remote Usage",
                  "\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage", "7  -  Run Bytes Sent By Job",
                  "Partitionable Resources :    Usage  Request Allocated",
                  "   Cpus                 :     0.92        1         1",
                  "   Disk (KB)            :  1325305  2097152 166513009",
                  "   Memory (MB)          :     1890     2000      2048",
                  "", "Job terminated of its own accord at 2026-03-14T11:00:30Z with exit-code 85.", date=date,
                  clock="11:00:30"),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("date", DATES)
def test_a_long_life_on_a_pool_of_pilots_is_read_to_its_end(unit: Path, date: str) -> None:
    Path(f"{NODE}.log").write_text(glidein(date))
    Path(f"{NODE}.8842.fjr.xml").write_text(FAILED)
    assert finish_attempt(NODE, 85, 8842, 0, 9) == RETRY
    job, payload = newest(NODE)["job"], newest(NODE)["cmssw"]
    assert job["exit_code"] == 8021
    assert (job["site"], job["schedd"]) == ("T2_IT_Legnaro", "schedd.example")
    assert (job["memory_mb"], job["cpu_time_sec"]) == (1890, 3783)
    assert round(job["wall_time_sec"]) == 3630
    assert job["hold_reason"].endswith("(errno 2)")
    assert "'/store/a'" in job["hold_reason"]
    assert payload["error_message"] == MESSAGE
    assert payload["input_files"] == ["/store/data/a.root"]
    assert payload["performance"]["peak_rss_mb"] == 1500


def test_a_year_that_ends_while_a_job_runs_is_not_negative() -> None:
    log = {
        "began": "001 (1.0.0) 12/31 23:00:00 Job executing",
        "ended": "005 (1.0.0) 01/01 01:00:00 Job terminated.",
    }
    assert wall_seconds(log) == 7200
    assert wall_seconds({"began": "001 (1.0.0) torn", "ended": "005 (1.0.0)"}) is None


@pytest.mark.parametrize(
    ("began", "ended", "seconds"),
    [
        (
            "02/28 23:00:00",
            "03/01 00:00:00",
            {3600, 90_000},
        ),  # only in a leap year is there a day between them
        ("2026-02-28 23:00:00", "2026-03-01 00:00:00", {3600}),
        ("2026-03-01 00:00:00", "2026-02-28 23:00:00", {None}),
    ],
)
def test_the_dates_of_a_log_are_those_of_a_calendar(
    monkeypatch: pytest.MonkeyPatch, began: str, ended: str, seconds: set[float | None]
) -> None:
    log = {"began": f"001 (1.0.0) {began} Job executing", "ended": f"005 (1.0.0) {ended} Job terminated."}
    found = set()
    for year in (2024, 2026):
        monkeypatch.setattr("time.localtime", lambda year=year: SimpleNamespace(tm_year=year))
        found.add(wall_seconds(log))
    assert found == seconds


def test_how_a_job_ended_before_it_was_queued_again_does_not_count(unit: Path) -> None:
    """`on_exit_remove` of another pool: the first run dies of a signal, the second one succeeds."""
    requeued = event(
        4, "Job was evicted.", "(1) Job terminated and was requeued", "(0) Abnormal termination (signal 9)"
    )
    executing = event(1, "Job executing on host: <10.0.0.1:9618?CCBID=1>")
    good = event(5, "Job terminated.", "(1) Normal termination (return value 0)")
    Path(f"{NODE}.log").write_text(executing + requeued + executing + good)
    write_report(NODE, 8842)
    assert finish_attempt(NODE, 0, 8842, 0, 9) == DONE
    assert newest(NODE)["job"]["exit_signal"] is None


XML = """<?xml version="1.0"?>
<!DOCTYPE classads SYSTEM "classads.dtd">
<classads>
<c>
    <a n="MyType"><s>SubmitEvent</s></a>
    <a n="EventTypeNumber"><i>0</i></a>
    <a n="EventTime"><s>2026-03-14T09:00:00</s></a>
    <a n="Cluster"><i>8842</i></a>
    <a n="SubmitHost"><s>&lt;188.184.1.2:4080?alias=schedd.example&amp;noUDP&gt;</s></a>
</c>
<c>
    <a n="EventTypeNumber"><i>1</i></a>
    <a n="EventTime"><s>2026-03-14T10:00:00</s></a>
    <a n="Cluster"><i>8842</i></a>
    <a n="ExecuteHost"><s>&lt;10.0.0.1:9618&gt;</s></a>
    <a n="ExecuteProps"><c>
        <a n="Cpus"><i>1</i></a>
        <a n="GLIDEIN_CMSSite"><s>T2_IT_Legnaro</s></a>
    </c></a>
    <a n="Subproc"><i>0</i></a>
</c>
<c>
    <a n="EventTypeNumber"><i>5</i></a>
    <a n="EventTime"><s>2026-03-14T11:00:30</s></a>
    <a n="Cluster"><i>8842</i></a>
    <a n="TerminatedNormally"><b v="t"/></a>
    <a n="ReturnValue"><i>85</i></a>
    <a n="MemoryUsage"><i>1890</i></a>
    <a n="RunRemoteUsage"><s>Usr 0 01:02:03, Sys 0 00:01:00</s></a>
    <a n="ReceivedBytes"><r>0.000000000000000E+00</r></a>
    <a n="CurrentTime"><e>time()</e></a>
</c>
<c>
    <a n="EventTypeNumber"><i>28</i></a>
    <a n="Cluster"><i>8842</i></a>
    <a n="TriggerEventTypeNumber"><i>5</i></a>
    <a n="RemoteWallClockTime"><r>0.000000000000000E+00</r></a>
</c>
"""
ADS = [
    {"EventTypeNumber": 0, "Cluster": 8842, "SubmitHost": "<188.184.1.2:4080?alias=schedd.example&noUDP>"},
    {"EventTypeNumber": 1, "Cluster": 8842, "EventTime": "2026-03-14T10:00:00", "ExecuteHost": "<10.0.0.1:9618>",
     "ExecuteProps": {"Cpus": 1, "GLIDEIN_CMSSite": "T2_IT_Legnaro"}, "Subproc": 0},
    {"EventTypeNumber": 5, "Cluster": 8842, "EventTime": "2026-03-14T11:00:30", "ReturnValue": 85, "MemoryUsage": 1890,
     "RunRemoteUsage": "Usr 0 01:02:03, Sys 0 00:01:00", "TerminatedNormally": True},
    {"EventTypeNumber": 28, "Cluster": 8842, "RemoteWallClockTime": 0.0},
]  # fmt: skip
JSON = "".join(json.dumps(ad, indent=4) + "\n" for ad in ADS)


@pytest.mark.parametrize("text", [XML, JSON], ids=["xml", "json"])
def test_a_log_of_ads_is_read_as_well(unit: Path, text: str) -> None:
    Path(f"{NODE}.log").write_text(text)
    assert read_attempt(f"{NODE}.log", 8842)["executed"]
    assert finish_attempt(NODE, 85, 8842, 0, 9) == RETRY
    job = newest(NODE)["job"]
    assert (job["site"], job["schedd"]) == ("T2_IT_Legnaro", "schedd.example")
    assert (job["memory_mb"], job["cpu_time_sec"], job["wall_time_sec"]) == (1890, 3783, 3630)


@pytest.mark.parametrize(
    "text",
    [
        '{\n "Cluster": 7,\n "EventTypeNumber": 9,\n "Reason": "WMS2 idle at T2_IT_Legnaro"\n}\n',
        '<c><a n="Cluster"><i>7</i></a><a n="EventTypeNumber"><i>9</i></a>'
        '<a n="Reason"><s>WMS2 idle at T2_IT_Legnaro</s></a></c>',
    ],
    ids=["json", "xml"],
)
def test_a_log_of_ads_tells_why_a_job_was_removed(unit: Path, text: str) -> None:
    Path("removed.log").write_text(text)
    assert read_attempt("removed.log", 7)["removal_reason"] == "WMS2 idle at T2_IT_Legnaro"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.sampled_from([glidein(), XML, JSON]), data=st.data())
def test_a_log_that_is_torn_anywhere_is_read_as_far_as_it_goes(
    unit: Path, which: str, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(which)))
    junk = data.draw(st.binary(max_size=20))
    Path("torn.log").write_bytes(which.encode()[:cut] + junk)
    found = read_attempt("torn.log", 8842)
    assert found["ad"].get("GLIDEIN_CMSSite") in (None, "T2_IT_Legnaro")
    assert found.get("exit_code") in (None, 85, 8, *range(10))


def test_half_a_site_is_none(unit: Path) -> None:
    Path(f"{NODE}.log").write_text(
        '028 (8842.000.000) 03/14 09:26:53 Job ad\nMachineAttrGLIDEIN_CMSSite0 = "T2_IT_Leg'
    )
    finish_attempt(NODE, 85, 8842, 0, 9)
    assert newest(NODE)["job"]["site"] is None


def test_a_log_with_the_holes_of_a_crash_is_read(unit: Path) -> None:
    Path(f"{NODE}.log").write_text("\0" * 4096 + glidein().replace("...\n005", "...\n" + "\0" * 512 + "005"))
    assert read_attempt(f"{NODE}.log", 8842)["cpu_sec"] == 3783


@pytest.mark.parametrize(
    ("reason", "category"),
    [
        ("via condor_rm (by user operator)", "stopped"),
        ("removed because <OtherJobRemoveRequirements = DAGManJobId =?= 7> fired", "stopped"),
        ("Python-initiated action.", "stopped"),
        ("", "stopped"),
        ("The system macro SYSTEM_PERIODIC_REMOVE expression '(DiskUsage > 27000000)' evaluated to TRUE", "transient"),
        ("The job attribute PeriodicRemove expression 'NumJobStarts > 9' evaluated to TRUE", "transient"),
        ("The system macro SYSTEM_PERIODIC_REMOVE expression 'MemoryUsage > 2 * RequestMemory' evaluated to TRUE",
         "resource:memory"),
        ("WMS2 evicted at T2_IT_Legnaro", "transient"),
        ("no longer needed (by user operator)", "stopped"),
        ("Removed due to wall clock limit", "transient"),
        ("Removed due to memory use", "resource:memory"),
    ],
)  # fmt: skip
def test_who_removed_a_job_is_told_by_the_reason(unit: Path, reason: str, category: str) -> None:
    Path(f"{NODE}.log").write_text(event(9, "Job was aborted by the user.", reason))
    assert finish_attempt(NODE, -1002, 8842, 0, 9) == RETRY
    assert verdict()["category"] == category
    assert verdict()["uses_attempt"] is (category != "stopped")


def test_figures_that_are_no_numbers_do_not_break_the_record(unit: Path) -> None:
    """What CMSSW writes of a job without events, and HTCondor of what it never measured."""
    metrics = '<Metric Name="AvgEventTime" Value="-nan"/><Metric Name="PeakValueRss" Value="inf"/>'
    summary = f'<PerformanceSummary Metric="Timing">{metrics}</PerformanceSummary>'
    Path(f"{NODE}.8842.fjr.xml").write_text(f"<FrameworkJobReport>{ERROR}{summary}{END}")
    Path(f"{NODE}.log").write_text(
        "028 (8842.000.000) 03/14 09:26:53 Job ad\nRemoteUserCpu = 1.0E+999\nMemoryUsage = undefined\n...\n"
    )
    assert finish_attempt(NODE, 85, 8842, 0, 9) == RETRY
    assert (newest(NODE)["job"]["exit_code"], newest(NODE)["job"]["memory_mb"]) == (8021, None)
    assert newest(NODE)["cmssw"]["performance"]["avg_event_time_sec"] is None
    assert not Path("post_errors.log").exists()


@pytest.mark.parametrize(
    ("text", "status", "code", "message"),
    [
        (FAILED, 85, 8021, MESSAGE),
        (GOOD, 85, 0, ""),
        (f"<FrameworkJobReport>{PLACEHOLDER}{END}", 1, 8901, "UnexpectedJobTermination"),
        (f"<FrameworkJobReport>{PLACEHOLDER}{ERROR}{END}", 1, 8021, MESSAGE),
        (
            f'<FrameworkJobReport><FrameworkError ExitStatus="8001">a</FrameworkError>{ERROR}{END}',
            85,
            8021,
            MESSAGE,
        ),
        (
            f'<FrameworkJobReport><FrameworkError ExitStatus="8001">a</FrameworkError>{ERROR}{END}',
            1,
            8001,
            "a",
        ),
        (GOOD.replace(END, f"<ShutdownSignal/>{END}"), 40, 9000, "cmsRun was told"),
        ("<FrameworkError ExitStatus='0'/>" * 2_000_000 + ERROR, 85, 8021, MESSAGE),
    ],
    ids=range(8),
)
def test_job_reports_of_cmssw_are_understood(
    tmp_path: Path, text: str, status: int, code: int, message: str
) -> None:
    (tmp_path / "fjr.xml").write_text(text)
    began = time.process_time()
    found = JobReport(str(tmp_path / "fjr.xml"), status)
    assert (found.exit_code, found.message[: len(message)]) == (code, message)
    assert time.process_time() - began < 10


def test_a_job_report_that_breaks_off_anywhere_is_no_success(tmp_path: Path) -> None:
    path = tmp_path / "fjr.xml"
    data = FAILED.encode()
    begun = data.index(b"<FrameworkError") + len(b"<FrameworkError")
    for cut in range(0, len(data) - len(END)):
        path.write_bytes(data[:cut])
        found = JobReport(str(path), 85)
        assert found.exit_code in ((None,) if cut < begun else (8001, 8021))
    assert (found.exit_code, found.message) == (8021, MESSAGE)


FIRST, SECOND = (
    "/store/data/Run2024A/JetMET0/RAW/v1/first.root",
    "/store/data/Run2024A/JetMET0/RAW/v1/second.root",
)
THIRD = FIRST.replace("first", "third")


def entry(lfn: str, events: int, kind: str = "primaryFiles") -> str:
    return (
        INPUT.replace("/store/data/a.root", lfn).replace(">12<", f">{events}<").replace("primaryFiles", kind)
    )


def reads(unit: Path, *lfns: str) -> None:
    """The node was planned to read these files."""
    manifest = json.loads((unit / "manifest.json").read_text())
    manifest["nodes"][NODE]["files"] = [{"lfn": lfn} for lfn in lfns]
    write_json("manifest.json", manifest)


@pytest.mark.parametrize(
    ("planned", "told", "bad"),
    [
        ([FIRST, SECOND], error(8021, f"Fatal Root Error in root://door.example/{FIRST}?tried=x"), [FIRST]),
        ([FIRST, SECOND], error(8028, f"Failed to open the file '{SECOND}'"), [SECOND]),
        (
            [FIRST, SECOND],
            error(8021, "it broke") + f'<SkippedFile Pfn="root://a/{SECOND}" Lfn="{SECOND}"/>',
            [SECOND],
        ),
        ([FIRST, THIRD], error(8020, "it broke") + f"<FallbackAttempt Lfn='{THIRD}' Pfn=''/>", [THIRD]),
        ([FIRST, SECOND], error(8020, "it broke") + f"<FallbackAttempt Lfn='{FIRST}' Pfn=''/>", []),
        (
            [FIRST, SECOND],
            f'<FallbackAttempt Pfn="root://far/{FIRST}" Lfn="{FIRST}"/>' + error(8021, f"Reading {SECOND}"),
            [SECOND],
        ),
        (
            [FIRST, SECOND, THIRD],
            f"<FallbackAttempt Lfn='{THIRD}' Pfn=''/><SkippedFile Pfn='' Lfn='{SECOND}'/>"
            + error(8021, "it broke"),
            [SECOND],
        ),
        ([FIRST, SECOND], error(8021, "it broke"), []),
        ([FIRST], error(8021, "it broke"), [FIRST]),
        ([FIRST], error(8001, f"something else than {FIRST}"), []),
        ([], error(8021, f"Failed to read {FIRST}"), [FIRST]),
    ],
    ids=range(11),
)
def test_where_the_wrapper_left_no_word_cmsrun_names_the_bad_files(
    unit: Path, planned: list[str], told: str, bad: list[str]
) -> None:
    reads(unit, *planned)
    mixed = entry("/store/mc/pileup.root", 7, "mixingFiles")
    inputs = entry(FIRST, 15_000) + entry(SECOND, 20) + mixed
    Path(f"{NODE}.8842.fjr.xml").write_text(f"<FrameworkJobReport>\n{inputs}{told}{REST}{END}")
    Path(f"{NODE}.log").write_text(glidein())
    code = JobReport(f"{NODE}.8842.fjr.xml").exit_code or 0
    assert finish_attempt(NODE, code % 256, 8842, 0, 9) != DONE
    assert verdict()["bad_input_files"] == bad
    assert newest(NODE)["cmssw"]["input_files"] == [FIRST, SECOND]
    assert newest(NODE)["cmssw"]["performance"]["events_read"] == 15_020


def test_the_only_file_of_a_job_with_pile_up_may_not_be_the_bad_one(unit: Path) -> None:
    reads(unit, FIRST)
    Path("../pileup.json.gz").touch()
    Path(f"{NODE}.8842.fjr.xml").write_text(f"<FrameworkJobReport>{error(8021, 'it broke')}{END}")
    finish_attempt(NODE, 85, 8842, 0, 9)
    assert verdict()["bad_input_files"] == []


def test_the_record_of_a_failure_has_what_cmsrun_measured_also_where_the_wrapper_reports(unit: Path) -> None:
    timing = '<Metric Name="AvgEventTime" Value="1.2"/><Metric Name="TotalJobCPU" Value="3200"/>'
    summary = f'<PerformanceSummary Metric="Timing">{timing}</PerformanceSummary>'
    Path(f"{NODE}.1.fjr.xml").write_text(f"<FrameworkJobReport>{INPUT}{ERROR}{summary}{END}")
    assert fail(1, 8021) == RETRY
    measured = newest(NODE)["cmssw"]["performance"]
    assert (measured["avg_event_time_sec"], measured["events_read"]) == (1.2, 12)
    assert (
        fail(2, 0, steps=[{"name": "GEN", "exit_code": 0, "wall_sec": 50.0, "events_written": 100}]) == DONE
    )
    assert newest(NODE)["cmssw"]["performance"]["avg_event_time_sec"] == 0.5


def slow_rule(name: str) -> dict[str, Any]:
    """A pattern that takes for ever, as nobody who asks `wms2 policy check` can write it."""
    return {
        "name": name,
        "category": "permanent",
        "exit_codes": [99303],
        "message": "(a|aa)+$",
        "of_request": True,
    }


def test_rules_that_were_not_tried_in_time_are_on_record_and_shown(
    unit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "MATCH_SEC", 0.2)
    content = json.loads(Path("../policy.json").read_text())
    quick = {"name": "quick", "category": "data", "exit_codes": [99303], "message": "aaa", "of_request": True}
    content["rules"] += [slow_rule("slow_a"), slow_rule("slow_b"), quick]
    Path("../policy.json").write_text(json.dumps(content))
    began = time.process_time()
    assert fail(1, 99303, exit_message="a" * 60 + "b") == RETRY
    assert time.process_time() - began < 5
    assert (verdict()["rule"], verdict()["confidence"]) == ("report-missing", "low")
    # Tried in the order in which they would hold; the name decides last.
    assert verdict()["untried_rules"] == ["slow_b", "slow_a", "quick"]
    shown = newest_post(unit, NODE)
    assert shown is not None
    assert shown.message.endswith(
        "(judged without the rules slow_b, slow_a, quick: their patterns took too long)"
    )


def test_where_all_rules_were_tried_nothing_is_said_of_it(unit: Path) -> None:
    assert fail(1, 8001, exit_message="a") == GIVE_UP
    assert (verdict()["untried_rules"], verdict()["confidence"]) == ([], "high")
    shown = newest_post(unit, NODE)
    assert shown is not None
    assert shown.message == "a"
    assert fail(2, 0) == DONE
