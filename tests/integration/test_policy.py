"""Failures on the real pool: each category at a chosen attempt, cool-off, and a handler of the request."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.integration.rounds import Round, small_simulation
from wms2.cli.main import app
from wms2.config import Settings
from wms2.models.progress import DagOutcome

pytestmark = pytest.mark.pool

PASSING = {
    "proc_000000": 99401,
    "proc_000001": 60307,
    "proc_000002": 50660,
    "proc_000003": 8033,
    "proc_000004": 123,
}


def record(round_: Round, node: str, attempt: int, kind: str = "post") -> dict[str, Any]:
    cluster = round_.attempts(node)[attempt]
    (path,) = round_.folder.glob(f"mg_*/{node}.{cluster}.{kind}.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


async def test_each_kind_of_failure_that_passes_is_retried_in_its_own_way_and_the_round_completes(
    stack: Settings,
) -> None:
    step = {"faults": [{"node": node, "exit_code": code, "times": 1} for node, code in PASSING.items()]}
    round_ = Round(stack, small_simulation(stack, "kinds", step=step), limits={"cool_off_sec": 3})
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert {node: len(round_.attempts(node)) for node in PASSING} == dict.fromkeys(PASSING, 2)
    verdicts = {node: record(round_, node, 0)["classification"]["category"] for node in PASSING}
    assert list(verdicts.values()) == [
        "transient", "infrastructure", "resource:memory", "resource:disk", "unclassified",
    ]  # fmt: skip
    for node in ("proc_000000", "proc_000001", "proc_000004"):
        begun = datetime.fromisoformat(record(round_, node, 1, "report")["started"])
        assert begun.timestamp() + 1 > record(round_, node, 0)["not_before"]
    assert "not_before" not in record(round_, "proc_000002", 0)
    raised = [
        line for path in round_.folder.glob("mg_*/memory.inc") for line in path.read_text().splitlines()
    ]
    assert "proc_000002_memory = 750" in raised
    round_.assert_every_event_once()


async def test_a_handler_of_the_request_retries_what_is_else_permanent_after_its_script(
    stack: Settings, tmp_path: Path
) -> None:
    script = tmp_path / "mend"
    script.write_text("#!/bin/sh\necho mended $WMS2_NODE after $WMS2_EXIT_CODE\n")
    script.chmod(0o755)
    handlers = [{"name": "mending", "rules": [{"exit_codes": [8501], "recovery_script": "mend"}]}]
    step = {"faults": [{"node": "proc_000001", "exit_code": 8501, "times": 2}]}
    request = small_simulation(stack, "handled", step=step, total_events=40, failure_handlers=handlers)
    round_ = Round(stack, request, limits={"recovery_dir": str(tmp_path)})
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert len(round_.attempts("proc_000001")) == 3
    first = round_.attempts("proc_000001")[0]
    assert record(round_, "proc_000001", 0)["recovery"]["outcome"] == "succeeded"
    said = (round_.folder / f"mg_000000/proc_000001.{first}.recovery.out").read_text()
    assert said == "mended proc_000001 after 8501\n"
    round_.assert_every_event_once()


async def test_a_failure_that_waits_for_a_verdict_is_judged_by_the_rule_made_of_it_when_it_is_rescued(
    stack: Settings,
) -> None:
    step = {"faults": [{"node": "proc_000001", "exit_code": 123, "times": 2}]}
    request = small_simulation(stack, "verdict", step=step, total_events=40, on_unclassified="wait")
    round_ = Round(stack, request)
    assert (await round_.run()).outcome is DagOutcome.PARTIAL
    assert record(round_, "proc_000001", 0)["classification"]["outcome"] == "pending"
    policy = round_.folder / "policy.json"
    words = [
        "policy",
        "add",
        str(policy),
        "--name",
        "licence",
        "--category",
        "transient",
        "--exit-code",
        "123",
    ]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert record(round_, "proc_000001", 1)["classification"]["rule"] == "licence"
    assert len(round_.attempts("proc_000001")) == 3
    round_.assert_every_event_once()
