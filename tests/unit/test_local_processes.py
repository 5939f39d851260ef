"""Ports, processes and logs of a stack."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import PATIENCE_SEC
from wms2.errors import UserError
from wms2.local import process
from wms2.local.logs import chosen_logs, new_lines
from wms2.local.ports import FIRST, LAST, is_free, listening, pick_port
from wms2.local.process import last_lines

SLEEPER: list[str | Path] = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(3600)"]


def test_a_port_somebody_listens_on_is_not_free_and_the_listener_is_known() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]

        assert not is_free(port)
        assert ("127.0.0.1", port) in listening([os.getpid()])


def test_a_listener_beyond_loopback_is_seen_as_such() -> None:
    with socket.socket(socket.AF_INET6) as server:
        server.bind(("::1", 0))
        server.listen()

        assert ("::1", server.getsockname()[1]) in listening([os.getpid()])


@given(taken=st.sets(st.integers(FIRST, LAST), max_size=50))
def test_a_picked_port_is_free_in_range_and_not_taken(taken: set[int]) -> None:
    port = pick_port(taken)

    assert FIRST <= port <= LAST
    assert port not in taken


def test_a_process_is_known_by_its_stack_and_part_and_by_no_other(tmp_path: Path) -> None:
    pid = process.start("demo", SLEEPER, tmp_path)
    try:
        assert process.is_running(tmp_path, "demo", pid)
        assert not process.is_running(tmp_path, "other", pid)
        assert not process.is_running(tmp_path / "elsewhere", "demo", pid)
        assert process.running(tmp_path) == [pid]
        assert process.running(tmp_path / "elsewhere") == []
    finally:
        process.stop(tmp_path, "demo", pid, signal.SIGTERM)
    assert process.running(tmp_path) == []
    assert not process.is_running(tmp_path, "demo", pid)


def test_a_process_is_known_at_every_moment_also_while_it_becomes_another_program(tmp_path: Path) -> None:
    for _ in range(10):
        pid = process.start("demo", ["env", "nice", "sleep", "3600"], tmp_path)
        looked = [process.is_running(tmp_path, "demo", pid) for _ in range(200)]
        process.sweep(tmp_path)
        assert all(looked)


def test_what_a_part_started_itself_is_stopped_with_it(tmp_path: Path) -> None:
    child = f"import subprocess, sys, time; subprocess.Popen({SLEEPER!r}); time.sleep(3600)"
    pid = process.start("demo", [sys.executable, "-c", child], tmp_path)
    assert process.wait_until(lambda: len(process.running(tmp_path)) == 2, PATIENCE_SEC)

    process.stop(tmp_path, "demo", pid, signal.SIGTERM, patience=0.3)

    assert process.running(tmp_path) == []


def test_a_process_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(3600)"
    )
    pid = process.start("demo", [sys.executable, "-c", stubborn], tmp_path)
    log = process.log_file(tmp_path, "demo")
    assert process.wait_until(lambda: log.read_text() == "up\n", PATIENCE_SEC)

    process.stop(tmp_path, "demo", pid, signal.SIGTERM, patience=0.3)

    assert process.running(tmp_path) == []


def test_a_dagman_of_the_stack_belongs_to_its_pool(tmp_path: Path) -> None:
    environment = {"CONDOR_CONFIG": f"{tmp_path}/condor/condor_config", "_CONDOR_DAGMAN_LOG": "x"}
    with subprocess.Popen(SLEEPER, env=environment, stdout=subprocess.DEVNULL) as dagman:
        assert process.wait_until(lambda: process.running(tmp_path, "condor") == [dagman.pid], PATIENCE_SEC)
        dagman.kill()


def test_a_client_of_the_pool_is_left_alone(tmp_path: Path) -> None:
    environment = {"CONDOR_CONFIG": f"{tmp_path}/condor/condor_config"}
    with subprocess.Popen(SLEEPER, env=environment, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        assert process.running(tmp_path) == []
        client.kill()


def test_logs_show_their_last_lines_and_then_what_is_added(tmp_path: Path) -> None:
    log = process.log_file(tmp_path, "temporal")
    log.parent.mkdir()
    log.write_text("one\ntwo\nthree\n")
    files = chosen_logs(tmp_path, None)

    assert list(files) == ["temporal"]
    assert last_lines(log, 2) == ["two", "three"]

    added = new_lines(files, interval=0)
    log.write_text("one\n")  # rotated: shorter than what was read
    assert next(added) == ("temporal", "one")
    with log.open("a") as more:
        more.write("four\n")
    assert next(added) == ("temporal", "four")


def test_a_log_that_does_not_exist_names_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There are no logs in"):
        chosen_logs(tmp_path, "temporal")
    process.log_file(tmp_path, "temporal").parent.mkdir()
    process.log_file(tmp_path, "temporal").touch()
    with pytest.raises(UserError, match="There is no log tempo: choose one of temporal"):
        chosen_logs(tmp_path, "tempo")
