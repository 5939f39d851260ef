"""POST of a node that failed: how attempts are counted, cooled off and handled, and texts made to break it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench import post
from bench.case import Case, measure
from post_script import election
from post_script.__main__ import main
from post_script.files import append_line, read_json, write_json
from post_script.group import judge, prepare
from post_script.job_report import JobReport
from post_script.joblog import read_attempt
from post_script.names import DONE, GIVE_UP, NOT_YET, RETRY, is_site_name
from post_script.node import finish_attempt
from tests.factories import simulation, snapshot
from tests.unit.test_post_script import newest, run_node, write_log, write_report
from wms2.cli.main import app
from wms2.core.planning import plan_round
from wms2.dagman.policy_file import add_rules
from wms2.dagman.round_folder import write_round
from wms2.models.plan import Limits
from wms2.models.policy import MOST_ATTEMPTS, FailureRule

NODE = "proc_000000"
PYTHONS = sorted({sys.executable, "/usr/bin/python3"})


def make_unit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limits: Limits | None = None, **asked: Any
) -> Path:
    """The folder of a work unit that has elected a site, as the scripts' working folder."""
    request = simulation(total_events=300, **asked)
    plan = plan_round(snapshot(request, limits=limits or Limits(cool_off_sec=0)))
    write_round(plan, folder / "round")
    unit = folder / "round/mg_000000"
    monkeypatch.chdir(unit)
    assert prepare("mg_000000") == DONE
    election.elect("T2_DE_DESY")
    return unit


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_unit(tmp_path, monkeypatch)


def fail(cluster: int, code: int, run: str = "7", retry: int = 0, most: int = 9, **more: Any) -> int:
    """An attempt that ended so, as DAGMan `run` tells POST of it."""
    write_log(NODE, cluster, end=f"\t(1) Normal termination (return value {code % 256})")
    write_report(NODE, cluster, code, **more)
    return finish_attempt(NODE, code % 256, cluster, retry, most, run)


def verdict() -> dict[str, Any]:
    found: dict[str, Any] = newest(NODE)["classification"]
    return found


# Counting


def test_a_node_has_four_attempts_of_its_own(unit: Path) -> None:
    assert [fail(cluster, 99303) for cluster in (1, 2, 3, 4)] == [RETRY, RETRY, RETRY, GIVE_UP]
    assert verdict()["outcome"] == "attempts exhausted"
    assert (newest(NODE)["attempt"], newest(NODE)["max_retries"], newest(NODE)["final"]) == (3, 3, True)


def test_failures_of_the_site_and_stops_use_up_no_attempt_of_the_node(unit: Path) -> None:
    assert fail(1, 99303) == RETRY
    assert fail(2, 60307) == RETRY
    write_log(NODE, 3, end="\tvia condor_rm (by user operator), aborted")
    assert finish_attempt(NODE, -1002, 3, 2, 9, "7") == RETRY
    assert [fail(cluster, 99303) for cluster in (4, 5, 6)] == [RETRY, RETRY, GIVE_UP]


def test_a_rescue_counts_anew_whatever_dagman_counts(unit: Path) -> None:
    assert [fail(cluster, 99303, run="7") for cluster in (1, 2, 3)] == [RETRY] * 3
    assert [fail(cluster, 99303, run="8") for cluster in (4, 5, 6, 7)] == [RETRY, RETRY, RETRY, GIVE_UP]


def test_a_count_of_dagman_that_fell_back_gives_no_more_attempts(unit: Path) -> None:
    assert [fail(cluster, 99303, retry=0) for cluster in (1, 2, 3, 4)] == [RETRY, RETRY, RETRY, GIVE_UP]


def test_a_rule_can_have_its_own_number_of_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [{"name": "licence", "category": "transient", "exit_codes": [40], "attempts": 6}]
    make_unit(tmp_path, monkeypatch, failure_rules=rules)
    assert [fail(cluster, 40) for cluster in range(1, 7)] == [RETRY] * 5 + [GIVE_UP]
    assert verdict()["rule"] == "licence"


