"""systemd hears from a process for as long as its event loop turns."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SEC
from wms2.watchdog import watched

NOWHERE = "127.0.0.1:9"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """Where systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        yield heard


def asked_by(systemd: socket.socket, seconds: float) -> dict[str, str]:
    return {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": str(round(seconds * 1_000_000))}


def heard_by(systemd: socket.socket) -> int:
    """How many words are there that nobody has read yet."""
    systemd.setblocking(False)
    count = 0
    while True:
        try:
            assert systemd.recv(100) == b"WATCHDOG=1"
        except BlockingIOError:
            return count
        count += 1


async def test_a_loop_that_stands_still_is_silent(
    systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in asked_by(systemd, 0.15).items():
        monkeypatch.setenv(name, value)
    async with watched():
        await asyncio.sleep(0.5)
        assert heard_by(systemd) >= 2
        time.sleep(0.5)  # noqa: ASYNC251 - this is what a blocked loop is
        assert heard_by(systemd) == 0
        await asyncio.sleep(0.5)
        assert heard_by(systemd) >= 2
    await asyncio.sleep(0.3)
    heard_by(systemd)
    await asyncio.sleep(0.3)
    assert heard_by(systemd) == 0, "it ends with what it watches over"


@pytest.mark.parametrize("other", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": ""}, {"NOTIFY_SOCKET": ""}])
async def test_who_is_not_asked_says_nothing(
    systemd: socket.socket, monkeypatch: pytest.MonkeyPatch, other: dict[str, str]
) -> None:
    for name, value in (asked_by(systemd, 0.03) | other).items():
        monkeypatch.setenv(name, value)
    async with watched():
        await asyncio.sleep(0.2)
    assert heard_by(systemd) == 0


@pytest.mark.parametrize(
    "command",
    [["api", "run", "--port", "0"], ["metrics", "run", "--port", "0"], ["worker", "run", "--central"]],
)
def test_what_systemd_runs_tells_it_that_it_is_alive_also_while_servers_are_away(
    systemd: socket.socket, tmp_path: Path, command: list[str]
) -> None:
    settings = {
        "WMS2_HOME": str(tmp_path),
        "WMS2_DATABASE_URL": f"postgresql://wms2@{NOWHERE}/wms2",
        "WMS2_TEMPORAL_ADDRESS": NOWHERE,
        "WMS2_CONDOR": "system",
    }
    process = subprocess.Popen(
        [Path(sys.executable).with_name("wms2"), *command],
        env=os.environ | settings | asked_by(systemd, 3),
        stderr=subprocess.DEVNULL,
    )
    try:
        systemd.settimeout(PATIENCE_SEC)
        assert [systemd.recv(100), systemd.recv(100)] == [b"WATCHDOG=1", b"WATCHDOG=1"]
    finally:
        process.terminate()
        # uvicorn ends by the signal itself once it has tidied up.
        assert process.wait(PATIENCE_SEC) in (0, -signal.SIGTERM)
