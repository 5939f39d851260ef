"""Reports come from worker nodes: whatever they say, what POST calls produced is credited and measured."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from post_script import election
from post_script.group import prepare
from post_script.merge import collect
from post_script.names import DONE
from post_script.node import finish_attempt
from tests.factories import snapshot
from tests.unit.test_measurement import REPORT
from tests.unit.test_post_script import MERGED_BASE, write_log, write_report
from wms2.core.ledger import produced_unit
from wms2.core.measurement import measured_round, pilot_metrics, pilot_report
from wms2.core.planning import plan_round
from wms2.core.sizing import next_sizing
from wms2.dagman.outputs import read_merge_output
from wms2.dagman.round_folder import read_round, write_round
from wms2.models.plan import PilotPlan

NODE = "proc_000000"
HOSTILE: list[Any] = [
    None, True, -1, 0.5, 10**19, -1e299, float("nan"), "", "\ud800", "$(touch hacked)\0\nqueue 5", [],
    {"\ud800": "\ud800"},
]  # fmt: skip


@pytest.fixture
def pilot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The round of a pilot, in the folder of its work unit."""
    # Hundreds of records, none of which need survive a crash of the machine.
    monkeypatch.setattr("os.fsync", lambda _: None)
    folder = tmp_path / "round"
    write_round(plan_round(snapshot(events=100, pilot=PilotPlan(first_events=10))), folder)
    monkeypatch.chdir(folder / "mg_000000")
    assert prepare("mg_000000") == DONE
    election.elect("T2_DE_DESY")
    return folder


def spoilt(part: Any, hostile: Any) -> Iterator[Any]:
    """The same with one part of it replaced, for each there is."""
    yield hostile
    items: Any = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        for other in spoilt(value, hostile):
            copy = part.copy()
            copy[key] = other
            yield copy


def report_of(node: str, cluster: int, **more: Any) -> dict[str, Any]:
    write_report(node, cluster, **more)
    told: dict[str, Any] = json.loads(Path(f"{node}.{cluster}.report.json").read_text())
    return told


def is_good(node: str, cluster: int, report: Any) -> bool:
    """Whether POST takes it for a success. An error inside it never means one."""
    write_log(node, cluster)
    Path(f"{node}.{cluster}.report.json").write_text(json.dumps(report))
    try:
        return finish_attempt(node, 0, cluster, 0, 9) == DONE
    except Exception:
        return False


def merged(cluster: int) -> dict[str, Any]:
    files = json.loads(Path("merge_input.json").read_text())["files"]
    names = {"lfn": f"{MERGED_BASE}/merged.root", "merged_from": [file["lfn"] for file in files]}
    return report_of("merge", cluster, outputs=[dict(file, **names) for file in files])


def check_that_it_counts(folder: Path) -> None:
    planned = read_round(folder)
    output = read_merge_output(folder, planned, planned.work_units[0])
    assert output is not None, "it is produced, and nobody would ever credit it"
    assert 0 <= produced_unit(output).processed_events <= 100
    measured, report = measured_round([output], 0.0), pilot_report([output])
    if measured and report:
        told = pilot_metrics(report, measured, next_sizing(measured, 100, None, 28800), 1)
        assert "hacked" not in told.model_dump_json()


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda value: repr(value)[:20])
def test_a_job_that_says_anything_of_itself_is_no_success_or_is_credited(pilot: Path, hostile: Any) -> None:
    good = report_of(NODE, 1, pilot=REPORT, inputs=[])
    assert is_good(NODE, 1, good)
    counted = 0
    for cluster, report in enumerate(spoilt(good, hostile), start=2):
        told = report | {"node": NODE, "cluster": cluster} if isinstance(report, dict) else report
        if is_good(NODE, cluster, told) and collect() == DONE and is_good("merge", cluster, merged(cluster)):
            check_that_it_counts(pilot)
            Path("merge_output.json").unlink()
            counted += 1
    assert counted, "a report with a wrong figure loses no output"


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda value: repr(value)[:20])
def test_a_merge_that_says_anything_of_itself_is_no_success_or_is_credited(pilot: Path, hostile: Any) -> None:
    assert is_good(NODE, 1, report_of(NODE, 1, pilot=REPORT))
    assert collect() == DONE
    for cluster, report in enumerate(spoilt(merged(1), hostile), start=2):
        told = report | {"node": "merge", "cluster": cluster} if isinstance(report, dict) else report
        if is_good("merge", cluster, told):
            check_that_it_counts(pilot)
            Path("merge_output.json").unlink()


def test_only_a_pilot_may_end_before_its_last_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "round"
    write_round(plan_round(snapshot(events=100)), folder)
    monkeypatch.chdir(folder / "mg_000000")
    assert prepare("mg_000000") == DONE
    election.elect("T2_DE_DESY")
    assert is_good(NODE, 1, report_of(NODE, 1, pilot=REPORT))
    assert collect() == DONE
    assert is_good("merge", 2, merged(2))
    planned = read_round(folder)
    output = read_merge_output(folder, planned, planned.work_units[0])
    assert output is not None
    assert produced_unit(output).processed_events == 100