def test_a_rule_that_counts_its_own_attempts_does_so_for_failures_of_the_site_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [{"name": "slow-storage", "category": "infrastructure", "exit_codes": [60307], "attempts": 3}]
    make_unit(tmp_path, monkeypatch, failure_rules=rules)
    assert [fail(cluster, 60307) for cluster in (1, 2, 3)] == [RETRY, RETRY, GIVE_UP]
    assert verdict()["elect_again"]


def retries_in(unit: Path, node: str) -> int:
    """Those that DAGMan is given."""
    return int((unit / "group.dag").read_text().partition(f"RETRY {node} ")[2].split()[0])


def test_attempts_that_a_release_or_a_verdict_gives_while_the_dag_runs_are_honoured(unit: Path) -> None:
    most = retries_in(unit, NODE)
    rule = {"name": "licence", "category": "transient", "exit_codes": [40], "attempts": MOST_ATTEMPTS}
    add_rules(Path("../policy.json"), [FailureRule.model_validate(rule)], MOST_ATTEMPTS)
    by_rule = [fail(100 + n, 40, retry=n, most=most) for n in range(MOST_ATTEMPTS)]
    assert by_rule == [RETRY] * (MOST_ATTEMPTS - 1) + [GIVE_UP]
    by_node = [fail(200 + n, 99303, "8", n, most) for n in range(MOST_ATTEMPTS)]
    assert by_node == [RETRY] * (MOST_ATTEMPTS - 1) + [GIVE_UP]


@pytest.mark.parametrize("code", [-1001, -1004])
def test_failures_that_use_up_no_attempt_end_long_before_the_retries_of_dagman_do(
    unit: Path, code: int
) -> None:
    most = retries_in(unit, NODE)
    answers = [finish_attempt(NODE, code, 0, retry, most, "7") for retry in range(10)]
    assert answers == [RETRY] * 9 + [GIVE_UP]
    assert newest(NODE)["final"]
    assert judge("mg_000000", 1) == (RETRY if code == -1001 else GIVE_UP)


def test_an_unreadable_input_is_bad_data_once_it_was_seen_at_two_sites(unit: Path) -> None:
    bad = ["/store/data/bad.root"]
    assert fail(1, 8021, bad_input_files=bad) == RETRY
    assert fail(2, 8021, bad_input_files=bad) == GIVE_UP
    assert verdict()["elect_again"]
    assert judge("mg_000000", 1) == RETRY
    assert prepare("mg_000000") == DONE
    election.elect("T1_US_FNAL")
    write_log(NODE, 3, site="T1_US_FNAL", end="\t(1) Normal termination (return value 85)")
    write_report(NODE, 3, 8021, bad_input_files=bad)
    assert finish_attempt(NODE, 85, 3, 0, 9, "8") == GIVE_UP
    assert (verdict()["category"], verdict()["bad_input_files"]) == ("data", bad)
    assert judge("mg_000000", 1) == GIVE_UP


def test_another_unreadable_file_at_another_site_is_no_bad_data_yet(unit: Path) -> None:
    assert fail(1, 8021, bad_input_files=["/store/a.root"]) == RETRY
    write_log(NODE, 2, site="T1_US_FNAL", end="\t(1) Normal termination (return value 85)")
    write_report(NODE, 2, 8021, bad_input_files=["/store/b.root"])
    finish_attempt(NODE, 85, 2, 0, 9, "8")
    assert verdict()["category"] == "infrastructure"


def test_a_step_that_must_not_run_again_is_given_up_whatever_ended_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = [{"name": "all", "rules": [{"match_all_exit_codes": True}]}]
    make_unit(tmp_path, monkeypatch, failure_handlers=handlers)
    write_log(NODE, 1, end="\t(1) Normal termination (return value 137)")
    write_report(NODE, 1, 99501)
    assert finish_attempt(NODE, 137, 1, 0, 9) == GIVE_UP
    assert verdict()["rule"] == "not-repeatable"


