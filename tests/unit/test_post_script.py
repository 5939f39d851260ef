"""The scripts around the jobs, on the files that HTCondor and the sandbox leave."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from post_script import election
from post_script.__main__ import ERRORS, main
from post_script.files import append_line, read_json, write_json
from post_script.group import judge, prepare
from post_script.joblog import read_attempt
from post_script.merge import collect
from post_script.names import ABORT, DONE, GIVE_UP, RETRY, SKIP
from post_script.node import finish_attempt
from post_script.policy import Failure, classify, load_policy
from tests.factories import input_file, reprocessing, simulation, snapshot
from wms2.core.planning import plan_round
from wms2.dagman.round_folder import write_round
from wms2.models.merge_output import MergeOutput

MERGED_BASE = "/store/mc/Run2024A/MinBias/GEN-SIM/Test-v1/000000"
UNMERGED_BASE = MERGED_BASE.replace("/mc/", "/unmerged/")
DATASET = "/MinBias/Run2024A-Test-v1/GEN-SIM"


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a prepared work unit of three nodes, as the scripts' working folder."""
    request = simulation(total_events=300)
    write_round(plan_round(snapshot(request)), tmp_path / "round")
    folder = tmp_path / "round/mg_000000"
    monkeypatch.chdir(folder)
    assert prepare("mg_000000") == DONE
    return folder


def write_log(node: str, cluster: int, site: str = "T2_DE_DESY", end: str = "", more: str = "") -> None:
    ended = end or "\t(1) Normal termination (return value 0)"
    event = "009" if "aborted" in ended else "005"
    append_line(
        f"{node}.log",
        f"000 ({cluster:03d}.000.000) 2026-01-01 00:00:00 Job submitted from host: <127.0.0.1:1>\n...\n"
        f"{event} ({cluster:03d}.000.000) 2026-01-01 00:01:00 Job terminated.\n{ended}\n...\n"
        f"028 ({cluster:03d}.000.000) 2026-01-01 00:01:00 Job ad information event triggered.\n"
        f'MachineAttrGLIDEIN_CMSSite0 = "{site}"\nRequestMemory = 2048\nRemoteUserCpu = 1.5\n{more}'
        f"TriggerEventTypeNumber = 5\n...",
    )


def write_report(node: str, cluster: int, exit_code: int = 0, **more: Any) -> None:
    output = {
        "module": "RAWSIMoutput",
        "dataset": DATASET,
        "lfn": f"{UNMERGED_BASE}/{node}_{cluster}.root",
        "site": "T2_DE_DESY",
        "size_bytes": 10,
        "events": 100,
        "adler32": "00000001",
        "lumis": [{"run": 1, "lumi": 1, "events": 100}],
        "parents": [],
    }
    report = {
        "version": 1,
        "node": node,
        "cluster": cluster,
        "site": "T2_DE_DESY",
        "exit_code": exit_code,
        "exit_message": "" if exit_code == 0 else "it broke",
        "steps": [{"name": "GEN", "exit_code": exit_code, "wall_sec": 2.0, "events_written": 100}],
        "outputs": [output] if exit_code == 0 else [],
        "wall_sec": 3.0,
    }
    write_json(f"{node}.{cluster}.report.json", report | more)


def run_node(node: str, cluster: int, exit_code: int = 0, retry: int = 0, **more: Any) -> int:
    write_log(node, cluster, end=f"\t(1) Normal termination (return value {exit_code % 256})")
    write_report(node, cluster, exit_code, **more)
    return finish_attempt(node, exit_code % 256, cluster, retry, 3)


def newest(node: str) -> dict[str, Any]:
    post = read_json(f"{node}.post.json")
    assert post is not None
    return post


def test_a_landing_elects_the_site_where_it_ran(unit: Path) -> None:
    write_log("landing", 7)
    assert finish_attempt("landing", 0, 7, 0, 3) == DONE
    assert election.elected_site() == "T2_DE_DESY"
    assert "landing_sites = T1_US_FNAL" in (unit / "site.inc").read_text()


@pytest.mark.parametrize("site", ["", "none", "T2_US_Purdue; queue 5", 'T2_XX"', "T2_A_b\\nqueue", "$(HOME)"])
def test_a_landing_that_shows_no_proper_site_elects_none_and_is_retried(unit: Path, site: str) -> None:
    write_log("landing", 7, site=site)
    assert finish_attempt("landing", 0, 7, 0, 3) == RETRY
    assert election.elected_site() == ""


