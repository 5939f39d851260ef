"""The worker as a part of the stack, without any server."""

import os
from pathlib import Path

import pytest

from wms2.config import StackRecord
from wms2.local.doctor import Doctor
from wms2.local.logs import chosen_logs
from wms2.local.stack import PARTS, Stack
from wms2.local.worker import Worker, find_program


@pytest.fixture
def home(tmp_path: Path) -> Path:
    StackRecord(pids={"worker": 4_000_000}).write(tmp_path)
    return tmp_path


def test_a_worker_is_a_part_of_a_stack_that_was_asked_for_one(home: Path) -> None:
    (worker,) = [state for state in Stack(home).states() if state.name == "worker"]
    assert worker.problem == "worker is not running: run `wms2 up`"


def test_without_being_asked_for_it_is_no_part_of_the_stack(tmp_path: Path) -> None:
    assert sorted(state.name for state in Stack(tmp_path).states()) == sorted(PARTS)


def test_a_stack_that_was_stopped_was_not_asked_for_a_worker(home: Path) -> None:
    Stack(home).down()
    assert "worker" not in [state.name for state in Stack(home).states()]


def test_it_is_not_ready_while_temporal_does_not_know_of_it(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "127.0.0.1:1", "default", os.getpid())
    assert worker.problem() == "Temporal does not tell who works for it"


def test_its_log_is_found_by_its_name(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "worker.log"
    log.parent.mkdir()
    log.write_text("serving\n")
    assert chosen_logs(tmp_path, "worker") == {"worker": log}


def test_it_is_the_program_beside_this_python() -> None:
    assert find_program().name == "wms2"


def test_the_doctor_misses_a_worker_that_died(home: Path, tmp_path: Path) -> None:
    (worker,) = [check for check in Doctor(home).checks() if check.name == "worker"]
    assert (worker.is_well, worker.message) == (False, "worker is not running: run `wms2 up`.")
    Stack(home).down()
    (none,) = [check for check in Doctor(tmp_path).checks() if check.name == "worker"]
    assert (none.is_well, "`wms2 up --worker`" in none.message) == (True, True)