@pytest.mark.parametrize(
    ("repeatable", "executed", "answer"), [(False, True, GIVE_UP), (False, False, RETRY), (True, True, RETRY)]
)
def test_a_job_that_vanished_in_a_step_that_must_not_run_twice_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeatable: bool, executed: bool, answer: int
) -> None:
    step = {"name": "GEN", "type": "demo", "repeatable": repeatable}
    make_unit(tmp_path, monkeypatch, payload_config={"steps": [step]})
    if executed:
        append_line(
            f"{NODE}.log", "001 (1.000.000) 2026-01-01 00:00:00 Job executing on host: <127.0.0.1:1>\n..."
        )
    write_log(NODE, 1, end="\tvia condor_rm (by user operator), aborted")
    assert finish_attempt(NODE, -1002, 1, 0, 9) == answer
    assert verdict()["category"] == ("permanent" if answer == GIVE_UP else "stopped")


def test_an_error_of_the_script_itself_is_on_record_and_retried(
    unit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("../policy.json").write_text("{")
    write_log(NODE, 12, end="\t(1) Normal termination (return value 1)")
    monkeypatch.setattr("sys.argv", ["post", "node", NODE, "1", "12.0", "0", "9", "7"])
    assert main() == RETRY
    assert (verdict()["outcome"], newest(NODE)["job"]["exit_code"]) == ("error", 1)
    assert not newest(NODE)["final"]
    monkeypatch.setattr("sys.argv", ["post", "node", NODE, "1", "13.0", "9", "46", "7"])
    assert main() == GIVE_UP
    assert newest(NODE)["final"]
    assert judge("mg_000000", 1) == GIVE_UP


# Cool-off


def test_a_retry_waits_and_dagman_is_told_so_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = make_unit(tmp_path, monkeypatch, Limits(cool_off_sec=60))
    assert "SCRIPT DEFER 75 60 POST ALL_NODES" in (unit / "group.dag").read_text()
    assert fail(1, 99303) == NOT_YET
    again = ("proc_000000", 99303 % 256, 1, 0, 9, "7")
    before = Path(f"{NODE}.1.post.json").read_bytes()
    assert finish_attempt(*again) == NOT_YET
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 61)
    assert finish_attempt(*again) == RETRY
    assert Path(f"{NODE}.1.post.json").read_bytes() == before
    monkeypatch.setattr("time.time", lambda: now - 10**6)
    assert finish_attempt(*again) == RETRY


def test_each_wait_is_twice_as_long_as_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_unit(tmp_path, monkeypatch, Limits(cool_off_sec=60))
    assert [fail(cluster, 99303) for cluster in (1, 2, 3, 4)] == [NOT_YET] * 3 + [GIVE_UP]
    waits = [
        json.loads(Path(f"{NODE}.{cluster}.post.json").read_text()).get("cool_off_sec")
        for cluster in (1, 2, 3, 4)
    ]
    assert waits == [60, 120, 240, None]


@pytest.mark.parametrize(("code", "answer"), [(0, DONE), (8501, GIVE_UP), (50660, RETRY), (7000, 43)])
def test_nothing_else_waits_a_success_least_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, answer: int
) -> None:
    make_unit(tmp_path, monkeypatch, Limits(cool_off_sec=60))
    assert fail(1, code) == answer


def test_many_nodes_that_fail_at_once_do_not_ask_all_the_time(tmp_path: Path) -> None:
    request = simulation(total_events=1_000_000)
    plan = plan_round(snapshot(request, limits=Limits(nodes_per_round=20_000)))
    write_round(plan, tmp_path / "round")
    assert "SCRIPT DEFER 75 300 POST" in (tmp_path / "round/mg_000000/group.dag").read_text()


# Handlers


