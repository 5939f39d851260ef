"""What failed, gathered from a folder and told in few words."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import simulation
from wms2.core.failures import Tally, advice, causes_in_words, failure_page, same_failure
from wms2.core.plain import plain_line, plain_text
from wms2.dagman.failures import NODES_IN_FULL, TAILS_OF_A_KIND, first_ends, gather_failures
from wms2.dagman.nodes import read_nodes
from wms2.dagman.policy_file import add_rules, policy_of
from wms2.dagman.posts import PostRecord, read_post
from wms2.dagman.progress import mark_removal, read_outcome, removed_by_wms2
from wms2.dagman.round_folder import RoundFile, RoundUnit
from wms2.models.failure import UNEXPLAINED, Cause, FailedNode, FailureSummary, FileFailure
from wms2.models.policy import FailureRule
from wms2.models.progress import DagOutcome
from wms2.models.request import RequestStatus

DAG = 100
"""The cluster of the DAG; its jobs have higher ones."""
LFN = "/store/data/Run2024A/file_001.root"


def planned(units: int, *, with_input: bool = False) -> RoundFile:
    first = None if with_input else 1
    return RoundFile(
        request="failing", round=0, digest="d", nodes={}, edges=0,
        work_units=tuple(RoundUnit(number=k, events=10, jobs=1, first_event=first) for k in range(units)),
    )  # fmt: skip


def post(**changes: Any) -> dict[str, Any]:
    """A record as POST leaves it."""
    job = {"exit_code": 8021, "site": "T2_US_Purdue"} | changes.pop("job", {})
    classification = {
        "category": "infrastructure", "reason": "cannot read", "bad_input_files": [],
    } | changes.pop("classification", {})  # fmt: skip
    fields = {"cluster": DAG + 1, "final": True, "answer": 42, "log_tail": "one\ntwo"}
    return {**fields, "job": job, "classification": classification, **changes}


def write(folder: Path, unit: int, node: str, record: Any, *, cluster: int | None = None) -> None:
    place = folder / f"mg_{unit:06d}"
    place.mkdir(parents=True, exist_ok=True)
    text = record if isinstance(record, str) else json.dumps(record)
    (place / f"{node}.post.json").write_text(text)
    (place / f"{node}.{cluster or DAG + 1}.post.json").write_text(text)


def gather(folder: Path, units: int = 1, outcome: DagOutcome = DagOutcome.PARTIAL, **changes: Any) -> Any:
    return gather_failures(folder, planned(units, **changes), DAG, produced=(), outcome=outcome)


def test_a_failed_node_is_told_with_all_that_its_record_says(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000003", post(classification={"rule": "read errors", "confidence": "high"}))
    failures = gather(tmp_path)
    assert failures.nodes == (
        FailedNode(
            work_unit=0, node="proc_000003", cluster=101, attempts=1, category="infrastructure", exit_code=8021,
            site="T2_US_Purdue", rule="read errors", confidence="high", message="cannot read", log_tail="one\ntwo",
        ),
    )  # fmt: skip
    assert failures.summary.causes == (
        Cause(category="infrastructure", exit_code=8021, site="T2_US_Purdue", units=1, nodes=1),
    )


def test_a_node_that_succeeded_in_the_end_is_no_failure(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000000", post(classification={"category": "success"}, answer=0))
    write(tmp_path, 0, "proc_000001", post())
    assert [node.node for node in gather(tmp_path).nodes] == ["proc_000001"]


def test_an_attempt_that_somebody_stopped_is_no_failure_but_its_unit_is_not_finished(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000000", post(classification={"category": "stopped"}))
    summary = gather(tmp_path, outcome=DagOutcome.STOPPED).summary
    assert (summary.units_failed, summary.units_unfinished, summary.nodes_failed) == (0, 1, 0)


def test_a_unit_that_this_dag_did_not_reach_is_not_blamed_for_what_an_earlier_one_saw(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000000", post(cluster=DAG - 5))
    write(tmp_path, 1, "proc_000001", post())
    summary = gather(tmp_path, units=2, outcome=DagOutcome.ABORTED).summary
    assert (summary.units_failed, summary.units_unfinished) == (1, 1)


def test_a_unit_that_no_node_explains_is_told_with_the_end_of_its_dagmans_log(tmp_path: Path) -> None:
    (tmp_path / "mg_000000").mkdir()
    (tmp_path / "mg_000000/group.dag.dagman.out").write_text("the last words\n")
    (node,) = gather(tmp_path).nodes
    assert (node.node, node.category, node.log_tail) == ("", UNEXPLAINED, "the last words")


def test_a_unit_that_found_no_site_is_a_failure_also_when_the_dag_was_stopped(tmp_path: Path) -> None:
    (tmp_path / "mg_000000").mkdir()
    verdict = {"verdict": "give up", "reason": "no site left", "bad_sites": []}
    (tmp_path / "mg_000000/verdict.json").write_text(json.dumps(verdict))
    (node,) = gather(tmp_path, outcome=DagOutcome.STOPPED).nodes
    assert node.message == "no site left"


UNKNOWN = {"job": {"exit_code": 123}, "classification": {"category": "unclassified", "reason": "no licence"}}


def judge(folder: Path, *rules: dict[str, Any], wait: bool = True) -> None:
    request = simulation(on_unclassified="wait" if wait else "retry")
    (folder / "policy.json").write_text(json.dumps(policy_of(request)))
    add_rules(folder / "policy.json", [FailureRule(**rule) for rule in rules])


@pytest.mark.parametrize(
    ("rules", "wait", "category", "waiting", "judged"),
    [
        ([], True, "unclassified", 2, 0),
        ([], False, "unclassified", 0, 0),
        ([{"name": "a", "category": "transient", "exit_codes": (123,)}], True, "transient", 0, 2),
        ([{"name": "a", "category": "transient", "exit_codes": (123,)}], False, "transient", 0, 2),
        ([{"name": "a", "category": "permanent", "exit_codes": (123,)}], True, "permanent", 0, 0),
        ([{"name": "a", "category": "transient", "exit_codes": (124,)}], True, "unclassified", 2, 0),
        ([{"name": "a", "category": "transient", "message": "no licence"}], True, "transient", 0, 2),
        ([{"name": "a", "category": "transient", "message": "two$"}], True, "transient", 0, 2),
        ([{"name": "a", "category": "transient", "message": "no disk"}], True, "unclassified", 2, 0),
        ([{"name": "a", "category": "transient", "sites": ("T2_DE_DESY",)}], True, "unclassified", 2, 0),
        ([{"name": "a", "category": "transient", "exit_codes": (123,), "passive": True}], True, "unclassified", 2, 0),
        (
            [
                {"name": "a", "category": "permanent", "exit_codes": (123,)},
                {"name": "b", "category": "transient", "exit_codes": (123,), "message": "no licence"},
            ],
            True, "transient", 0, 2,
        ),
        (
            [
                {"name": "a", "category": "permanent", "exit_codes": (123,)},
                {"name": "b", "category": "transient", "message": "no licence"},
            ],
            True, "permanent", 0, 0,
        ),
    ],
)  # fmt: skip
def test_a_verdict_speaks_for_all_failures_that_it_fits(
    tmp_path: Path, rules: list[dict[str, Any]], wait: bool, category: str, waiting: int, judged: int
) -> None:
    for unit in range(2):
        write(tmp_path, unit, f"proc_{unit:06d}", post(**UNKNOWN))
    judge(tmp_path, *rules, wait=wait)
    failures = gather(tmp_path, units=2)
    assert {node.category for node in failures.nodes} == {category}
    assert (failures.summary.units_waiting, failures.summary.units_judged) == (waiting, judged)


def test_a_verdict_does_not_speak_for_a_unit_in_which_something_else_failed_too(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000000", post(**UNKNOWN))
    write(tmp_path, 0, "proc_000001", post(classification={"category": "permanent"}))
    judge(tmp_path, {"name": "a", "category": "transient", "exit_codes": (123,)})
    assert gather(tmp_path).summary.units_judged == 0


def test_a_policy_that_somebody_broke_judges_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000000", post(**UNKNOWN))
    for text in ("", "[]", '{"rules": 7}', '{"version": 2, "rules": [{"of_request": true}]}'):
        (tmp_path / "policy.json").write_text(text)
        assert gather(tmp_path).summary.units_judged == 0


def test_produced_units_and_units_that_still_run_have_no_failures(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000000", post())
    assert gather_failures(tmp_path, planned(1), DAG, {0}, DagOutcome.PARTIAL).nodes == ()
    assert gather(tmp_path, outcome=DagOutcome.RUNNING).nodes == ()


def test_every_attempt_that_could_not_read_a_file_is_remembered_with_its_site(tmp_path: Path) -> None:
    bad = {"bad_input_files": [LFN]}
    write(tmp_path, 0, "proc_000000", post(classification=bad, job={"site": "T1_US_FNAL"}), cluster=105)
    write(tmp_path, 0, "proc_000000", post(classification=bad, cluster=106), cluster=106)
    files = gather(tmp_path, with_input=True).files
    assert [(file.lfn, file.site, file.exit_code) for file in files] == [
        (LFN, "T1_US_FNAL", 8021),
        (LFN, "T2_US_Purdue", 8021),
    ]


def test_a_file_is_not_blamed_by_a_node_that_read_it_in_the_end(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000000", post(classification={"bad_input_files": [LFN]}), cluster=105)
    write(tmp_path, 0, "proc_000000", post(classification={"category": "success"}, cluster=106), cluster=106)
    write(tmp_path, 0, "proc_000001", post(cluster=107), cluster=107)
    assert gather(tmp_path, with_input=True).files == ()


def test_a_thousand_nodes_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    for number in range(NODES_IN_FULL + 20):
        write(tmp_path, number // 100, f"proc_{number:06d}", post())
    failures = gather(tmp_path, units=11)
    assert len(failures.nodes) == NODES_IN_FULL
    assert failures.summary.nodes_failed == NODES_IN_FULL + 20
    assert failures.summary.units_failed == 11
    assert sum(bool(node.log_tail) for node in failures.nodes) == TAILS_OF_A_KIND


HOSTILE = [
    "", "{", "[]", "null", "[" * 100_000, '{"job": 5, "classification": [], "cluster": "x", "final": true}',
    '{"final": true, "classification": {"category": {"a": 1}, "bad_input_files": "no", "reason": 7}}',
    '{"final": true, "log_tail": "\\u0000\\u001b[2J\\ud800\\u202e", "job": {"exit_code": 1e400, "site": "T2;rm -rf"}}',
    '{"final": true, "classification": {"category": "[red]x", "reason": "\\u001b]0;title\\u0007[bold]", '
    '"bad_input_files": ["/store/../etc/passwd", 5, "/store/ok.root\\n", "$(reboot)"]}}',
    '{"final": true, "job": {"exit_code": 99999999999999999999, "site": null}, "cluster": 1e9}',
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_record_that_is_torn_or_made_to_break_something_breaks_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path, 0, "proc_000000", text)
    (tmp_path / "mg_000000/verdict.json").write_text(text)
    failures = gather(tmp_path, with_input=True)
    (node,) = failures.nodes
    shown = node.message + node.log_tail + node.category + node.rule
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert node.bad_input_files == ()
    assert node.site is None
    assert failures.summary.units_failed == 1
    list(read_nodes(tmp_path, planned(1)))


FIELDS = st.sampled_from(
    [
        "job",
        "classification",
        "category",
        "site",
        "exit_code",
        "bad_input_files",
        "log_tail",
        "cluster",
        "final",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner),
)


@given(JSON)
def test_whatever_json_is_in_a_record_it_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, content: Any
) -> None:
    path = tmp_path_factory.mktemp("post") / "p"
    path.write_text(json.dumps(content))
    record = read_post(path)
    assert isinstance(record, PostRecord) == isinstance(content, dict)


def test_names_in_a_verdict_that_are_no_nodes_are_not_taken_for_paths(tmp_path: Path) -> None:
    (tmp_path / "mg_000000").mkdir()
    nodes = [{"node": "../../secret", "category": "data"}, {"node": 5}, "text"]
    (tmp_path / "mg_000000/verdict.json").write_text(json.dumps({"verdict": "give up", "nodes": nodes}))
    (node,) = gather(tmp_path).nodes
    assert (node.node, node.message) == ("", "give up")


@given(st.text(st.characters()), st.integers(2, 50))
def test_plain_text_is_printable_and_bounded(text: str, longest: int) -> None:
    line, lines = plain_line(text, longest), plain_text(text, longest)
    assert line.isprintable()
    assert len(line) <= longest
    assert all(character.isprintable() or character == "\n" for character in lines)
    line.encode()
    lines.encode()


def test_of_a_long_log_the_end_is_kept() -> None:
    assert plain_text("x" * 100 + "the end", 10).endswith("the end")


# In few words -------------------------------------------------------------------------------------------


def failed(category: str, code: int | None, site: str | None = None) -> FailedNode:
    return FailedNode(work_unit=0, node="proc_000000", category=category, exit_code=code, site=site)


def summary(*units: list[FailedNode], **changes: Any) -> FailureSummary:
    tally = Tally()
    for nodes in units:
        tally.add(nodes)
    return FailureSummary(
        units=10, units_failed=len(units), nodes_failed=sum(map(len, units)), causes=tally.causes(), **changes
    )


def test_the_causes_in_words_name_category_site_and_code() -> None:
    purdue = [failed("infrastructure", 60311, "T2_US_Purdue")]
    found = summary(purdue, [failed("permanent", 8001, "T2_US_Purdue")], purdue, purdue)
    assert causes_in_words(found) == "3 infrastructure at T2_US_Purdue (60311), 1 permanent (8001)"


def test_a_unit_counts_for_its_main_cause_alone() -> None:
    nodes = [failed("data", 8022), failed("permanent", 8001), failed("permanent", 8001)]
    assert causes_in_words(summary(nodes)) == "1 permanent (8001)"


def test_many_causes_and_many_sites_stay_few_words() -> None:
    units = [[failed("infrastructure", 60311, f"T2_US_Site{k}")] for k in range(5)]
    units += [[failed("permanent", 8000 + k)] for k in range(4)]
    words = causes_in_words(summary(*units, units_unfinished=1))
    assert words.split(", ") == [
        "5 infrastructure at 5 sites (60311)",
        "1 permanent (8000)",
        "1 permanent (8001)",
        "2 for other causes",
        "1 not finished",
    ]


@pytest.mark.parametrize(
    ("succeeded", "failures", "code"),
    [
        (0, {("permanent", 8501): 5}, 8501),
        (0, {("permanent", 8501): 6}, 8501),
        (0, {("permanent", 8501): 4}, None),
        (1, {("permanent", 8501): 5}, None),
        (0, {("permanent", 8501): 5, ("permanent", 8001): 1}, None),
        (0, {("permanent", 8501): 5, ("infrastructure", 8501): 1}, None),
        (0, {("infrastructure", 60311): 50}, None),
        (0, {}, None),
    ],
)
def test_only_the_same_permanent_failure_of_all_first_nodes_is_a_pattern(
    succeeded: int, failures: dict[tuple[str, int | None], int], code: int | None
) -> None:
    assert same_failure(succeeded, failures, 5) == code


def test_the_first_ends_are_those_of_this_dag_alone(tmp_path: Path) -> None:
    write(tmp_path, 0, "proc_000000", post(cluster=DAG - 1))
    write(tmp_path, 0, "proc_000001", post(final=False))
    write(tmp_path, 0, "landing", post(classification={"category": "success"}))
    permanent = {"classification": {"category": "permanent"}, "job": {"exit_code": 8501}}
    write(tmp_path, 1, "proc_000002", post(**permanent))
    assert first_ends(tmp_path, planned(2), DAG, 5) == (0, Counter({("permanent", 8501): 1}))
    write(tmp_path, 1, "proc_000003", post(classification={"category": "success"}))
    assert first_ends(tmp_path, planned(2), DAG, 5)[0] == 1


def test_a_removal_is_remembered_for_the_dag_that_it_was_meant_for(tmp_path: Path) -> None:
    assert removed_by_wms2(tmp_path, DAG) == ""
    mark_removal(tmp_path, DAG, "all alike")
    assert removed_by_wms2(tmp_path, DAG) == "all alike"
    assert removed_by_wms2(tmp_path, DAG + 1) == ""


def test_the_advice_fits_the_status_and_the_main_cause() -> None:
    found = summary([failed("infrastructure", 60311, "T2_US_Purdue")])
    assert "--avoid-site T2_US_Purdue" in advice(RequestStatus.HELD, "a_request", found)
    assert "--memory-mb" in advice(
        RequestStatus.HELD, "a_request", summary([failed("resource:memory", 50660)])
    )
    assert "release a_request" in advice(RequestStatus.HELD, "a_request", None)
    bad_data = summary([failed("data", 8022)])
    assert "input files are excluded" in advice(RequestStatus.HELD, "a_request", bad_data)
    told = advice(RequestStatus.HELD, "a_request", bad_data, simulation=True)
    assert "input files" not in told
    assert "release a_request" in told
    assert "judge a_request" in advice(
        RequestStatus.HELD, "a_request", summary([failed("unclassified", 123)])
    )
    assert "ended" in advice(RequestStatus.FAILED, "a_request", found)
    assert "by itself" in advice(RequestStatus.ACTIVE, "a_request", found)


def test_a_dag_that_wms2_removed_before_it_left_a_word_was_aborted_and_did_not_vanish(tmp_path: Path) -> None:
    assert read_outcome(tmp_path, planned(1), DAG, [], ()) is DagOutcome.VANISHED
    mark_removal(tmp_path, DAG, "all alike")
    assert read_outcome(tmp_path, planned(1), DAG, [], ()) is DagOutcome.ABORTED
    assert read_outcome(tmp_path, planned(1), DAG + 1, [], ()) is DagOutcome.VANISHED


def test_a_page_of_failures_names_causes_nodes_files_and_ends_of_logs() -> None:
    node = failed("data", 8021, "T2_US_Purdue").model_copy(
        update={"message": "cannot read", "log_tail": "one\ntwo\n", "attempts": 2}
    )
    file = FileFailure(
        work_unit=0, node="proc_000000", cluster=1, lfn="/store/f.root", site="T2_US_Purdue", category="data",
        exit_code=8021,
    )  # fmt: skip
    page = failure_page(summary([node]), [node], [file, file])
    assert "| data | 8021 | T2_US_Purdue | 1 | 1 |" in page
    assert "`mg_000000 proc_000000` at T2_US_Purdue: data 8021 after 2 attempts" in page
    assert "    cannot read\n    one\n    two" in page
    assert page.count("`/store/f.root` at T2_US_Purdue") == 1
    assert failure_page(summary(), [], []) == ""


def test_a_page_of_failures_stays_small_and_whole_whatever_jobs_say() -> None:
    noise = "`" + "x\n# | <script>\0" * 10_000
    nodes = [
        failed("permanent", code, "T2_US_Purdue").model_copy(update={"message": noise, "log_tail": noise})
        for code in range(1, 500)
    ]
    page = failure_page(summary(nodes), nodes, [])
    assert len(page) < 12_000
    told = [line for line in page.splitlines() if "script" in line]
    assert told
    assert all(line.startswith("    ") for line in told), "as quotations, which mean nothing to markdown"
