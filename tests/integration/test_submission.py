"""A DAG is submitted exactly once, whatever dies when."""

import asyncio
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.integration.dying_submitter import STEPS
from tests.integration.rounds import Gate, Round, small_simulation
from tests.patience import PATIENCE_SEC
from wms2.adapters.condor import SubmissionRefused
from wms2.config import Settings
from wms2.dagman.lock import LockBusy, submission_lock
from wms2.local.demo import merged_paths
from wms2.models.messages import DagOrder
from wms2.models.plan import Limits
from wms2.models.progress import DagOutcome

pytestmark = pytest.mark.pool


def one_unit(stack: Settings, name: str, **step: Any) -> Round:
    return Round(stack, small_simulation(stack, name, total_events=20, step=step))


def die_at(stack: Settings, round_: Round, step: str) -> None:
    died = subprocess.run(
        [sys.executable, "-m", "tests.integration.dying_submitter", stack.home, round_.folder, step],
        check=False,
    )
    assert died.returncode == -signal.SIGKILL


def submissions(stack: Settings, round_: Round) -> list[str]:
    """The clusters that ever carried the tag of this round's first attempt, queued or gone."""
    tag = DagOrder(request=round_.request.request_name, round=0, attempt=1, folder=round_.folder).dag_id
    found: list[str] = []
    for program in ("condor_q", "condor_history"):
        done = subprocess.run(
            [program, "-constraint", f'WMS2_DagId == "{tag}"', "-af", "ClusterId"],
            env=stack.condor_environment(), capture_output=True, text=True, check=True,
        )  # fmt: skip
        found += done.stdout.split()
    return sorted(set(found))


@pytest.mark.parametrize("step", STEPS)
async def test_a_submitter_killed_at_any_step_leaves_one_dag_and_every_event_once(
    stack: Settings, step: str
) -> None:
    round_ = one_unit(stack, "dies")
    die_at(stack, round_, step)
    dag = await round_.start()
    assert submissions(stack, round_) == [str(dag.cluster)]
    assert (await round_.finish(dag)).outcome is DagOutcome.COMPLETED
    assert len(round_.attempts("proc_000000")) == 1
    round_.assert_every_event_once()


@pytest.mark.parametrize("history", ["kept", "lost"])
async def test_a_dag_that_ended_before_its_submission_was_recorded_is_not_run_again(
    stack: Settings, history: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = one_unit(stack, "ends")
    die_at(stack, round_, "after the submission")
    async with asyncio.timeout(PATIENCE_SEC):
        while not (round_.folder / "workflow.dag.metrics").exists() or _queued(stack, round_):
            await asyncio.sleep(0.5)
    if history == "lost":
        # The schedd keeps its history for a while only; then the metrics file is all that is left.
        async def nothing(*_: object) -> None:
            return None

        monkeypatch.setattr("wms2.adapters.condor.Condor.find_finished", nothing)
    dag = await round_.start()
    assert dag.found
    assert submissions(stack, round_) == [str(dag.cluster)]
    assert (await round_.finish(dag)).outcome is DagOutcome.COMPLETED
    round_.assert_every_event_once()


def _queued(stack: Settings, round_: Round) -> str:
    done = subprocess.run(
        ["condor_q", "-constraint", f'WMS2_DagId == "{round_.request.request_name}:0:1"', "-af", "ClusterId"],
        env=stack.condor_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


async def test_many_submitters_at_once_make_one_dag(stack: Settings) -> None:
    round_ = one_unit(stack, "races")
    script = (
        "import asyncio, sys; from pathlib import Path; from wms2.cli.by_hand import ByHand; "
        "from wms2.config import load_settings; "
        "print(asyncio.run(ByHand(load_settings(Path(sys.argv[1]))).start_round(Path(sys.argv[2]))).cluster)"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, stack.home, round_.folder], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    clusters = {racer.communicate(timeout=PATIENCE_SEC)[0].strip() for racer in racers}
    assert all(racer.returncode == 0 for racer in racers)
    assert submissions(stack, round_) == list(clusters)
    assert len(clusters) == 1
    await round_.finish(await round_.start())
    round_.assert_every_event_once()


async def test_an_attempt_is_refused_while_another_one_of_its_round_is_queued(stack: Settings) -> None:
    gate = Gate(stack)
    round_ = one_unit(stack, "waits", faults=gate.before("proc_000000"))
    dag = await round_.start()
    second = dag.order.model_copy(update={"attempt": 2})
    with pytest.raises(SubmissionRefused, match=f"{dag.order.dag_id} is still in the queue"):
        await round_.activities.submit_dag(second)
    gate.open()
    assert (await round_.finish(dag)).outcome is DagOutcome.COMPLETED


async def test_a_credited_unit_whose_output_was_lost_on_disk_does_not_run_again(stack: Settings) -> None:
    step = {"faults": [{"node": "proc_000002", "exit_code": 8501, "times": 1}]}
    round_ = Round(stack, small_simulation(stack, "lost", total_events=80, step=step))
    await round_.run()
    merged = {path: path.read_bytes() for path in merged_paths(stack.home, round_.folder)}
    (round_.folder / "mg_000000/merge_output.json").unlink()
    for rescue in round_.folder.glob("workflow.dag.rescue*"):
        rescue.unlink()
    attempts = round_.attempts("proc_000000")
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    assert round_.attempts("proc_000000") == attempts
    assert {path: path.read_bytes() for path in merged} == merged


async def test_the_lock_of_a_round_is_held_by_one_at_a_time(stack: Settings) -> None:
    round_ = one_unit(stack, "locks")
    async with submission_lock(round_.folder):
        with pytest.raises(LockBusy, match="another process"):
            async with submission_lock(round_.folder, patience_sec=0.3):
                pass
    async with submission_lock(round_.folder, patience_sec=0.3):
        pass


async def test_each_dagman_of_a_round_keeps_to_the_idle_jobs_of_the_slot_that_it_was_submitted_with(
    stack: Settings,
) -> None:
    gate = Gate(stack)
    round_ = one_unit(stack, "idle_share", faults=gate.before())
    dag = await round_.start()
    await until_told(round_, f"DAGMAN_MAX_JOBS_IDLE setting: {Limits().jobs_idle}")
    await round_.activities.stop_dag(dag, "the test says so")
    order = dag.order.model_copy(update={"attempt": 2, "idle_jobs": 7})
    gate.open()
    again = await round_.activities.submit_dag(order)
    assert (await round_.finish(again)).outcome is DagOutcome.COMPLETED
    await until_told(round_, "DAGMAN_MAX_JOBS_IDLE setting: 7")
    round_.assert_every_event_once()


async def until_told(round_: Round, words: str) -> None:
    """Until the DAGMan of the round and that of its work unit have said so."""
    logs = [round_.folder / "workflow.dag.dagman.out", round_.folder / "mg_000000/group.dag.dagman.out"]
    async with asyncio.timeout(PATIENCE_SEC):
        while not all(log.exists() and words in log.read_text(errors="replace") for log in logs):
            await asyncio.sleep(0.2)