def handled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None = None, **rule: Any) -> Path:
    scripts = tmp_path / "scripts"
    scripts.mkdir(exist_ok=True)
    if script is not None:
        (scripts / "mend").write_text(script)
        (scripts / "mend").chmod(0o755)
    rules = [
        {"exit_codes": [10, 11], "max_retries": 2, **rule},
        {"match_all_exit_codes": True, "max_retries": 1},
    ]
    handlers = [{"name": "simulation_recovery", "rules": rules[: 1 if rule.pop("alone", False) else 2]}]
    return make_unit(
        tmp_path, monkeypatch, Limits(cool_off_sec=0, recovery_dir=str(scripts)), failure_handlers=handlers
    )


def test_a_handler_retries_its_codes_as_often_as_its_rule_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled(tmp_path, monkeypatch)
    assert [fail(cluster, 10) for cluster in (1, 2, 3)] == [RETRY, RETRY, GIVE_UP]
    assert (verdict()["handler"], verdict()["outcome"]) == (
        "simulation_recovery[10,11]",
        "attempts exhausted",
    )


def test_the_catch_all_of_a_handler_takes_the_rest_and_leaves_the_category(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled(tmp_path, monkeypatch)
    assert [fail(cluster, 8501) for cluster in (1, 2)] == [RETRY, GIVE_UP]
    assert (verdict()["handler"], verdict()["category"]) == ("simulation_recovery[all]", "permanent")


def test_no_handler_and_no_matching_rule_are_told_apart(unit: Path, tmp_path: Path, monkeypatch: Any) -> None:
    assert fail(1, 8501) == GIVE_UP
    assert verdict()["outcome"] == "no handler"
    handlers = [{"name": "ten", "rules": [{"exit_codes": [10]}]}]
    make_unit(tmp_path / "other", monkeypatch, failure_handlers=handlers)
    assert fail(1, 8501) == GIVE_UP
    assert verdict()["outcome"] == "no matching rule"


def test_an_abort_and_a_stop_are_no_matter_of_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled(tmp_path, monkeypatch)
    assert fail(1, 7000) == 43
    write_log(NODE, 2, end="\tvia condor_rm (by user operator), aborted")
    assert finish_attempt(NODE, -1002, 2, 0, 9, "7") == RETRY
    assert (verdict()["category"], verdict()["handler"]) == ("stopped", None)


def test_a_recovery_script_gets_its_words_and_files_of_its_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hidden")
    script = "#!/bin/sh\nenv\necho oops >&2\ncat proc_000000.1.post.json > seen.json\nexit 3\n"
    handled(tmp_path, monkeypatch, script, recovery_script="mend")
    assert fail(1, 10, exit_message="$(touch /tmp/x); `rm`\n'\"\0") == RETRY
    said = Path(f"{NODE}.1.recovery.out").read_text()
    for line in ("WMS2_REQUEST=simulation", f"WMS2_NODE={NODE}", "WMS2_ATTEMPT=0", "WMS2_EXIT_CODE=10",
                 "WMS2_SITE=T2_DE_DESY", "WMS2_CATEGORY=unclassified"):  # fmt: skip
        assert line in said
    assert "hidden" not in said
    assert Path(f"{NODE}.1.recovery.err").read_text() == "oops\n"
    # The retry was on record before the script ran.
    assert json.loads(Path("seen.json").read_text())["classification"]["outcome"] == "retried"
    assert newest(NODE)["recovery"] == {"script": "mend", "exit_code": 3, "outcome": "failed"}


def test_a_recovery_script_runs_once_for_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handled(tmp_path, monkeypatch, "#!/bin/sh\necho run >> runs\n", recovery_script="mend")
    assert fail(1, 10) == RETRY
    assert finish_attempt(NODE, 10, 1, 0, 9, "7") == RETRY
    assert Path("runs").read_text() == "run\n"


def test_a_recovery_script_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "#!/bin/sh\nsleep 600 &\necho $! > child\nwait\n"
    handled(tmp_path, monkeypatch, script, recovery_script="mend", time_limit_sec=1)
    assert fail(1, 10) == RETRY
    assert newest(NODE)["recovery"]["outcome"] == "ended after 1 s"
    child = Path("/proc", Path("child").read_text().strip(), "stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"


@pytest.mark.parametrize("name", ["absent", "seen"])
def test_a_script_that_is_not_installed_is_no_reason_not_to_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/seen").touch(mode=0o644)
    handled(tmp_path, monkeypatch, recovery_script=name)
    assert fail(1, 10) == RETRY
    assert newest(NODE)["recovery"]["outcome"] == "not installed"


def test_a_failure_that_no_rule_knows_waits_for_a_verdict_where_the_request_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_unit(tmp_path, monkeypatch, on_unclassified="wait")
    assert fail(1, 123) == GIVE_UP
    assert (verdict()["category"], verdict()["outcome"]) == ("unclassified", "pending")
    assert fail(2, 99303) == RETRY


def test_a_passive_rule_is_noted_and_not_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [
        {"name": "trial", "category": "permanent", "exit_codes": [99303], "message": "broke", "passive": True}
    ]
    make_unit(tmp_path, monkeypatch, failure_rules=rules)
    assert fail(1, 99303) == RETRY
    assert (verdict()["category"], verdict()["passive_rules"]) == ("transient", ["trial"])


# Which exit code


@pytest.mark.parametrize(
    ("returned", "reported", "job_report", "expected"),
    [
        (85, 8021, None, 8021),
        (85, None, 8021, 8021),
        (85, 0, 8021, 8021),
        (85, None, 8028, 85),
        (85, None, None, 85),
        (139, 0, None, 139),
        (-11, None, None, 139),
        (-9, 50660, None, 50660),
        (-9, 50669, None, 137),
        (0, 8021, None, 8021),
        (0, None, 8021, 99303),
        (0, None, None, 99303),
        (1, 50688, None, 50688),
        (-1003, 0, None, -1003),
        (-1004, 0, None, -1004),
    ],
)
def test_the_exit_code_comes_from_whoever_can_be_trusted(
    unit: Path, returned: int, reported: int | None, job_report: int | None, expected: int
) -> None:
    write_log(NODE, 1, end=f"\t(1) Normal termination (return value {max(returned, 0)})")
    if reported is not None:
        write_report(NODE, 1, reported)
    if job_report is not None:
        error = f'<FrameworkError ExitStatus="{job_report}" Type="X"><![CDATA[\nbroken & <b>\n]]></FrameworkError>'
        Path(f"{NODE}.1.fjr.xml").write_text(f"<FrameworkJobReport>{error}</FrameworkJobReport>")
    assert finish_attempt(NODE, returned, 1, 0, 9) != DONE
    assert newest(NODE)["job"]["exit_code"] == expected
    if job_report == expected:
        assert newest(NODE)["cmssw"]["error_message"] == "broken & <b>"


@pytest.mark.parametrize("who", ["nobody", "the wrapper", "cmsRun"])
@pytest.mark.parametrize(
    "code", [50, 65, 66, 67, 71, 74, 77, 81, 84, 85, 92, 134, 137, 139, 143, 195, 228, 233]
)
def test_eight_bits_mean_what_explain_says_whoever_reports_them(unit: Path, who: str, code: int) -> None:
    write_log(NODE, 1, end=f"\t(1) Normal termination (return value {code})")
    if who == "the wrapper":
        write_report(NODE, 1, code)
    if who == "cmsRun":
        error = f'<FrameworkError ExitStatus="{code}" Type="X">it broke</FrameworkError>'
        Path(f"{NODE}.1.fjr.xml").write_text(f"<FrameworkJobReport>{error}</FrameworkJobReport>")
    finish_attempt(NODE, code, 1, 0, 9)
    explained = json.loads(CliRunner().invoke(app, ["policy", "explain", str(code), "--json"]).stdout)
    found = {key: verdict()[key] for key in ("rule", "category", "confidence")}
    assert found == {key: explained[key] for key in found}
    assert newest(NODE)["job"]["exit_code"] == code


def test_the_record_has_the_fields_that_the_specification_asks_for(unit: Path) -> None:
    fail(1, 8021, bad_input_files=["/store/data/file_001.root"], cpu_sec=2.5, peak_rss_mb=700)
    post = newest(NODE)
    assert set(post) >= {"node_name", "timestamp", "attempt", "max_retries", "final", "job", "cmssw", "classification",
                         "log_tail"}  # fmt: skip
    assert set(post["job"]) >= {"exit_code", "exit_signal", "hold_reason", "wall_time_sec", "cpu_time_sec",
                                "memory_mb", "site", "schedd"}  # fmt: skip
    assert set(post["cmssw"]) == {
        "exit_code",
        "steps",
        "error_message",
        "input_files",
        "output_files",
        "performance",
    }
    assert set(post["classification"]) >= {"category", "retryable", "bad_input_files", "action", "rule", "confidence",
                                           "outcome"}  # fmt: skip
    assert (post["job"]["schedd"], post["job"]["memory_mb"]) == ("127.0.0.1:1", 700)


# From outside

HOSTILE = [
    "Ünïcödé ☃ 日本", "$(touch hacked) `touch hacked` ; touch hacked", "a'b\"c\\d", "line\nline\r\n...\n005 (1.0.0)",
    "nul\0nul", "\ud800 lone", "x" * 10_000_000, "%s %n {0} {}", "\x1b[31mred", "</FrameworkError>",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_never_crash_and_never_become_success(unit: Path, text: str) -> None:
    write_log(
        NODE, 1, site=text.replace("\ud800", "")[:1000], end="\t(1) Normal termination (return value 85)"
    )
    Path(f"{NODE}.1.err").write_text(text, errors="replace")
    write_report(NODE, 1, 8021, exit_message=text, site=text, bad_input_files=[text], log_tail=[text],
                 steps=[{"name": text, "exit_code": text}], inputs=[{"lfn": text}])  # fmt: skip
    assert finish_attempt(NODE, 85, 1, 0, 9) == RETRY
    assert newest(NODE)["job"]["exit_code"] == 8021
    record = Path(f"{NODE}.post.json").read_bytes()
    assert len(record) < 200_000
    assert b"\\u0000" not in record
    assert b"\\ud800" not in record
    assert not Path("post_errors.log").exists()
    assert list(unit.glob("hacked")) == []


@pytest.mark.parametrize(
    "wrong",
    [{"outputs": None}, {"outputs": 3}, {"outputs": [3]}, {"outputs": [{"lfn": None}]}, {"site": "T2; rm -rf"},
     {"exit_code": None}, {"exit_code": "0"}, {"exit_code": False}, {"exit_code": 0.0}],
)  # fmt: skip
def test_a_success_whose_report_is_malformed_is_none(unit: Path, wrong: dict[str, Any]) -> None:
    write_log(NODE, 1)
    write_report(NODE, 1)
    report = read_json(f"{NODE}.1.report.json") or {}
    write_json(f"{NODE}.1.report.json", report | wrong)
    assert finish_attempt(NODE, 0, 1, 0, 9) == RETRY
    assert not Path("post_errors.log").exists()


@pytest.mark.parametrize(
    "key", ["steps", "inputs", "outputs", "bad_input_files", "log_tail", "exit_message", "wall_sec"]
)
@pytest.mark.parametrize("value", [None, 7, "text", [None], [[1]], {"a": 1}])
def test_a_failure_whose_report_is_malformed_is_still_that_failure(unit: Path, key: str, value: Any) -> None:
    assert fail(1, 8501, **{key: value}) == GIVE_UP
    assert newest(NODE)["job"]["exit_code"] == 8501
    assert not Path("post_errors.log").exists()


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "{" + '"a":{' * 200_000, '{"a": ' + "9" * 100_000 + "}", "{}{}", "NaN"]
)
def test_reports_made_to_break_the_parser_are_no_success(unit: Path, text: str) -> None:
    write_log(NODE, 1)
    Path(f"{NODE}.1.report.json").write_text(text)
    assert finish_attempt(NODE, 0, 1, 0, 9) == RETRY
    assert newest(NODE)["job"]["exit_code"] == 99303


def test_numbers_that_are_none_do_not_break_the_record(unit: Path) -> None:
    write_log(NODE, 1, end="\t(1) Normal termination (return value 53)")
    report = '{"node": "proc_000000", "cluster": 1, "exit_code": 8501, "wall_sec": 1e999, "cpu_sec": NaN}'
    Path(f"{NODE}.1.report.json").write_text(report)
    assert finish_attempt(NODE, 53, 1, 0, 9) == GIVE_UP
    assert newest(NODE)["job"]["wall_time_sec"] is None


LAUGHS = (
    '<!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9))
    + "]>"
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", None),
        ("<FrameworkJobReport>", None),
        ("<FrameworkJobReport></FrameworkJobReport>", 0),
        ('<FrameworkError ExitStatus="8021" Type="FileReadError">text', 8021),
        ('<FrameworkError ExitStatus="80', 8001),
        ("<FrameworkError Type='x'>text</FrameworkError>", 8001),
        ('<FrameworkError ExitStatus="8028" Type="a>b">x</FrameworkError>', 8028),
        ("<FrameworkError Type='y' ExitStatus='8020'/>", 8020),
        ('<FrameworkError ExitStatus="x"></FrameworkError>', 8001),
        (
            '<FrameworkError ExitStatus="0">no</FrameworkError><FrameworkError ExitStatus="8003">a</FrameworkError>',
            8003,
        ),
        (f'{LAUGHS}<FrameworkError ExitStatus="8021">&j;</FrameworkError>', 8021),
        ('<FrameworkError ExitStatus="' + "8" * 5000 + '">x</FrameworkError>', 8001),
    ],
)
def test_job_reports_are_searched_whatever_they_are(tmp_path: Path, text: str, code: int | None) -> None:
    path = tmp_path / "fjr.xml"
    path.write_text(text)
    found = JobReport(str(path))
    assert found.exit_code == code
    assert len(found.message) < 5000


