"""A glance tells what is new in a round's folder, and a look reads no more than that."""

import os
from pathlib import Path

import pytest

from bench.files import status_text
from wms2.dagman.glance import OUTER_METRICS, OUTER_STATUS, Glance, group_status, merge_output
from wms2.dagman.progress import begun_units
from wms2.dagman.round_folder import RoundFile, RoundUnit
from wms2.dagman.status import DagStatusFile, NodeStatus, read_status, read_totals

UNITS = ("mg_000000", "mg_000001")


def replace(path: Path, text: str = "x") -> None:
    """As DAGMan and the merge's POST script do it; two writings are never at the same moment."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".tmp")
    beside.write_text(text)
    beside.rename(path)
    folder = path.parent.stat()
    for touched in (path, path.parent):
        os.utime(touched, ns=(folder.st_atime_ns, replace.moment))  # type: ignore[attr-defined]
    replace.moment += 1_000_000  # type: ignore[attr-defined]


replace.moment = 1_700_000_000_000_000_000  # type: ignore[attr-defined]


def test_what_was_written_is_news_once(tmp_path: Path) -> None:
    glance = Glance(tmp_path)
    assert glance.changed(UNITS) == set()
    replace(tmp_path / OUTER_STATUS)
    replace(tmp_path / group_status("mg_000001"))
    assert glance.changed(UNITS) == {OUTER_STATUS, group_status("mg_000001")}
    assert glance.changed(UNITS) == set()
    replace(tmp_path / OUTER_STATUS)
    replace(tmp_path / merge_output("mg_000001"))
    assert glance.changed(UNITS) == {OUTER_STATUS, merge_output("mg_000001")}


def test_the_end_of_a_dagman_is_news(tmp_path: Path) -> None:
    glance = Glance(tmp_path)
    replace(tmp_path / OUTER_METRICS)
    assert glance.changed(()) == {OUTER_METRICS}


def test_only_units_that_run_are_glanced_at(tmp_path: Path) -> None:
    replace(tmp_path / group_status("mg_000000"))
    replace(tmp_path / group_status("mg_000001"))
    assert Glance(tmp_path).changed(["mg_000001"]) == {group_status("mg_000001")}


def test_totals_are_those_of_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "group.dag.status"
    path.write_text(status_text({f"proc_{number:06d}": 5 if number < 40 else 3 for number in range(100)}))
    whole = read_status(path)
    totals = read_totals(str(path))
    assert whole is not None
    assert totals == whole.counts
    assert totals["NodesDone"] == 40
    assert totals["NodesQueued"] == 60


@pytest.mark.parametrize("text", ["", "[\n  Type = ", '[\n  Type = "DagStatus";\n  NodesDone = 4'])
def test_totals_of_a_torn_file_are_unknown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "group.dag.status"
    path.write_text(text)
    assert read_totals(str(path)) is None
    assert read_totals(str(tmp_path / "missing")) is None


def test_a_unit_that_dagman_has_not_begun_is_not_read() -> None:
    units = tuple(RoundUnit(number=number, events=1, jobs=1) for number in range(4))
    planned = RoundFile(request="r", round=0, digest="0" * 64, nodes={}, edges=0, work_units=units)
    status = DagStatusFile(
        nodes={
            "mg_000000": NodeStatus.DONE,
            "mg_000001": NodeStatus.READY,
            "mg_000002": NodeStatus.ERROR,
            "mg_000003": NodeStatus.PRE,
        }
    )
    assert [unit.number for unit in begun_units(planned, status, ())] == [0, 2]
    assert [unit.number for unit in begun_units(planned, status, {"mg_000001"})] == [0, 1, 2]
    assert begun_units(planned, None, ()) == units, "nobody has written which were begun"
