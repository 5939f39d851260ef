"""The watchdog on the real pool: a node that goes wrong is ended with the reason, retried and completed."""

import json
from typing import Any

import pytest

from tests.integration.rounds import Round, small_simulation, unique
from wms2.config import Settings
from wms2.models.progress import DagOutcome

pytestmark = pytest.mark.pool


def first_attempt(round_: Round, node: str, kind: str) -> dict[str, Any]:
    """The report, or the POST script's record, of a node's first attempt."""
    first = round_.attempts(node)[0]
    found: dict[str, Any] = json.loads((round_.folder / f"mg_000000/{node}.{first}.{kind}.json").read_text())
    return found


async def test_a_node_that_loops_is_ended_retried_and_completed(stack: Settings) -> None:
    faults = [{"node": "proc_000001", "hang": True, "times": 1}]
    parameters = {"faults": faults, "fault_dir": str(stack.home / "faults" / unique("loops"))}
    step = {"name": "GEN", "type": "demo", "parameters": parameters, "stall_sec": 2}
    request = small_simulation(stack, "loops", total_events=40, payload_config={"steps": [step]})
    round_ = Round(stack, request)
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert len(round_.attempts("proc_000001")) == 2
    report = first_attempt(round_, "proc_000001", "report")
    assert report["exit_code"] == 50665
    assert report["exit_message"].startswith("looping: ")
    assert first_attempt(round_, "proc_000001", "post")["job"]["exit_code"] == 50665
    round_.assert_every_event_once()


async def test_a_node_that_eats_memory_is_ended_gets_more_and_completes(stack: Settings) -> None:
    """Its limit is the memory that its job asked for: 1000 MiB at first, half as much again in the second attempt.

    It eats less than what makes HTCondor remove it.
    """
    faults = [{"node": "proc_000001", "eat_memory_mb": 1000, "times": 1}]
    step = {"faults": faults, "memory_mb": 50}
    request = small_simulation(stack, "eats", step=step, total_events=40, memory_mb=1000)
    round_ = Round(stack, request)
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert len(round_.attempts("proc_000001")) == 2
    report = first_attempt(round_, "proc_000001", "report")
    assert report["exit_code"] == 50660
    assert report["exit_message"].endswith("above the job's limit of 1000 MiB")
    assert first_attempt(round_, "proc_000001", "post")["classification"]["category"] == "resource:memory"
    assert "proc_000001_memory = 1500" in (round_.folder / "mg_000000/memory.inc").read_text()
    round_.assert_every_event_once()
