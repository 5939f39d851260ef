from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms2.dagman.metrics import read_metrics
from wms2.dagman.rescue import complete_rescue, done_nodes, newest_rescue
from wms2.dagman.status import NodeStatus, read_status

STATUS = """[
  Type = "DagStatus";
  DagFiles = {
    "workflow.dag"
  };
  Timestamp = 1763268000; /* "Sun Nov 16 04:40:00 2025" */
  DagStatus = 3; /* "STATUS_SUBMITTED ()" */
  NodesTotal = 2;
  NodesDone = 1;
  NodesPre = 0;
  NodesQueued = 0;
  NodesPost = 0;
  NodesReady = 0;
  NodesUnready = 0;
  NodesFutile = 0;
  NodesFailed = 1;
  JobProcsHeld = 0;
  JobProcsIdle = 0; /* includes held */
]
[
  Type = "NodeStatus";
  Node = "mg_000000";
  NodeStatus = 5; /* "STATUS_DONE" */
  StatusDetails = "";
  RetryCount = 0;
  JobProcsQueued = 0;
  JobProcsHeld = 0;
]
[
  Type = "NodeStatus";
  Node = "mg_000001";
  NodeStatus = 6; /* "STATUS_ERROR" */
  StatusDetails = "POST script failed with status 42";
  RetryCount = 1;
  JobProcsQueued = 0;
  JobProcsHeld = 0;
]
[
  Type = "StatusEnd";
  EndTime = 1763268001; /* "Sun Nov 16 04:40:01 2025" */
  NextUpdate = 0; /* none */
]
"""


def test_a_status_file_gives_counts_and_nodes(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dag.status"
    path.write_text(STATUS)
    status = read_status(path)
    assert status is not None
    assert status.counts["NodesDone"] == 1
    assert status.counts["NodesFailed"] == 1
    assert status.nodes == {"mg_000000": NodeStatus.DONE, "mg_000001": NodeStatus.ERROR}


def test_the_totals_of_a_status_file_are_those_of_the_dag_and_not_of_its_last_node(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dag.status"
    path.write_text(STATUS.replace("JobProcsHeld = 0", "JobProcsHeld = 3", 1))
    status = read_status(path)
    assert status is not None
    assert status.counts["JobProcsHeld"] == 3


def test_a_node_with_a_status_that_nobody_knows_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dag.status"
    path.write_text(STATUS.replace("NodeStatus = 5;", "NodeStatus = 55;"))
    status = read_status(path)
    assert status is not None
    assert status.nodes == {"mg_000001": NodeStatus.ERROR}


@given(st.integers(0, len(STATUS) - 1))
def test_a_torn_status_file_is_no_error_and_no_news(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("status") / "s"
    path.write_text(STATUS[:cut])
    status = read_status(path)
    assert status is None or status.nodes.keys() == {"mg_000000", "mg_000001"}


def test_a_missing_status_file_is_no_error(tmp_path: Path) -> None:
    assert read_status(tmp_path / "nothing") is None


METRICS = (
    '{"dagman_id": "77", "exitcode": 1, "DagStatus": 2, "start_time": 10.5, "end_time": 20.5, "nodes": 3}'
)


def test_metrics_of_another_run_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "workflow.dag.metrics"
    path.write_text(METRICS)
    assert read_metrics(path, 78) is None
    metrics = read_metrics(path, 77)
    assert metrics is not None
    assert (metrics.exitcode, metrics.dag_status) == (1, 2)


@pytest.mark.parametrize("text", ["", "{", METRICS[:-20], "[]", '{"dagman_id": 1}'])
def test_torn_metrics_are_no_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m"
    path.write_text(text)
    assert read_metrics(path) is None


def test_the_newest_rescue_file_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    dag = tmp_path / "workflow.dag"
    for number in (1, 2, 10):
        (tmp_path / f"workflow.dag.rescue{number:03d}").write_text(f"DONE mg_{number:06d}\n")
    (tmp_path / "workflow.dag.rescue010.old").write_text("")
    newest = newest_rescue(dag)
    assert newest is not None
    assert newest.name == "workflow.dag.rescue010"
    assert done_nodes(newest) == {"mg_000010"}


def test_a_credited_unit_that_is_not_done_in_the_rescue_file_gets_a_rescue_file_of_ours(
    tmp_path: Path,
) -> None:
    dag = tmp_path / "workflow.dag"
    assert complete_rescue(dag, ["mg_000001"]) == tmp_path / "workflow.dag.rescue001"
    assert complete_rescue(dag, ["mg_000001"]) is None
    second = complete_rescue(dag, ["mg_000001", "mg_000002"])
    assert second == tmp_path / "workflow.dag.rescue002"
    assert done_nodes(second) == {"mg_000001", "mg_000002"}


def test_at_the_highest_number_the_last_rescue_file_is_written_again(tmp_path: Path) -> None:
    dag = tmp_path / "workflow.dag"
    (tmp_path / "workflow.dag.rescue100").write_text("DONE mg_000000\n")
    assert complete_rescue(dag, ["mg_000001"]) == tmp_path / "workflow.dag.rescue100"
    assert done_nodes(newest_rescue(dag)) == {"mg_000000", "mg_000001"}