def test_a_success_is_done_and_recorded(unit: Path) -> None:
    assert run_node("proc_000000", 12) == DONE
    post = newest("proc_000000")
    assert post["final"]
    assert post["job"]["site"] == "T2_DE_DESY"
    assert post["job"]["wall_time_sec"] == 3.0
    assert post["cmssw"]["output_files"] == [f"{UNMERGED_BASE}/proc_000000_12.root"]


def test_the_long_exit_code_of_the_report_decides(unit: Path) -> None:
    assert run_node("proc_000000", 12, exit_code=8021) == RETRY
    assert newest("proc_000000")["job"]["exit_code"] == 8021


def test_a_report_that_says_success_while_the_process_failed_is_not_believed(unit: Path) -> None:
    write_log("proc_000000", 12, end="\t(1) Normal termination (return value 134)")
    write_report("proc_000000", 12, 0)
    assert finish_attempt("proc_000000", 134, 12, 0, 3) == GIVE_UP
    assert newest("proc_000000")["job"]["exit_code"] == 134


@pytest.mark.parametrize(
    "text", [None, "", "{", '{"version": 1', "[]", '{"node": "proc_000001", "cluster": 12}']
)
def test_exit_0_without_the_nodes_own_whole_report_is_no_success(unit: Path, text: str | None) -> None:
    write_log("proc_000000", 12)
    if text is not None:
        Path("proc_000000.12.report.json").write_text(text)
    assert finish_attempt("proc_000000", 0, 12, 0, 3) == RETRY
    assert newest("proc_000000")["job"]["exit_code"] == 99303


def test_the_same_attempt_gets_the_same_answer_again(unit: Path) -> None:
    assert run_node("proc_000000", 12, exit_code=8001) == GIVE_UP
    Path("proc_000000.12.report.json").unlink()
    before = Path("proc_000000.12.post.json").read_bytes()
    assert finish_attempt("proc_000000", 65, 12, 2, 3) == GIVE_UP
    assert Path("proc_000000.12.post.json").read_bytes() == before


def test_a_permanent_failure_is_given_up_at_once(unit: Path) -> None:
    assert run_node("proc_000000", 12, exit_code=8501) == GIVE_UP
    assert newest("proc_000000")["classification"]["category"] == "permanent"


def test_what_the_site_caused_is_tried_twice_there_and_then_ends_the_group(unit: Path) -> None:
    assert run_node("proc_000000", 12, exit_code=60307, retry=0) == RETRY
    assert run_node("proc_000000", 13, exit_code=60307, retry=1) == GIVE_UP
    assert newest("proc_000000")["classification"]["elect_again"]


def test_an_idle_job_at_a_vanished_site_ends_the_group_at_once(unit: Path) -> None:
    write_log(
        "proc_000000",
        12,
        end="\tJob was aborted.\n".replace("Job was aborted.", "WMS2 idle at T2_DE_DESY aborted"),
    )
    assert finish_attempt("proc_000000", -1002, 12, 0, 3) == GIVE_UP
    verdict = newest("proc_000000")["classification"]
    assert verdict["category"] == "infrastructure"
    assert verdict["elect_again"]


def test_our_own_stop_blames_no_site_and_is_no_failure_of_the_node(unit: Path) -> None:
    write_log("proc_000000", 12, end="\tvia condor_rm (by user operator), aborted")
    assert finish_attempt("proc_000000", -1002, 12, 0, 3) == RETRY
    verdict = newest("proc_000000")["classification"]
    assert verdict["category"] == "stopped"
    assert not verdict["elect_again"]


@pytest.mark.parametrize(
    ("had", "cores", "raised"),
    [(1000, None, 1500), (2048, 1, 3000), (3500, 1, 3500), (16_000, 8, 24_000), (20_000, 8, 24_000)],
)
def test_memory_is_raised_by_half_after_a_memory_failure_and_capped(
    unit: Path, had: int, cores: int | None, raised: int
) -> None:
    more = f"RequestMemory = {had}\n" + (f"RequestCpus = {cores}\n" if cores else "")
    write_log("proc_000000", 12, end="\t(1) Normal termination (return value 228)", more=more)
    write_report("proc_000000", 12, 50660)
    assert finish_attempt("proc_000000", 228, 12, 0, 9) == RETRY
    assert Path("memory.inc").read_text().splitlines()[-1] == f"proc_000000_memory = {raised}"


TABLE = """\tPartitionable Resources :    Usage  Request Allocated
\t   Cpus                 :     0.92        {cpus}         1
\t   Memory (MB)          : {usage}     {memory}      8192
"""


