"""The worker as a process, without a server."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SEC
from wms2.cli.log import in_one_line
from wms2.errors import UserError

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
        assert worker.wait(PATIENCE_SEC) == 0


def test_a_worker_that_knows_no_temporal_says_so_and_ends(tmp_path: Path) -> None:
    ended = subprocess.run(
        [Path(sys.executable).with_name("wms2"), "worker", "run"],
        env={**os.environ, "WMS2_HOME": str(tmp_path)}, capture_output=True, text=True,
        check=False, timeout=PATIENCE_SEC,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "wms2 up" in ended.stderr


@pytest.mark.parametrize(
    ("error", "one_line"), [(UserError("it is away\nby far"), True), (KeyError("a bug"), False)]
)
def test_an_error_that_a_sentence_explains_is_logged_without_a_stack_trace(
    error: Exception, one_line: bool
) -> None:
    record = logging.LogRecord(
        "x", 30, "f", 1, "Completing %s as failed", ("it",), (type(error), error, None)
    )
    assert in_one_line(record)
    assert (record.exc_info is None) is one_line
    assert ("as failed: it is away" in record.getMessage()) is one_line
    assert "by far" not in record.getMessage()
