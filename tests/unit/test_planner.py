"""The process that plans: it tells its errors, and never outlives the worker that wants to know."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from tests.patience import PATIENCE_SEC
from wms2.activities import planning
from wms2.activities.planning import PLANNER, run_planner
from wms2.adapters.connect import Turns, connect_dbs, connect_rucio
from wms2.config import Settings
from wms2.errors import Unavailable
from wms2.models.messages import PlanOrder
from wms2.models.next_round import Need, NextRound
from wms2.planner import Assignment, PlanningSettings

NOBODY = "postgresql://wms2@127.0.0.1:1/wms2"
CALLING = """
import asyncio, sys
from wms2.adapters.connect import connect_dbs, connect_rucio
from wms2.errors import Unavailable
from wms2.planner import Answer, Assignment

async def call(assignment):
    for connect in (connect_dbs, connect_rucio):
        async with connect(assignment.settings, assignment.turns) as service:
            try:
                await service.call("GET", "anything")
            except Unavailable:
                pass

asyncio.run(call(Assignment.model_validate_json(sys.stdin.buffer.read())))
print(Answer(message="called").model_dump_json())
"""


def assignment(home: Path, worker: int) -> Assignment:
    order = PlanOrder(
        request="nothing", round=0, host="here", first_lumi=1, next=NextRound(need=Need.ROUND, events=1)
    )
    settings = Settings(home=home, database_url=NOBODY, services_url="http://127.0.0.1:1")
    return Assignment(
        worker=worker, order=order, sites=("T2_CH_CERN",), settings=settings, planning=PlanningSettings()
    )


async def test_the_planner_tells_an_error_by_its_name(tmp_path: Path) -> None:
    answer = await run_planner(assignment(tmp_path, os.getpid()))
    assert answer.report is None
    assert answer.error == "OperationalError"
    assert "connection" in answer.message


def test_a_planner_whose_worker_is_gone_plans_nothing(tmp_path: Path) -> None:
    orphan = assignment(tmp_path, worker=1)
    done = subprocess.run(
        PLANNER, input=orphan.model_dump_json(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "gone" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_not_in_the_words_of_an_assignment(tmp_path: Path) -> None:
    handed_over = assignment(tmp_path, 1)
    handed_over.settings.rucio_password = "a secret"
    assert "a secret" not in repr(handed_over)
    assert NOBODY not in repr(handed_over)
    assert "a secret" in handed_over.model_dump_json()


async def test_a_planner_that_dies_is_told_as_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(planning, "PLANNER", (sys.executable, "-c", code))
    with pytest.raises(ApplicationError, match="round 0 of nothing ended with -9") as raised:
        await run_planner(assignment(tmp_path, os.getpid()))
    assert raised.value.type == "PlannerDied"
    assert not raised.value.non_retryable


async def test_a_planner_that_nobody_waits_for_any_more_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    code = f"import os, pathlib, signal; pathlib.Path({str(pid_file)!r}).symlink_to(str(os.getpid())); signal.pause()"
    monkeypatch.setattr(planning, "PLANNER", (sys.executable, "-c", code))
    waiting = asyncio.create_task(run_planner(assignment(tmp_path, os.getpid())))
    async with asyncio.timeout(PATIENCE_SEC):
        while not pid_file.is_symlink():
            await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(pid_file.readlink())), 0)


async def test_what_planners_call_counts_for_the_limit_of_their_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(planning, "PLANNER", (sys.executable, "-c", CALLING))
    alone = assignment(tmp_path, os.getpid())
    rare = alone.settings.model_copy(update={"dbs_calls_per_sec": 0.01, "rucio_calls_per_sec": 0.01})
    turns = Turns.new()
    answer = await run_planner(alone.model_copy(update={"settings": rare, "turns": turns}))
    assert answer.message == "called"
    for connect in (connect_dbs, connect_rucio):
        async with connect(rare, turns) as service:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(service.call("GET", "anything"), 0.5)
        async with connect(rare, Turns.new()) as service:
            with pytest.raises(Unavailable):
                await asyncio.wait_for(service.call("GET", "anything"), PATIENCE_SEC)