def test_a_job_report_that_is_no_utf8_is_read(tmp_path: Path) -> None:
    path = tmp_path / "fjr.xml"
    path.write_bytes(
        b'<FrameworkJobReport><InputFile><LFN>/store/a.root</LFN></InputFile><FrameworkError ExitStatus="8021">'
        b'\xe9\xff</FrameworkError><PerformanceReport><PerformanceSummary Metric="ApplicationMemory">'
        b'<Metric Name="PeakValueRss" Value="1234.5"/></PerformanceSummary></PerformanceReport>'
    )
    found = JobReport(str(path))
    assert (found.exit_code, found.message, found.input_files(), found.metric("PeakValueRss")) == (
        8021, "éÿ", ["/store/a.root"], 1234.5,
    )  # fmt: skip


OTHER_POOL = """\
000 (8842.000.000) 03/14 09:26:53 Job submitted from host: <188.184.1.2:4080?alias=vocms0199.cern.ch&noUDP>\r
...\r
001 (8842.000.000) 03/14 09:30:00 Job executing on host: <10.0.0.1:9618?CCBID=1>\r
\tSlotName: slot1_3@glidein_1\r
\tGLIDEIN_CMSSite = "T2_IT_Legnaro"\r
...\r
006 (8842.000.000) 03/14 09:35:00 Image size of job updated: 2200000\r
\t1875  -  MemoryUsage of job (MB)\r
\t1919820  -  ResidentSetSize of job (KB)\r
...\r
012 (8842.000.000) 03/14 09:36:00 Job was held.\r
\tError from slot1_3@glidein_1: Job has gone over memory limit of 2000 megabytes.\r
\tCode 34 Subcode 0\r
...\r
005 (8842.000.000) 03/14 10:26:53 Job terminated.\r
\t(0) Abnormal termination (signal 9)\r
\t(0) No core file\r
\t\tUsr 0 01:02:03, Sys 0 00:01:00  -  Run Remote Usage\r
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage\r
\tPartitionable Resources :    Usage  Request Allocated\r
\t   Cpus                 :     0.92        1         1\r
\t   Memory (MB)          :     2011     2000      2048\r
...\r
"""