@pytest.mark.parametrize(
    ("table", "before", "raised"),
    [
        (TABLE.format(cpus=1, usage=3890, memory=1800), None, 2700),
        (TABLE.format(cpus=4, usage="", memory=6000), None, 9000),
        (TABLE.format(cpus=1, usage=3890, memory=1800), 1000, 2700),
        ("", 1200, 1800),
        ("", None, 24_000),
    ],
    ids=[
        "as requested",
        "usage unknown",
        "the log before the include",
        "by the include",
        "by the submit file",
    ],
)
def test_memory_is_raised_where_the_log_has_no_job_ad(
    unit: Path, table: str, before: int | None, raised: int
) -> None:
    if before:
        append_line("memory.inc", f"proc_000000_memory = 900\nproc_000000_memory = {before}")
    submit = Path("../proc.sub")
    text = re.sub(r"_memory:\d+\)", "_memory:16000)", submit.read_text())
    text = re.sub(r"request_cpus = \d+", "request_cpus = 8", text)
    assert "request_memory = $($(node)_memory:16000)" in text
    submit.write_text(text)
    ended = "\t(1) Normal termination (return value 228)"
    append_line(
        "proc_000000.log", f"005 (012.000.000) 2026-01-01 00:01:00 Job terminated.\n{ended}\n{table}..."
    )
    write_report("proc_000000", 12, 50660)
    assert finish_attempt("proc_000000", 228, 12, 0, 9) == RETRY
    assert Path("memory.inc").read_text().splitlines()[-1] == f"proc_000000_memory = {raised}"
    assert newest("proc_000000")["raised_memory_mb"] == raised


def test_memory_that_could_not_be_raised_is_on_record(unit: Path) -> None:
    Path("../proc.sub").unlink()
    write_report("proc_000000", 12, 50660)
    assert finish_attempt("proc_000000", 228, 12, 0, 9) == RETRY
    assert newest("proc_000000")["raised_memory_mb"] is None
    assert "proc_000000_memory" not in Path("memory.inc").read_text()


def test_an_unknown_code_is_retried_and_called_unclassified(unit: Path) -> None:
    assert run_node("proc_000000", 12, exit_code=77) == RETRY
    assert newest("proc_000000")["classification"]["category"] == "unclassified"


def test_the_last_retry_of_dagman_makes_the_attempt_final(unit: Path) -> None:
    assert run_node("proc_000000", 12, exit_code=77, retry=3) == GIVE_UP
    assert newest("proc_000000")["final"]
    assert newest("proc_000000")["classification"]["outcome"] == "attempts exhausted"


