"""Framework job reports, in every state in which they come."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import fjr, scanner
from sandbox.failure import STALLED, exit_status
from sandbox.process import Outcome
from sandbox.steps import judge
from sandbox.watchdog import Verdict

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


def outcome(status: int, ended: Verdict | None = None) -> Outcome:
    return Outcome(status=status, wall_sec=1.0, cpu_sec=1.0, peak_rss_mb=1, ended=ended)


def test_a_whole_report_is_read(path: Path) -> None:
    path.write_text(REPORT)
    report = fjr.read(path)
    assert (report.complete, report.exit_code) == (True, 0)
    assert report.inputs == (fjr.InputEntry("/store/data/a.root", "root://door//store/data/a.root", 12),)
    [entry] = report.outputs
    assert (entry.module, entry.pfn, entry.events) == ("AODoutput", "out.root", 10)
    assert entry.lumis == (fjr.Lumi(1, 5, 4), fjr.Lumi(1, 6, None), fjr.Lumi(1, 7, None))
    assert "/store/data/b.root" in report.unread_fallbacks


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
    ended=st.none() | st.just(Verdict(STALLED, "looping")),
)
def test_a_step_succeeds_only_if_process_and_report_both_say_so(
    status: int, told: int | None, complete: bool, ended: Verdict | None
) -> None:
    code, _ = judge(outcome(status, ended), fjr.StepReport(complete=complete, exit_code=told))
    assert (code == 0) == (status == 0 and not told and complete and not ended)
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


def test_mixed_in_and_secondary_files_are_no_input(path: Path) -> None:
    kinds = ("primaryFiles", "mixingFiles", "secondaryFiles")
    entries = (
        f"<InputFile><LFN>/store/{kind}</LFN><InputType>{kind}</InputType><EventsRead>5</EventsRead></InputFile>"
        for kind in kinds
    )
    path.write_text(f"<FrameworkJobReport>{''.join(entries)}</FrameworkJobReport>")
    report = fjr.read(path)
    assert [entry.lfn for entry in report.inputs] == ["/store/primaryFiles"]
    assert [entry.lfn for entry in report.pileup] == ["/store/mixingFiles"]


# As CMSSW itself writes them. Names and texts are made up, tags, attributes and their order are not.

MESSAGE = """An exception of category 'FileReadError' occurred while
   [0] Processing  Event run: 1 lumi: 5 event: 9 stream: 0
Exception Message:
TBufferFile::ReadVersion() 'a' & "b" <c>, `reboot`, $(reboot), 100 %, Größe"""
INPUT = """
<InputFile>
<State  Value="closed"/>
<LFN>/store/data/a.root</LFN>
<PFN>root://door.example//store/data/a.root?source=x&amp;tried=y</PFN>
<Catalog>trivialcatalog_file:/cvmfs/cms.cern.ch/storage.xml?protocol=xrootd</Catalog>
<ModuleLabel>source</ModuleLabel>
<GUID>00000000-0000-0000-0000-000000000001</GUID>
<Branches>
  <Branch>edmTriggerResults_TriggerResults__HLT.</Branch>
</Branches>
<InputType>primaryFiles</InputType>
<InputSourceClass>PoolSource</InputSourceClass>
<EventsRead>12</EventsRead>
<Runs>
<Run ID="1">
   <LumiSection ID="5"/>
</Run>

</Runs>
</InputFile>
"""
OUTPUT = """
<File>
<State  Value="closed"/>
<LFN></LFN>
<PFN>AODoutput.root</PFN>
<Catalog></Catalog>
<ModuleLabel>AODoutput</ModuleLabel>
<GUID>00000000-0000-0000-0000-000000000002</GUID>
<Branches>
</Branches>
<OutputModuleClass>PoolOutputModule</OutputModuleClass>
<TotalEvents>10</TotalEvents>

<DataType>MC</DataType>

<BranchHash>d41d8cd98f00b204e9800998ecf8427e</BranchHash>

<Runs>
<Run ID="1">
   <LumiSection ID="5" NEvents="4"/>
   <LumiSection ID="6" NEvents="6"/>
</Run>

</Runs>

<Inputs>
<Input>
  <LFN>/store/data/a.root</LFN>
  <PFN>root://door.example//store/data/a.root</PFN>
  <FastCopying>0</FastCopying>
