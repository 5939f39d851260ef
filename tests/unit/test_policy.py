"""Rules on what failures mean: which one holds, and which tables are refused."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from post_script.policy import Failure, classify, fitting_rules, load_policy
from tests.factories import SITES, simulation, snapshot
from wms2.cli.main import app
from wms2.cli.request_pending import by_exit_code, unjudged
from wms2.core.planning import plan_round
from wms2.dagman.policy_file import add_rules, default_policy, policy_of
from wms2.dagman.round_folder import write_round
from wms2.models.dag import DagStatus
from wms2.models.failure import FailedNode, FailureSummary, RecordedFailures
from wms2.models.policy import MOST_ATTEMPTS, FailureRule, Policy

# facts of CMS: exit codes, and what they mean.
TABLE = {
    "infrastructure": [
        1, 10031, 10032, 10042, 10043, *range(11001, 11006), 50, 81, 10034, 50513, 71, 72, 74, 8020, 8021, 8028, 8029,
        60307, 60311, 60315, 60317, 60321, 60403, *range(71102, 71106), *range(71301, 71304),
    ],
    "permanent": [
        8001, 8002, 8003, 8005, 8006, 8009, 8023, 8026, 7000, 7001, 7002, 50110, 50111, 50113, 60450, 60451, 70452,
        8501, 134, 139, 11, 60302, 60322, 60323, 71101, 99305,
    ],
    "data": [8016, 8022, 8027, 8034],
    "resource:memory": [8004, 8030, 8031, 50660, 50661],
    "resource:time": [8032, 50664, *range(71304, 71308)],
    "resource:disk": [8033, 50662],
    "transient": [143, 15, 50665, 50666, 50669, 99400, 99401, 195, 50115, 99303, *range(99996, 100_000), 60324],
    "unclassified": [0, 2, 137, 8000, 8500, 11006, 71100, 123_456],
}  # fmt: skip
CODES = [(code, category) for category, codes in TABLE.items() for code in codes]


def category(code: int, message: str = "", policy: dict[str, Any] | None = None, **more: Any) -> str:
    found = classify(policy or default_policy(), Failure(code, message, **more))
    return str(found["category"])


def with_rules(*rules: dict[str, Any]) -> dict[str, Any]:
    return policy_of(simulation(failure_rules=rules))


@pytest.mark.parametrize(("code", "expected"), CODES)
def test_every_code_has_the_category_of_the_table(code: int, expected: str) -> None:
    assert category(code) == expected


@pytest.mark.parametrize(
    ("byte", "expected"),
    [(65, "permanent"), (66, "permanent"), (67, "permanent"), (84, "infrastructure"), (85, "infrastructure"),
     (92, "infrastructure"), (228, "resource:memory"), (70, "unclassified"), (73, "unclassified"),
     (233, "unclassified"), (71, "infrastructure"), (81, "infrastructure")],
)  # fmt: skip
def test_a_lone_low_byte_is_understood_with_low_confidence(byte: int, expected: str) -> None:
    found = classify(default_policy(), Failure(byte, lone=True))
    assert (found["category"], found["confidence"]) == (expected, "low")


def test_the_low_byte_of_a_code_that_is_known_says_nothing() -> None:
    assert category(85) == "unclassified"
    assert classify(default_policy(), Failure(8021))["confidence"] == "high"


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (8001, "unable to load /cvmfs/cms.cern.ch/x/libA.so because file too short", "infrastructure"),
        (8001, "An exception of category 'Other' occurred", "permanent"),
        (137, "Job has gone over cgroup memory limit of 2048 megabytes", "resource:memory"),
        (137, "killed", "unclassified"),
        (134, "A fatal system signal has occurred: illegal instruction", "infrastructure"),
        (139, "SIGILL", "infrastructure"),
        (139, "segmentation violation", "permanent"),
        (8021, "adler32 checksum mismatch: found 1, expected 2", "data"),
    ],
)
def test_a_message_makes_another_failure_of_the_same_code(code: int, message: str, expected: str) -> None:
    assert category(code, message) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("WMS2 idle at T2_US_MIT", "infrastructure"), ("WMS2 evicted at T2_US_MIT", "transient"),
     ("WMS2 held: no reason given", "infrastructure"), ("WMS2 wall time above", "resource:time"),
     ("WMS2 held: Job has gone over cgroup memory limit of 1 MB", "resource:memory"),
     ("WMS2 memory above RequestMemory", "resource:memory"), ("WMS2 disk above RequestDisk", "resource:disk")],
)  # fmt: skip
def test_a_removal_by_one_of_our_limits_is_judged_by_its_reason(reason: str, expected: str) -> None:
    assert category(-1002, reason, reason=reason) == expected


def test_a_corrupt_file_is_bad_data_for_those_who_process_it_and_not_for_the_merge() -> None:
    message = "its size or adler32 differs"
    assert category(8021, message, role="proc") == "data"
    assert category(8021, message, role="merge") == "infrastructure"
    rule = {"name": "read-errors-are-data", "category": "data", "exit_codes": [8021]}
    policy = with_rules(rule)
    assert [category(8021, policy=policy, role=role) for role in ("proc", "merge")] == [
        "data",
        "infrastructure",
    ]


def test_a_rule_can_be_for_some_nodes_only() -> None:
    rules = [
        {"name": "merging", "category": "transient", "exit_codes": [40], "nodes": ["merge"]},
        {"name": "processing", "category": "permanent", "exit_codes": [40], "nodes": ["landing", "proc"]},
        {"name": "any", "category": "data", "exit_codes": [40]},
    ]
    found = [category(40, policy=with_rules(*rules), role=role) for role in ("landing", "proc", "merge")]
    assert found == ["permanent", "permanent", "transient"]
    Policy.model_validate_json(json.dumps(with_rules(*rules)))
    more = {"name": "more", "category": "data", "exit_codes": [40], "nodes": ["proc", "merge"]}
    with pytest.raises(ValidationError, match="merging and more fit the same"):
        with_rules(rules[0], more)


def test_a_request_can_take_read_errors_for_bad_data() -> None:
    """8021 and 8028 are then never retried; 65 to 67 are permanent as ever."""
    strict = with_rules(
        {
            "name": "read-errors-are-data",
            "category": "data",
            "exit_codes": [8021, 8028],
            "low_bytes": [85, 92],
        }
    )
    for code, lone in ((8021, False), (8028, False), (85, True), (92, True)):
        held = classify(strict, Failure(code, lone=lone))
        assert (held["category"], held["retry"]) == ("data", False)
    assert category(8020, policy=strict) == "infrastructure"
    assert [category(code, policy=strict, lone=True) for code in (65, 66, 67)] == ["permanent"] * 3


def test_a_rule_of_the_request_replaces_the_default_one_of_its_name() -> None:
    policy = with_rules({"name": "generator", "category": "transient", "exit_codes": [9999]})
    assert [category(code, policy=policy) for code in (8501, 9999)] == ["unclassified", "transient"]


def test_a_field_that_a_rule_leaves_empty_is_as_its_category_says() -> None:
    policy = default_policy()
    empty = dict.fromkeys(
        ("retry", "attempts", "cool_off_sec", "message", "data_after_sites", "uses_attempt")
    )
    policy["rules"].append(
        {"name": "empty", "category": "infrastructure", "exit_codes": [40], "sites": [], **empty}
    )
    Policy.model_validate_json(json.dumps(policy))
    held = classify(policy, Failure(40))
    assert (held["retry"], held["uses_attempt"], held["attempts_at_site"]) == (True, False, 2)
    assert "cool_off_sec" not in held


def test_the_more_specific_rule_holds() -> None:
    rules: list[dict[str, Any]] = [
        {"name": "any", "category": "permanent"},
        {"name": "any-at-site", "category": "permanent", "sites": ["T2_US_MIT"]},
        {"name": "low", "category": "permanent", "low_bytes": [40]},
        {"name": "wide", "category": "permanent", "ranges": [[0, 100]]},
        {"name": "narrow", "category": "permanent", "ranges": [[30, 50]]},
        {"name": "exact", "category": "permanent", "exit_codes": [40]},
        {"name": "exact-at-site", "category": "permanent", "exit_codes": [40], "sites": ["T2_US_MIT"]},
        {"name": "exact-said", "category": "permanent", "exit_codes": [40], "message": "boom"},
        {"name": "exact-said-at-site", "category": "permanent", "exit_codes": [40], "message": "boom",
         "sites": ["T2_US_MIT"]},
    ]  # fmt: skip
    fitting = fitting_rules(rules, Failure(40, "boom", site="T2_US_MIT", lone=True))
    assert [rule["name"] for rule in fitting] == [
        "exact-said-at-site", "exact-said", "exact-at-site", "exact", "narrow", "wide", "low", "any-at-site", "any",
    ]  # fmt: skip
    elsewhere = fitting_rules(rules, Failure(40, "quiet", site="T2_US_MIT_Tier3"))
    assert [rule["name"] for rule in elsewhere] == ["exact", "narrow", "wide", "any"]


rule_texts = st.fixed_dictionaries(
    {"category": st.sampled_from(["data", "permanent", "transient"])},
    optional={
        "exit_codes": st.lists(st.integers(1, 6), max_size=3),
        "ranges": st.lists(st.tuples(st.integers(1, 3), st.integers(3, 6)), max_size=2),
        "low_bytes": st.lists(st.integers(1, 6), max_size=2),
        "message": st.sampled_from(["a", "b", "a|b"]),
        "sites": st.lists(st.sampled_from(SITES), max_size=2),
        "passive": st.booleans(),
        "of_request": st.booleans(),
    },
)


@given(
    st.lists(rule_texts, max_size=12),
    st.integers(1, 6),
    st.sampled_from(["", "a", "b", "ab"]),
    st.sampled_from(["", *SITES]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rules_never_changes_which_one_holds(
    rules: list[dict[str, Any]], code: int, message: str, site: str, lone: bool, chance: random.Random
) -> None:
    named = [{**rule, "name": f"rule-{number}"} for number, rule in enumerate(rules)]
    failure = Failure(code, message, site=site, lone=lone)
    policy = default_policy()
    held = classify({**policy, "rules": named}, failure)
    chance.shuffle(named)
    assert classify({**policy, "rules": named}, failure) == held


def test_the_default_policy_is_sound_and_so_is_that_of_a_request() -> None:
    Policy.model_validate_json(json.dumps(default_policy()))
    handlers = [{"name": "licence", "rules": [{"exit_codes": [10, 11]}, {"match_all_exit_codes": True}]}]
    request = simulation(failure_handlers=handlers, on_unclassified="wait")
    checked = Policy.model_validate_json(json.dumps(policy_of(request)))
    assert [handler.name for handler in checked.handlers] == ["licence[10,11]", "licence[all]"]


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_codes": [8501]},
        {"ranges": [[7002, 7004]]},
        {"exit_codes": [8001], "message": "(?i)memory (?:limit|usage|exceed)"},
        {},
    ],
)
def test_rules_that_leave_a_failure_undecided_are_refused_by_name(changes: dict[str, Any]) -> None:
    policy = default_policy()
    rule = {"name": "mine", "category": "data", **changes}
    policy["rules"] += [rule, {**rule, "name": "yours"}]
    with pytest.raises(ValidationError, match=r"rules mine and yours fit the same failures"):
        Policy.model_validate_json(json.dumps(policy))


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|aa)+", "a.*b", "(.{0,90}){0,90}x", ".{0,99}a.{0,99}b", "(", r"(a)\1", "a{0,9999}", ""],
)
def test_patterns_that_could_take_long_are_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        FailureRule.model_validate({"name": "slow", "category": "data", "message": pattern})


@pytest.mark.parametrize(
    "pattern", ["boom", r"(?i)disk .{0,100}full", r"^a\d{3}b?$", "one|two", "(?:x|y)z{4}"]
)
def test_patterns_that_take_little_time_are_taken(pattern: str) -> None:
    assert (
        FailureRule.model_validate({"name": "quick", "category": "data", "message": pattern}).message
        == pattern
    )


def test_a_slow_pattern_that_nobody_checked_does_not_hold_up_a_node() -> None:
    policy = default_policy()
    policy["rules"].append({"name": "slow", "category": "data", "exit_codes": [40], "message": "(a+)+b"})
    begun = time.monotonic()
    assert category(40, "a" * 7000, policy) == "unclassified"
    assert time.monotonic() - begun < 60


def test_the_slowest_default_pattern_is_quick_on_text_made_to_hurt() -> None:
    for text in ("/cvmfs/" * 1200, "truncated" * 900, "memory " * 1200, "crc " * 2000, "exceed" * 1300):
        for code in (8001, 8021, 137, 134):
            begun = time.process_time()
            category(code, text)
            assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"failure_rules": [{"name": "a", "category": "data", "exit_codes": [1]}] * 2}, "each only once"),
        (
            {"failure_rules": [{"name": name, "category": "data", "exit_codes": [1]} for name in "ab"]},
            "a and b fit the same",
        ),
        ({"failure_handlers": [{"name": "a", "rules": [{"exit_codes": [1]}]}] * 2}, "each only once"),
        (
            {"failure_handlers": [{"name": n, "rules": [{"match_all_exit_codes": True}]} for n in "ab"]},
            "one rule for each exit code",
        ),
        ({"failure_handlers": [{"name": "a", "rules": [{}]}]}, "either exit codes or match_all_exit_codes"),
        (
            {"failure_handlers": [{"name": "a", "rules": [{"exit_codes": [1], "recovery_script": "../x"}]}]},
            "should match pattern",
        ),
        ({"failure_rules": [{"name": "a", "category": "nonsense"}]}, "category"),
    ],
)
def test_rules_and_handlers_of_a_request_that_contradict_are_refused(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        simulation(**changes)


def test_explain_names_the_rule_what_happens_and_who_lost() -> None:
    said = "unable to load /cvmfs/x.so: file too short"
    done = CliRunner().invoke(app, ["policy", "explain", "8001", "--message", said, "--json"])
    explained = json.loads(done.stdout)
    assert (explained["rule"], explained["category"]) == ("cvmfs-truncated", "infrastructure")
    assert explained["lost"] == ["cms-exception"]
    assert "elects another" in explained["what_happens"]
    stopped = CliRunner().invoke(app, ["policy", "explain", "-1002", "--reason", "via condor_rm", "--json"])
    assert json.loads(stopped.stdout)["category"] == "stopped"
    macro = "The system macro SYSTEM_PERIODIC_REMOVE expression 'NumJobStarts > 9' evaluated to TRUE"
    by_pool = CliRunner().invoke(app, ["policy", "explain", "-1002", "--reason", macro, "--json"])
    assert json.loads(by_pool.stdout)["rule"] == "removed-by-pool"


def test_explain_knows_rules_for_a_kind_of_node() -> None:
    def explained(*words: str) -> tuple[str, str]:
        done = CliRunner().invoke(app, ["policy", "explain", *words, "--json"])
        told = json.loads(done.stdout)
        return told["rule"], told["what_happens"]

    assert explained("8021")[0] == explained("8021", "--node", "proc")[0] == "input-not-readable"
    assert explained("8021", "--node", "merge")[0] == "unmerged-not-readable"
    assert "attempts of a merge node in all: 3" in explained("12345", "--node", "merge")[1]
    assert "attempts of a processing node in all: 4" in explained("12345")[1]
    assert CliRunner().invoke(app, ["policy", "explain", "8021", "--node", "cleanup"]).exit_code == 2


def test_a_verdict_becomes_a_rule_of_a_round_that_is_under_way(tmp_path: Path) -> None:
    write_round(plan_round(snapshot(simulation())), tmp_path / "round")
    file = tmp_path / "round/policy.json"
    words = ["policy", "add", str(file), "--name", "licence", "--category", "transient", "--exit-code", "123"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert category(123, policy=load_policy(str(file))) == "transient"
    assert CliRunner().invoke(app, [*words, "--category", "permanent"]).exit_code == 0
    assert category(123, policy=load_policy(str(file))) == "permanent"
    before = file.read_bytes()
    tie = [*words, "--name", "another"]
    assert "rules licence and another fit the same failures" in str(CliRunner().invoke(app, tie).exception)
    slow = CliRunner().invoke(app, [*words, "--message", "(a+)+"])
    assert "takes little time" in str(slow.exception)
    assert file.read_bytes() == before


def test_the_attempts_of_a_round_that_is_planned_can_be_changed_and_its_dag_has_room_for_them(
    tmp_path: Path,
) -> None:
    write_round(plan_round(snapshot(simulation())), tmp_path / "round")
    file = tmp_path / "round/policy.json"
    before = load_policy(str(file))
    add_rules(file, [], MOST_ATTEMPTS)
    changed = load_policy(str(file))
    assert changed["attempts"] == {**before["attempts"], "proc": MOST_ATTEMPTS, "merge": MOST_ATTEMPTS}
    assert changed["rules"] == before["rules"]
    dag = (tmp_path / "round/mg_000000/group.dag").read_text()
    assert int(dag.partition("RETRY merge ")[2].split()[0]) >= 2 * MOST_ATTEMPTS


def test_what_no_rule_knows_is_listed_of_the_newest_dag_of_each_round() -> None:
    def dag(round_: int, attempt: int, *categories: str) -> RecordedFailures:
        nodes = tuple(
            FailedNode(work_unit=0, node=f"proc_{k:06d}", category=kind, exit_code=100 + attempt)
            for k, kind in enumerate(categories)
        )
        summary = FailureSummary(units=1, units_failed=1, nodes_failed=len(nodes))
        return RecordedFailures(
            dag_id=f"{round_}-{attempt}", round=round_, attempt=attempt, status=DagStatus.PARTIAL, ended_at=None,
            summary=summary, nodes=nodes,
        )  # fmt: skip

    dags = [dag(1, 2, "unclassified", "data"), dag(1, 1, "unclassified"), dag(0, 1, "unclassified")]
    found = list(unjudged(dags))
    assert [node.exit_code for node in found] == [101, 102]
    assert list(by_exit_code(found)) == ["101", "102"]


def test_the_command_line_shows_and_checks_policies(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["policy", "show", "--json"])
    file = tmp_path / "policy.json"
    file.write_text(shown.stdout)
    assert CliRunner().invoke(app, ["policy", "check", str(file)]).exit_code == 0
    file.write_text(shown.stdout.replace('"version": 2', '"version": 1'))
    refused = CliRunner().invoke(app, ["policy", "check", str(file)])
    assert "version" in str(refused.exception)


def test_a_file_whose_name_looks_like_markup_is_named_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "[bold]policy[x].json"
    file.write_text(json.dumps(default_policy()))
    assert "[bold]policy[x].json: " in CliRunner().invoke(app, ["policy", "check", str(file)]).stderr.replace(
        "\n", ""
    )