def test_an_error_inside_the_script_is_recorded_and_never_a_success(
    unit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("../policy.json").unlink()
    write_log("proc_000000", 12, end="\t(1) Normal termination (return value 1)")
    monkeypatch.setattr("sys.argv", ["post", "node", "proc_000000", "1", "12.0", "0", "3"])
    assert main() == RETRY
    assert "policy.json is missing" in Path(ERRORS).read_text()
    for words in (["node", "proc_000000"], ["nonsense"], ["judge", "mg_000000", "x"]):
        monkeypatch.setattr("sys.argv", ["post", *words])
        assert main() == RETRY


def test_a_job_that_could_not_be_submitted_is_retried(unit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["post", "node", "proc_000000", "-1001", "-1.-1", "0", "3"])
    assert main() == RETRY
    assert newest("proc_000000")["job"]["exit_code"] == -1001


def run_all_nodes() -> None:
    election.elect("T2_DE_DESY")
    for number in range(3):
        assert run_node(f"proc_{number:06d}", 20 + number) == DONE


def merge_report(**changes: Any) -> None:
    merged = read_json("merge_input.json")
    assert merged is not None
    output = dict(merged["files"][0], lfn=f"{MERGED_BASE}/merged.root", events=300)
    output["merged_from"] = [file["lfn"] for file in merged["files"]]
    write_log("merge", 30)
    write_report("merge", 30, outputs=[output | changes])


def test_the_merge_reads_exactly_the_accepted_files(unit: Path) -> None:
    election.elect("T2_DE_DESY")
    assert run_node("proc_000000", 11, exit_code=77, outputs=[]) == RETRY
    write_report("proc_000000", 10)
    Path("proc_000000.99.report.json").write_text("{")
    run_all_nodes()
    assert collect() == DONE
    merged = read_json("merge_input.json")
    assert merged is not None
    assert [file["lfn"] for file in merged["files"]] == [
        f"{UNMERGED_BASE}/proc_{number:06d}_{20 + number}.root" for number in range(3)
    ]
    assert merged["leftovers"] == [f"{UNMERGED_BASE}/proc_000000_10.root"]


@pytest.mark.parametrize(
    "lfn",
    [
        "/store/data/Run2024A/EGamma/RAW/v1/precious.root",
        MERGED_BASE + "/precious.root",
        UNMERGED_BASE.replace("000000", "000001") + "/precious.root",
        UNMERGED_BASE + "x/precious.root",
        UNMERGED_BASE + "/../precious.root",
        UNMERGED_BASE + "//precious.root",
        UNMERGED_BASE + "/a b.root",
        UNMERGED_BASE,
        UNMERGED_BASE + "/" + 500 * "x",
    ],
)
def test_a_report_that_names_a_file_of_somebody_else_never_has_it_deleted(unit: Path, lfn: str) -> None:
    election.elect("T2_DE_DESY")
    wrong = {"dataset": DATASET, "lfn": lfn, "site": "T2_DE_DESY", "events": 100}
    assert run_node("proc_000000", 10, outputs=[wrong]) == RETRY
    assert newest("proc_000000")["classification"]["rule"] == "unusable-result"
    assert run_node("proc_000000", 11, exit_code=77, left=[{"lfn": lfn, "reason": "left"}]) == RETRY
    run_all_nodes()
    write_report("merge", 29, 8001, left=[{"lfn": lfn.replace(MERGED_BASE, "/store/mc"), "reason": "left"}])
    assert collect() == DONE
    merged = read_json("merge_input.json") or {}
    assert (merged["leftovers"], merged["elsewhere"]) == ([], [])
    assert run_node("cleanup", 40, left=[{"lfn": lfn, "reason": "left"}], outputs=[]) == DONE
    assert (read_json("removals.json") or {})["files"] == []


def test_a_file_of_one_dataset_is_none_of_another(unit: Path) -> None:
    wrong = {"dataset": DATASET + "X", "lfn": f"{UNMERGED_BASE}/a.root", "site": "T2_DE_DESY", "events": 1}
    assert run_node("proc_000000", 10, outputs=[wrong]) == RETRY


def test_what_failed_attempts_left_goes_to_the_cleanup_and_what_merges_left_does_not(unit: Path) -> None:
    election.elect("T2_DE_DESY")
    lfn, merged_lfn = f"{UNMERGED_BASE}/left.root", f"{MERGED_BASE}/left.root"
    assert run_node("proc_000000", 11, exit_code=77, left=[{"lfn": lfn, "reason": "killed"}]) == RETRY
    run_all_nodes()
    write_report("merge", 29, 8001, left=[{"lfn": merged_lfn, "reason": "killed"}])
    assert collect() == DONE
    merged = read_json("merge_input.json") or {}
    assert merged["leftovers"] == [lfn]
    assert merged["elsewhere"] == [{"lfn": merged_lfn, "site": "T2_DE_DESY"}]


def write_word_of_execution(node: str, cluster: int) -> None:
    append_line(f"{node}.log", f"001 ({cluster:03d}.000.000) 2026-01-01 00:00:30 Job executing\n...")


def test_what_an_attempt_without_report_may_have_left_is_removed_where_it_ran(unit: Path) -> None:
    election.elect("T2_DE_DESY")
    for cluster, site in ((11, "T2_DE_DESY"), (12, "T2_US_Purdue")):
        write_word_of_execution("proc_000000", cluster)
        write_log("proc_000000", cluster, site, end="\tWMS2 evicted, aborted")
        assert finish_attempt("proc_000000", -1002, cluster, 0, 3) == RETRY
    run_all_nodes()
    assert collect() == DONE
    write_word_of_execution("merge", 29)
    write_log("merge", 29, end="\tWMS2 evicted, aborted")
    assert finish_attempt("merge", -1002, 29, 0, 3) == RETRY
    assert collect() == DONE
    merged = read_json("merge_input.json") or {}
    prefix = simulation(total_events=300).digest8
    unmerged = [f"{UNMERGED_BASE}/{prefix}_proc_000000_{cluster}_RAWSIMoutput.root" for cluster in (11, 12)]
    assert merged["leftovers"] == unmerged[:1]
    assert [(file["lfn"], file["site"]) for file in merged["elsewhere"]] == [
        (unmerged[1], "T2_US_Purdue"),
        *((f"{MERGED_BASE}/{prefix}_mg_000000_29_{number}.root", "T2_DE_DESY") for number in range(3)),
    ]


def test_an_attempt_that_never_ran_has_left_nothing(unit: Path) -> None:
    write_log("proc_000000", 11, end="\tWMS2 evicted, aborted")
    assert finish_attempt("proc_000000", -1002, 11, 0, 3) == RETRY
    assert newest("proc_000000")["left"] == []


@pytest.mark.parametrize("node", ["proc_000000", "merge"])
@pytest.mark.parametrize(
    "text",
    [
        '{"outputs": null, "left": null, "site": "T2_DE_DESY"}',
        '{"outputs": [{"lfn": "/store/x.root"}]}',
        '{"outputs": ["x", null, 3], "left": [[]], "site": 1}',
        '{"outputs": 3, "left": {"a": 1}, "site": "T2_DE_DESY"}',
        '{"outputs": [{}, {"lfn": null}, {"lfn": {}, "dataset": []}], "site": "T2_DE_DESY"}',
        "[1]",
    ],
)
def test_a_malformed_report_of_an_earlier_attempt_does_not_block_the_merge(
    unit: Path, node: str, text: str
) -> None:
    run_all_nodes()
    Path(f"{node}.5.report.json").write_text(text)
    assert collect() == DONE
    merged = read_json("merge_input.json") or {}
    assert (len(merged["files"]), merged["leftovers"], merged["elsewhere"]) == (3, [], [])


@pytest.mark.parametrize("produced", [None, {}, {"outputs": None}, {"outputs": [{"lfn": "/store/x.root"}]}])
def test_an_accepted_record_that_cannot_be_merged_from_lets_the_group_begin_anew(
    unit: Path, produced: dict[str, Any] | None
) -> None:
    run_all_nodes()
    write_json("proc_000001.post.json", dict(newest("proc_000001"), produced=produced))
    assert collect() == RETRY
    assert read_json("lost.json") == {"nodes": ["proc_000001"]}


@pytest.mark.parametrize("wrong", [None, 3, "x", [None], [{"name": [], "wall_sec": "long"}], {"a": 1}])
@pytest.mark.parametrize("key", ["steps", "inputs", "pilot"])
def test_figures_that_a_job_got_wrong_do_not_lose_its_output(unit: Path, key: str, wrong: Any) -> None:
    run_all_nodes()
    assert run_node("proc_000000", 25, **{key: wrong}) == DONE
    assert collect() == DONE
    merge_report()
    assert finish_attempt("merge", 0, 30, 0, 2) == DONE
    MergeOutput.model_validate_json(Path("merge_output.json").read_bytes())


def test_the_merge_waits_for_every_node(unit: Path) -> None:
    assert run_node("proc_000000", 20) == DONE
    assert collect() == RETRY


def test_a_valid_merge_makes_the_unit_produced(unit: Path) -> None:
    run_all_nodes()
    collect()
    merge_report()
    assert finish_attempt("merge", 0, 30, 0, 2) == DONE
    output = MergeOutput.model_validate_json(Path("merge_output.json").read_bytes())
    assert output.events_written == 300
    assert output.metrics["GEN"]["wall_sec"] == {"min": 2.0, "mean": 2.0, "max": 2.0}
    assert judge("mg_000000", 1) == DONE


@pytest.fixture
def reading_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of a work unit of one node, whose folder is the scripts' working folder."""
    files = (input_file(1), input_file(2))
    write_round(plan_round(snapshot(reprocessing(), inputs=files)), tmp_path / "round")
    monkeypatch.chdir(tmp_path / "round/mg_000000")
    assert prepare("mg_000000") == DONE
    return [file.lfn for file in files]


def output_of_reading(counts: dict[str, Any], in_all: int) -> MergeOutput:
    """What the unit produced, where its job says that it read so many events of each file, and so many in all."""
    base = "/store/unmerged/Run2024A/MinBias/RECO/Test-v1/000000"
    dataset = "/MinBias/Run2024A-Test-v1/RECO"
    written = {
        "dataset": dataset, "lfn": f"{base}/a.root", "site": "T1_US_FNAL", "size_bytes": 1, "events": in_all,
        "adler32": "00000001", "lumis": [], "parents": [],
    }  # fmt: skip
    inputs = [{"lfn": lfn, "events_read": events} for lfn, events in counts.items()]
    steps = [{"name": "RECO", "exit_code": 0, "events_read": in_all}]
    site = "T1_US_FNAL"
    assert run_node("proc_000000", 20, site=site, outputs=[written], inputs=inputs, steps=steps) == DONE
    assert collect() == DONE
    merged = dict(written, lfn=f"{base.replace('unmerged', 'data')}/m.root", merged_from=[written["lfn"]])
    write_log("merge", 30)
    write_report("merge", 30, site=site, outputs=[merged])
    assert finish_attempt("merge", 0, 30, 0, 2) == DONE, newest("merge")
    return MergeOutput.model_validate_json(Path("merge_output.json").read_bytes())


def test_an_output_tells_how_many_events_were_read_of_each_input_file(reading_unit: list[str]) -> None:
    a, b = reading_unit
    output = output_of_reading({a: 90, b: 100}, 190)
    assert output.nodes["proc_000000"].files_read == {a: 90, b: 100}


@pytest.mark.parametrize("told", [(0, 0), (90, None), (90, "100"), (90, -1), (True, 189)])
def test_where_the_report_does_not_name_all_that_was_read_nothing_is_told_of_any_file(
    reading_unit: list[str], told: tuple[Any, Any]
) -> None:
    output = output_of_reading(dict(zip(reading_unit, told, strict=True)), 190)
    assert output.nodes["proc_000000"].files_read is None


def test_a_produced_unit_is_never_merged_again_and_needs_no_rescue_file(unit: Path) -> None:
    run_all_nodes()
    collect()
    merge_report()
    assert finish_attempt("merge", 0, 30, 0, 2) == DONE
    before = Path("merge_output.json").read_bytes()
    assert collect() == SKIP
    assert prepare("mg_000000") == SKIP
    assert Path("merge_output.json").read_bytes() == before
    removals = read_json("removals.json")
    assert removals is not None
    assert len(removals["files"]) == 3


def test_a_produced_unit_whose_rescue_file_lacks_only_the_cleanup_runs_it(unit: Path) -> None:
    run_all_nodes()
    collect()
    merge_report()
    finish_attempt("merge", 0, 30, 0, 2)
    Path("group.dag.rescue001").write_text("# none\n")
    Path("group.dag.rescue002").write_text("DONE landing\nDONE proc_000000\nDONE merge\n")
    assert prepare("mg_000000") == DONE
    assert not Path("removals.json").exists()


def test_the_merge_needs_the_records_of_the_attempts_and_not_their_reports(unit: Path) -> None:
    run_all_nodes()
    for report in unit.glob("proc_*.report.json"):
        report.unlink()
    assert collect() == DONE
    merge_report()
    assert finish_attempt("merge", 0, 30, 0, 2) == DONE
    MergeOutput.model_validate_json(Path("merge_output.json").read_bytes())


def test_a_group_that_lost_the_record_of_an_attempt_begins_anew(unit: Path) -> None:
    run_all_nodes()
    Path("group.dag.rescue001").write_text("DONE landing\nDONE proc_000001\n")
    Path("proc_000001.post.json").write_text("{")
    assert collect() == RETRY
    assert judge("mg_000000", 1) == RETRY
    assert "the record of proc_000001 is gone" in json.loads(Path("verdict.json").read_text())["verdict"]
    assert prepare("mg_000000") == DONE
    assert not Path("group.dag.rescue001").exists()
    assert election.elected_site() == ""


def test_a_merged_file_of_an_earlier_merge_is_never_given_to_the_cleanup(unit: Path) -> None:
    run_all_nodes()
    collect()
    merge_report()
    assert collect() == DONE
    merged = read_json("merge_input.json")
    assert merged is not None
    assert merged["leftovers"] == []
    assert [entry["lfn"] for entry in merged["elsewhere"]] == [f"{MERGED_BASE}/merged.root"]


def test_what_a_merge_could_not_take_back_is_listed_for_the_end_of_the_round(unit: Path) -> None:
    run_all_nodes()
    half = {"lfn": f"{MERGED_BASE}/half.root", "reason": "the storage is down"}
    Path("merge.29.report.json").write_text(json.dumps({"site": "T2_DE_DESY", "outputs": [], "left": [half]}))
    assert collect() == DONE
    merged = read_json("merge_input.json")
    assert merged is not None
    assert merged["elsewhere"] == [{"lfn": half["lfn"], "site": "T2_DE_DESY"}]


def test_an_output_that_cannot_be_read_is_no_reason_to_make_it_again(
    unit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("merge_output.json").mkdir()
    monkeypatch.setattr("sys.argv", ["post", "prepare", "mg_000000"])
    assert main() == RETRY


def test_sites_that_are_allowed_again_are_landed_at(unit: Path) -> None:
    allowed = Path("../round.inc").read_text()
    Path("../round.inc").write_text("allowed_sites = \n")
    Path("site.inc").unlink()
    assert prepare("mg_000000") == GIVE_UP
    Path("../round.inc").write_text(allowed)
    assert prepare("mg_000000") == DONE
    assert election.landing_sites() == ["T1_US_FNAL", "T2_CH_CERN", "T2_DE_DESY", "T2_US_Purdue"]


def test_a_job_that_could_not_be_submitted_lets_the_group_try_again(unit: Path) -> None:
    election.elect("T2_DE_DESY")
    assert finish_attempt("proc_000000", -1001, 0, 0, 3) == RETRY
    assert newest("proc_000000")["final"]
    assert judge("mg_000000", 1) == RETRY
    assert json.loads(Path("verdict.json").read_text())["bad_sites"] == []


def test_another_kind_of_failure_before_does_not_make_a_site_bad_sooner(unit: Path) -> None:
    election.elect("T2_DE_DESY")
    assert run_node("proc_000000", 12, exit_code=77, retry=0) == RETRY
    assert run_node("proc_000000", 13, exit_code=60307, retry=1) == RETRY
    assert run_node("proc_000000", 14, exit_code=60307, retry=2) == GIVE_UP


def test_an_evicted_job_is_tried_again_as_a_new_attempt_and_blames_no_site(unit: Path) -> None:
    write_log("proc_000000", 12, end="\tWMS2 evicted at T2_DE_DESY, aborted")
    assert finish_attempt("proc_000000", -1002, 12, 0, 3) == RETRY
    assert newest("proc_000000")["classification"]["category"] == "transient"


@pytest.mark.parametrize(
    "change",
    [
        {"merged_from": []},
        {"merged_from": ["/store/unmerged/other.root"]},
        {"events": 299},
        {"size_bytes": 0},
        {"adler32": "none"},
        {"dataset": "/Another/Run2024A-Test-v1/GEN-SIM"},
        {"lfn": "/store/mc/elsewhere.root"},
        {"lfn": f"{MERGED_BASE}/../x.root"},
        {"lfn": f'{MERGED_BASE}/x".root'},
        {"lfn": f"{MERGED_BASE}/{'x' * 480}.root"},
        {"lumis": [{"run": 1, "lumi": 0, "events": 1}]},
        {"parents": ["/etc/passwd"]},
    ],
)
def test_a_merge_that_lost_something_or_reports_nonsense_produces_nothing(
    unit: Path, change: dict[str, Any]
) -> None:
    run_all_nodes()
    collect()
    merge_report(**change)
    assert finish_attempt("merge", 0, 30, 0, 2) == RETRY
    assert not Path("merge_output.json").exists()
    assert judge("mg_000000", 1) == RETRY


def test_cleanup_never_fails_a_group_and_lists_what_it_left(unit: Path) -> None:
    run_all_nodes()
    collect()
    write_log("cleanup", 40, end="\t(0) Abnormal termination (signal 9)")
    assert finish_attempt("cleanup", 9, 40, 1, 1) == DONE
    removals = read_json("removals.json")
    assert removals is not None
    assert {entry["lfn"] for entry in removals["files"]} == {
        f"{UNMERGED_BASE}/proc_{number:06d}_{20 + number}.root" for number in range(3)
    }


def test_a_cleanup_that_was_lost_is_tried_once_more(unit: Path) -> None:
    run_all_nodes()
    collect()
    write_log("cleanup", 40, end="\t(0) Abnormal termination (signal 9)")
    assert finish_attempt("cleanup", 9, 40, 0, 1) == RETRY
    assert finish_attempt("cleanup", 9, 40, 0, 1) == RETRY
    assert run_node("cleanup", 41, retry=1) == DONE
    removals = read_json("removals.json")
    assert removals is not None
    assert removals["files"] == []


def test_a_group_whose_site_is_bad_elects_another(unit: Path) -> None:
    run_all_nodes()
    Path("group.dag.rescue001").write_text("DONE landing\n")
    run_node("proc_000001", 49, exit_code=60307)
    run_node("proc_000001", 50, exit_code=60307, retry=1)
    assert judge("mg_000000", 1) == RETRY
    assert prepare("mg_000000") == DONE
    assert election.elected_site() == ""
    assert "T2_DE_DESY" not in election.read_include("site.inc")["landing_sites"]
    assert not Path("group.dag.rescue001").exists()
    assert Path("election_0/group.dag.rescue001").exists()
    assert not Path("proc_000001.post.json").exists()
    assert prepare("mg_000000") == DONE
    assert not Path("election_1").exists()


@pytest.mark.parametrize("code", [8020, 8021, 8022, 8027])
def test_a_damaged_unmerged_file_makes_the_group_run_all_over_again_at_another_site(
    unit: Path, code: int
) -> None:
    message = f"{UNMERGED_BASE}/a.root is not what its node staged out: its size or adler32 differs"
    for cluster, site in ((50, "T2_DE_DESY"), (60, "T1_US_FNAL")):
        election.elect(site)
        Path("group.dag.rescue001").write_text("DONE landing\nDONE proc_000000\n")
        for attempt, answer in ((0, RETRY), (1, GIVE_UP)):
            write_log(
                "merge",
                cluster + attempt,
                site=site,
                end=f"\t(1) Normal termination (return value {code % 256})",
            )
            write_report("merge", cluster + attempt, code, exit_message=message, site=site)
            assert finish_attempt("merge", code % 256, cluster + attempt, attempt, 8, site) == answer
        assert newest("merge")["classification"]["rule"] == "unmerged-not-readable"
        assert judge("mg_000000", 1) == RETRY
        assert prepare("mg_000000") == DONE
        assert not Path("group.dag.rescue001").exists()


def test_a_site_name_that_begins_like_another_is_not_avoided_with_it(unit: Path) -> None:
    Path("../round.inc").write_text("allowed_sites = T2_US_MIT,T2_US_MIT_Tier3\n")
    assert election.open_election(["T2_US_MIT", "T2_US_MIT_Tier3"], ["T2_US_MIT"]) == ["T2_US_MIT_Tier3"]
    assert election.read_include("site.inc")["avoid_sites"] == "T2_US_MIT"


def test_when_all_sites_were_bad_the_older_ones_get_another_chance(unit: Path) -> None:
    sites = ["T1_US_FNAL", "T2_DE_DESY"]
    assert election.open_election(sites, ["T1_US_FNAL"]) == ["T2_DE_DESY"]
    assert election.open_election(sites, ["T2_DE_DESY"]) == ["T1_US_FNAL"]
    assert election.open_election(["T1_US_FNAL"], ["T1_US_FNAL"]) == ["T1_US_FNAL"]


def test_a_site_that_the_round_no_longer_allows_is_left(unit: Path) -> None:
    election.elect("T2_DE_DESY")
    Path("../round.inc").write_text("allowed_sites = T1_US_FNAL\n")
    assert prepare("mg_000000") == DONE
    assert election.read_include("site.inc") == {
        "landing_sites": "T1_US_FNAL",
        "avoid_sites": "T2_DE_DESY",
        "elected_site": "",
    }


def test_no_site_left_gives_up_and_says_so(unit: Path) -> None:
    election.elect("T2_DE_DESY")
    Path("../round.inc").write_text("allowed_sites = \n")
    assert prepare("mg_000000") == GIVE_UP
    assert "no site left" in json.loads(Path("verdict.json").read_text())["reason"]


def test_a_permanent_failure_beside_a_bad_site_gives_up(unit: Path) -> None:
    election.elect("T2_DE_DESY")
    run_node("proc_000001", 49, exit_code=60307)
    run_node("proc_000001", 50, exit_code=60307, retry=1)
    run_node("proc_000002", 51, exit_code=8501)
    assert judge("mg_000000", 1) == GIVE_UP


def test_an_abort_reaches_the_outer_dag(unit: Path) -> None:
    assert run_node("proc_000001", 50, exit_code=7002) == ABORT
    assert judge("mg_000000", 1) == ABORT


def test_a_failure_that_no_node_explains_is_tried_again(unit: Path) -> None:
    assert judge("mg_000000", 1) == RETRY
    assert json.loads(Path("verdict.json").read_text())["verdict"] == "no node explains the failure"


def test_the_manifest_of_another_unit_is_refused(unit: Path) -> None:
    assert prepare("mg_000001") == GIVE_UP


@pytest.mark.parametrize(
    ("code", "category"),
    [(8021, "infrastructure"), (11003, "infrastructure"), (71306, "resource:time"), (137, "unclassified"),
     (50660, "resource:memory"), (8022, "data"), (8501, "permanent"), (99999, "transient"), (0, "unclassified")],
)  # fmt: skip
def test_codes_have_the_categories_of_the_rule_table(unit: Path, code: int, category: str) -> None:
    assert classify(load_policy(), Failure(code))["category"] == category


def test_the_log_of_another_attempt_says_nothing_of_this_one(unit: Path) -> None:
    write_log("proc_000000", 12, end="\t(1) Normal termination (return value 5)")
    write_log("proc_000000", 13, end="\t(0) Abnormal termination (signal 11)")
    assert read_attempt("proc_000000.log", 12)["exit_code"] == 5
    assert read_attempt("proc_000000.log", 13)["exit_signal"] == 11
    assert read_attempt("proc_000000.log", 14) == {"ad": {}}
    assert read_attempt("nothing.log", 12) == {"ad": {}}
