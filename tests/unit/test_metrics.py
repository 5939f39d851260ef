"""Metrics without any server: who may serve them where, and what the catalogue promises."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SEC
from wms2.config import Settings, configured_settings
from wms2.db.session import connect
from wms2.errors import UserError
from wms2.metrics.catalogue import ADMISSION, DATABASE, WORKER
from wms2.metrics.collector import SystemCollector

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


def test_metrics_are_for_this_machine_unless_somebody_says_otherwise() -> None:
    assert str(Settings().metrics_address) == "127.0.0.1"


@pytest.mark.parametrize(
    ("name", "value"),
    [("METRICS_ADDRESS", "everywhere"), ("LOG_FORMAT", "xml"), ("TRACES_URL", "localhost:4318")],
)
def test_a_setting_that_is_none_is_refused_in_one_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"WMS2_{name}", value)
    with pytest.raises(UserError) as refused:
        configured_settings()
    assert str(refused.value).count(f"WMS2_{name}") == 1


def test_a_port_that_is_taken_is_said_in_one_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "WMS2_HOME": str(tmp_path), "WMS2_TEMPORAL_ADDRESS": "127.0.0.1:1"}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            [Path(sys.executable).with_name("wms2"), "metrics", "run", "--port", port],
            env={**environment, "WMS2_DATABASE_URL": NOWHERE}, capture_output=True, text=True,
            check=False, timeout=PATIENCE_SEC,
        )  # fmt: skip
    assert ended.returncode == 2
    assert "choose another port with --port" in " ".join(ended.stderr.split())


def test_registering_asks_nobody_anything() -> None:
    collector = SystemCollector(connect(NOWHERE), lambda: pytest.fail("it was asked"))
    assert {family.name for family in collector.describe()} == {*DATABASE, *ADMISSION}


@pytest.mark.parametrize("name", [*DATABASE, *ADMISSION, *WORKER])
def test_a_metric_is_named_as_prometheus_wants_it(name: str) -> None:
    assert re.fullmatch(r"wms2_[a-z]+(_[a-z]+)*", name)