</Input>
</Inputs>
</File>
"""
FALLBACK = """<FallbackAttempt Pfn="root://far.example//store/data/a.root" Lfn="/store/data/a.root"/>
<![CDATA[
Failed to open the file '/near/a.root', the server answered:
<!DOCTYPE html><html><body>404</body></html>
]]>
"""
ERROR = f'<FrameworkError ExitStatus="8021" Type="FileReadError" >\n<![CDATA[\n{MESSAGE}\n]]>\n</FrameworkError>\n'
REST = """<SkippedEvent Run="1" Event="7" />
<AnalysisFile>
  <FileName>histograms.root</FileName>
  <Source  Value="TFileService" />
</AnalysisFile>
<MessageSummary>
  <WARN_TwoTrackMinimumDistance  Value="3" />
</MessageSummary>
<PerformanceReport>
  <PerformanceModule Metric="SystemMemory"  Module="generalTracks" >
    <Metric Name="PeakValueRss" Value="7"/>
  </PerformanceModule>
</PerformanceReport>
<PerformanceReport>
  <PerformanceSummary Metric="ApplicationMemory">
    <Metric Name="PeakValueRss" Value="1.5e+03"/>
  </PerformanceSummary>
</PerformanceReport>
<GeneratorInfo>
</GeneratorInfo>
"""
PLACEHOLDER = '<FrameworkError ExitStatus="8901" Type="UnexpectedJobTermination"/>\n'
END = "</FrameworkJobReport>\n"
GOOD = f"<FrameworkJobReport>\n{INPUT}{OUTPUT}{FALLBACK}{REST}{END}"
FAILED = f"<FrameworkJobReport>\n{INPUT}{OUTPUT}{FALLBACK}{ERROR}{REST}{END}"


def read(path: Path, text: str | bytes) -> fjr.StepReport:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return fjr.read(path)


def test_a_report_of_cmssw_is_read_whole(path: Path) -> None:
    report = read(path, FAILED)
    assert (report.complete, report.exit_code, report.message) == (True, 8021, MESSAGE)
    assert [entry.pfn for entry in report.inputs] == [
        "root://door.example//store/data/a.root?source=x&tried=y"
    ]
    [output] = report.outputs
    assert (output.pfn, output.events) == ("AODoutput.root", 10)
    assert output.lumis == (fjr.Lumi(1, 5, 4), fjr.Lumi(1, 6, 6))
    assert (report.skipped_files, "/store/data/a.root" in report.fallback_files) == ((), True)
    assert read(path, GOOD).exit_code == 0


def test_a_file_that_a_fallback_found_and_that_was_read_is_in_no_doubt(path: Path) -> None:
    opened = FALLBACK.replace("far.example/", "far.example//eos/cms")
    assert read(path, FAILED.replace(FALLBACK, opened)).unread_fallbacks == ()
    never_read = FAILED.replace(FALLBACK, opened.replace("/store/data/a.root", "/store/data/c.root"))
    assert "/store/data/c.root" in read(path, never_read).unread_fallbacks


def test_a_report_that_breaks_off_anywhere_keeps_what_was_complete_and_is_no_success(path: Path) -> None:
    data = FAILED.encode()
    begun = data.index(b'"FileReadError" >') + len(b'"FileReadError" >')
    for cut in range(len(data) - 1):
        report = read(path, data[:cut])
        assert not report.complete
        assert report.exit_code != 0
        assert len(report.inputs) == (cut >= data.index(b"</InputFile>") + len(b"</InputFile>"))
        assert len(report.outputs) == (cut >= data.index(b"</File>") + len(b"</File>"))
        if cut >= begun:
            assert report.exit_code == 8021
            # The last character may be torn, too.
            assert MESSAGE.startswith(report.message[:-1].rstrip()) or report.message == "FileReadError"
            assert cut <= data.index(b"]]>\n</FrameworkError>") or report.message == MESSAGE


@given(cut=st.integers(0, len(GOOD)), gap=st.integers(1, 400), junk=st.binary(max_size=8))
def test_a_gap_anywhere_never_makes_a_failed_report_a_success(
    tmp_path_factory: pytest.TempPathFactory, cut: int, gap: int, junk: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "gap.xml"
    data = FAILED.encode()
    place = data.index(b"<FrameworkError")
    report = read(path, data[:cut] + junk + data[cut + gap :])
    if cut + gap <= place or cut > place + len(b"<FrameworkError"):
        assert report.exit_code not in (None, 0)
    # Of files that are not all there, none is counted.
    assert all(entry.events == 10 for entry in report.outputs) or b"TotalEvents" not in data[cut : cut + gap]


def test_a_job_that_died_while_cmssw_wrote_its_report_has_not_succeeded(path: Path) -> None:
    """A newer CMSSW closes its report after each part, with an error that the next part overwrites."""
    report = read(path, f"<FrameworkJobReport>\n{INPUT}{PLACEHOLDER}{END}")
    assert (report.complete, report.exit_code, report.message) == (True, 8901, "UnexpectedJobTermination")
    assert not report.says_failed
    assert judge(outcome(0), report)[0] == 8901
    assert judge(outcome(-9), report)[0] == 137
    both = read(path, f"<FrameworkJobReport>\n{PLACEHOLDER}{ERROR}{END}")
    assert (both.exit_code, both.says_failed) == (8021, True)


def test_what_is_left_behind_the_end_of_a_report_does_not_matter_unless_it_is_an_error(path: Path) -> None:
    left = PLACEHOLDER[len(END) :] + END
    assert (read(path, GOOD + left).complete, read(path, GOOD + left).exit_code) == (True, 0)
    assert read(path, GOOD + ERROR).exit_code == 8021
    assert read(path, GOOD + FAILED).exit_code == 8021
    assert not read(path, GOOD + GOOD[:-30]).complete


def test_a_step_that_was_told_to_stop_has_not_done_all_its_work(path: Path) -> None:
    report = read(path, GOOD.replace(END, f"<ShutdownSignal/>\n{END}"))
    assert (report.exit_code, report.says_failed) == (9000, False)
    assert judge(outcome(0), report)[0] == judge(outcome(9000 % 256), report)[0] == 9000


def test_of_several_errors_the_one_that_the_process_returned_counts(path: Path) -> None:
    other = '<FrameworkError ExitStatus="8001" Type="CMSException">first</FrameworkError>'
    report = read(path, f"<FrameworkJobReport>{other}{ERROR}{END}")
    assert (report.exit_code, [code for code, _ in report.errors]) == (8001, [8001, 8021])
    assert judge(outcome(85), report) == (8021, MESSAGE)
    assert judge(outcome(65), report) == (8001, "first")
    assert judge(outcome(3), report)[0] == 3


@pytest.mark.parametrize(
    "malformed",
    [
        GOOD.replace("&amp;", "&"),
        GOOD.replace("WARN_TwoTrackMinimumDistance", "0bad|name<T>"),
        GOOD.replace('"1.5e+03"', '"a<b"'),
        GOOD.replace("<GeneratorInfo>", "<GeneratorInfo"),
        "leading words\n" + GOOD,
        '\ufeff\n <?xml version="1.0" encoding="us-ascii"?>\n' + GOOD,
        GOOD.replace("\n", "\r\n"),
    ],
    ids=["ampersand", "name", "attribute", "tag", "words", "declaration", "windows"],
)
def test_what_is_malformed_somewhere_else_does_not_hide_the_files(path: Path, malformed: str) -> None:
    report = read(path, malformed)
    assert (report.complete, report.exit_code) == (True, 0)
    assert [(entry.lfn, entry.events_read) for entry in report.inputs] == [("/store/data/a.root", 12)]
    assert [(entry.module, entry.events) for entry in report.outputs] == [("AODoutput", 10)]


@pytest.mark.parametrize(
    ("text", "events"),
    [("10", 10), ("10.0", 10), ("1.2e+03", 1200), (" 7\n", 7), ("", 10), ("nan", 10), ("-3", 10), ("1_0", 10),
     ("18446744073709551615", 10)],
)  # fmt: skip
def test_numbers_of_events_are_read_as_they_are_written(path: Path, text: str, events: int) -> None:
    """Where the number makes no sense, those of the lumi sections are added up."""
    report = read(path, GOOD.replace("<TotalEvents>10", f"<TotalEvents>{text}"))
    assert (report.complete, [entry.events for entry in report.outputs]) == (True, [events])


def test_a_file_that_does_not_say_how_many_events_it_has_makes_no_success(path: Path) -> None:
    text = GOOD.replace("<TotalEvents>10</TotalEvents>", "")
    assert [entry.events for entry in read(path, text).outputs] == [10]
    report = read(path, text.replace(' NEvents="4"', ""))
    assert (report.complete, report.exit_code, report.outputs) == (False, None, ())
    unknown = GOOD.replace('NEvents="4"', 'NEvents="18446744073709551615"')
    assert [lumi.events for lumi in read(path, unknown).outputs[0].lumis] == [None, 6]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("Größe – “a”".encode(), "Größe – “a”"),
        ("Größe – “a”".encode("cp1252"), "Größe – “a”"),
        (b"\xff\xfe\x00 a\x1b[2J", "ÿþ? a?[2J"),
        ("é".encode() + b"\xe9", "éé"),
    ],
)
def test_bytes_of_any_kind_are_characters(path: Path, data: bytes, message: str) -> None:
    error = b'<FrameworkError ExitStatus="8001">' + data + b"</FrameworkError>"
    assert read(path, b"<FrameworkJobReport>" + error + END.encode()).message == message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", None),
        ("\0" * 5000, None),
        ("<html><body>no report</body></html>", None),
        (f"<FrameworkJobReport>{END}", 0),
        (f'<FrameworkJobReport Status="Failed" JobSpecID="a">{END}', 8001),
        (f'<FrameworkJobReport><FrameworkError ExitStatus="60998"><ExitCode Value="1"/>a</FrameworkError>{END}', 60998),
        (f"<FrameworkJobReport><FrameworkError ExitStatus='1' Type=''> <Error with code 1 </FrameworkError>{END}", 1),
        (f"<FrameworkJobReports><FrameworkJobReport>{ERROR}{END}</FrameworkJobReports>", 8021),
        (f"<FrameworkJobReport>{'<a>' * 100_000}{ERROR}", 8021),
        (f"<FrameworkJobReport>{'<' * 1000}{ERROR}", 8021),
        (f"<FrameworkJobReport></FrameworkError>{END}", 8001),
        (f'<FrameworkJobReport><FrameworkError ExitStatus="{"8" * 5000}">a</FrameworkError>{END}', 8001),
        ('<!DOCTYPE a [<!ENTITY a "aaaa">]>' + f"<FrameworkJobReport>{ERROR}{END}", 8021),
    ],
    ids=range(13),
)  # fmt: skip
def test_reports_of_every_kind_are_told_apart(path: Path, text: str, code: int | None) -> None:
    assert read(path, text).exit_code == code


def test_entities_are_not_expanded_and_hide_no_error(path: Path) -> None:
    laughs = "".join(f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9))
    report = read(path, f'<!DOCTYPE l [<!ENTITY a "ha">{laughs}]><FrameworkJobReport>&j;{ERROR}{END}')
    assert (report.complete, report.exit_code) == (False, 8021)


def test_a_long_message_is_cut(path: Path) -> None:
    error = f'<FrameworkError ExitStatus="8001">{"long " * 100_000}</FrameworkError>'
    assert len(read(path, f"<FrameworkJobReport>{error}{END}").message) <= 10_000


@pytest.mark.parametrize("torn", [False, True])
def test_a_huge_report_takes_little_memory(path: Path, monkeypatch: pytest.MonkeyPatch, torn: bool) -> None:
    monkeypatch.setattr(scanner, "LARGEST_TORN_BYTES", 1 << 20)
    monkeypatch.setattr(scanner, "PART_BYTES", 1 << 18)
    branches = "  <Branch>recoTracks_generalTracks__RECO.</Branch>\n" * 5_000
    with path.open("w") as stream:
        stream.write(f"<FrameworkJobReport>\n{INPUT}")
        for _ in range(60):
            stream.write(OUTPUT.replace("<Branches>\n", f"<Branches>\n{branches}", 1))
        stream.write(f"{ERROR}{'' if torn else END}")
    assert path.stat().st_size > 14_000_000
    tracemalloc.start()
    report = fjr.read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (report.complete, report.exit_code) == (not torn, 8021)
    assert 0 < len(report.outputs) < 20 if torn else len(report.outputs) == 60
    assert peak < 10_000_000


def test_more_of_anything_than_a_report_can_have_is_no_report(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "MOST_ENTRIES", 10)
    many = "".join(f'<LumiSection ID="{k}"/>' for k in range(11))
    text = GOOD.replace('<LumiSection ID="6" NEvents="6"/>', many)
    assert not read(path, text).complete


def test_a_report_that_is_too_large_to_be_sent_around_is_not_copied(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(GOOD.encode() + b"\xe9")
    target = tmp_path / "copy.xml"
    fjr.copy(path, target)
    assert fjr.read(target) == fjr.read(path)
    assert target.read_text("utf-8").endswith("é")
    monkeypatch.setattr(fjr, "LARGEST_COPY", 100)
    fjr.copy(path, target)
    assert not target.exists()