def test_the_job_log_of_another_pool_is_understood(unit: Path) -> None:
    Path(f"{NODE}.log").write_text(OTHER_POOL, newline="")
    found = read_attempt(f"{NODE}.log", 8842)
    assert (found["schedd"], found["memory_mb"], found["cpu_sec"]) == ("vocms0199.cern.ch", 2011, 3783)
    assert finish_attempt(NODE, -9, 8842, 0, 9) == RETRY
    job = newest(NODE)["job"]
    assert (job["exit_code"], job["exit_signal"], job["site"]) == (137, 9, "T2_IT_Legnaro")
    assert verdict()["category"] == "resource:memory"


@pytest.mark.parametrize("cut", range(0, len(OTHER_POOL), 97))
def test_a_job_log_that_breaks_off_anywhere_is_no_success(unit: Path, cut: int) -> None:
    Path(f"{NODE}.log").write_text(OTHER_POOL[:cut], newline="")
    assert finish_attempt(NODE, -9, 8842, 0, 9) == RETRY
    assert not Path("post_errors.log").exists()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("T2_US_Purdue", True), ("T1_US_FNAL_Disk", True), ("T0_CH_CERN", True), ("T2_us_x", False), ("T4_US_X", False),
     ("T2_US_", False), ("T2_US_x y", False), ("T2_ÉÉ_x", False), ("T2_US_x\n", False), ("T2_US", False),
     ("T2_US_a__b", False), (None, False), (7, False)],
)  # fmt: skip
def test_a_site_name_is_checked_before_it_goes_anywhere(name: object, is_one: bool) -> None:
    assert is_site_name(name) is is_one


