"""The worker as a process, without a server."""

import os
import signal
import subprocess
import sys
from pathlib import Path

NOWHERE = "127.0.0.1:1"


def test_a_worker_waits_for_a_temporal_that_is_not_there_yet_until_it_is_told_to_stop(tmp_path: Path) -> None:
    environment = {**os.environ, "WMS2_HOME": str(tmp_path), "WMS2_TEMPORAL_ADDRESS": NOWHERE}
    with subprocess.Popen(
        [Path(sys.executable).with_name("wms2"), "worker", "run"], env=environment, stderr=subprocess.PIPE, text=True
    ) as worker:  # fmt: skip
        assert worker.stderr is not None
        for _ in range(2):
            line = worker.stderr.readline()
            assert f"Temporal does not answer at {NOWHERE}" in line
            assert line.endswith("trying again\n")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0


def test_a_worker_that_knows_no_temporal_says_so_and_ends(tmp_path: Path) -> None:
    ended = subprocess.run(
        [Path(sys.executable).with_name("wms2"), "worker", "run"],
        env={**os.environ, "WMS2_HOME": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "wms2 up" in ended.stderr