# As DAGMan runs it


@pytest.mark.parametrize("python", PYTHONS)
def test_the_launcher_runs_by_itself_and_keeps_its_compiled_scripts(unit: Path, python: str) -> None:
    append_line(f"{NODE}.log", "")
    words = ["node", NODE, "1", "5.0", "0", "9", "7"]
    environment = {"PATH": os.defpath, "PYTHONPATH": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [python, "-ES", "../post", *words], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (RETRY, b"")
    assert newest(NODE)["classification"]["rule"] == "bootstrap"
    assert list(Path("../post_script/__pycache__").glob("node.*.pyc"))


def test_a_success_imports_neither_json_nor_regular_expressions(unit: Path) -> None:
    write_log(NODE, 1)
    write_report(NODE, 1)
    done = subprocess.run(
        ["/usr/bin/python3", "-ES", "-X", "importtime", "../post", "node", NODE, "0", "1.0", "0", "9", "7"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == DONE
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "post_script.node" in imported
    assert (
        imported & {"json", "re", "subprocess", "traceback", "tempfile", "argparse", "pathlib", "enum"}
        == set()
    )


def test_a_record_of_another_attempt_is_never_taken_for_this_one(unit: Path) -> None:
    run_node(NODE, 12, exit_code=8501)
    before = read_json(f"{NODE}.12.post.json")
    assert run_node(NODE, 13) == DONE
    assert read_json(f"{NODE}.12.post.json") == before
    assert newest(NODE)["cluster"] == 13


@pytest.mark.parametrize("case", post.CASES, ids=lambda case: case.name)
def test_the_cost_of_a_post_script_can_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.chdir(tmp_path)
    measured = measure(case, 3, tmp_path)
    assert measured["attempts"] == 2
    assert measured["wall_ratio"] > 0
