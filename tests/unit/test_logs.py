"""Logs: a line for people, or a JSON object for programs; never a secret."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from tests.patience import PATIENCE_SEC
from wms2.config import Settings
from wms2.models.messages import DagOrder, FollowOrder, StatusRecord, SubmittedDag
from wms2.temporal.ids import output_id, request_id, request_of, undo_id
from wms2.temporal.logs import JsonFormatter, PlainFormatter, subject_of

ORDER = DagOrder(request="demo", round=3, attempt=2, folder=Path("/submit/demo/round_03"))


def record(message: str, *words: object, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("wms2.somewhere", logging.WARNING, "file.py", 1, message, words, None)
    made.__dict__.update(more)
    return made


def line(made: logging.LogRecord, *secrets: str) -> dict[str, Any]:
    text = JsonFormatter(secrets).format(made)
    assert "\n" not in text
    read: dict[str, Any] = json.loads(text)
    return read


def test_a_line_of_json_says_when_how_grave_who_and_what() -> None:
    said = line(record("%s is\nlate", "demo", created=0.25))
    assert said == {
        "time": "1970-01-01T00:00:00.250+00:00",
        "level": "WARNING",
        "logger": "wms2.somewhere",
        "message": "demo is\nlate",
    }


def test_words_from_outside_make_no_line_of_their_own_and_act_on_no_terminal() -> None:
    forged = "no such file\r\n2026-01-01 00:00:00,000 INFO wms2.worker: all is well\x1b[2J\x00\u202e\u2028end"
    first, *others = PlainFormatter().format(record("DBS says %s", forged)).split("\n")
    assert first.endswith("WARNING wms2.somewhere: DBS says no such file")
    assert others
    assert all(one.startswith("  ") and one.isprintable() for one in others)
    assert line(record("DBS says %s", forged))["message"] == f"DBS says {forged}"


def test_an_activity_tells_its_request_its_name_and_its_attempt() -> None:
    said = ActivityEnvironment().run(lambda: line(record("at work")))
    assert said["activity"] == "unknown"
    assert said["attempt"] == 1
    assert said["workflow"]


async def test_also_from_a_thread_that_it_waits_for() -> None:
    async def work() -> dict[str, Any]:
        return await asyncio.to_thread(lambda: line(record("at work")))

    assert (await ActivityEnvironment().run(work))["activity"] == "unknown"


def test_a_workflow_tells_its_request() -> None:
    details = {"workflow_id": "request-demo", "run_id": "1234"}
    said = line(record("lent", temporal_workflow=details))
    assert (said["workflow"], said["run"], said["request"]) == ("request-demo", "1234", "demo")


@pytest.mark.parametrize("name", ["demo", "demo-with-dashes"])
def test_a_request_is_known_by_the_ids_of_its_workflows(name: str) -> None:
    ids = [request_id(name), output_id(name, "/A/B-v1/C"), undo_id(name, None), undo_id(name, "/A/B-v1/C")]
    assert {request_of(one) for one in ids} == {name}
    assert [request_of(one) for one in ("admission", "reqmgr2", "")] == [None, None, None]


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ([ORDER], {"request": "demo", "round": 3, "dag": "demo:3:2"}),
        (
            [
                FollowOrder(
                    dag=SubmittedDag(order=ORDER, cluster=7, intent_at="2026-01-01T00:00:00Z", found=False),
                    units_told=0,
                )
            ],
            {"request": "demo", "round": 3, "dag": "demo:3:2"},
        ),
        (
            [StatusRecord(request="demo", status="held", sequence=1, actor="wms2", reason="x")],
            {"request": "demo"},
        ),
        (["a word", 7, None], {}),
    ],
)
def test_what_an_activity_works_for_is_read_from_its_arguments(
    arguments: list[object], known: dict[str, Any]
) -> None:
    assert subject_of(arguments) == known


@pytest.mark.parametrize("formatter", [JsonFormatter, PlainFormatter])
def test_no_secret_that_an_error_quotes_is_ever_shown(
    formatter: type[JsonFormatter] | type[PlainFormatter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_DATABASE_URL", "postgresql://wms2:pass%40word@db.example/wms2")
    monkeypatch.setenv("WMS2_RUCIO_PASSWORD", 'quoted"secret')
    monkeypatch.setenv("WMS2_SMTP_PASSWORD", "smtp-secret")
    monkeypatch.setenv("WMS2_TEMPORAL_API_KEY", "temporal-secret")
    settings = Settings()
    secrets = ("pass%40word", "pass@word", 'quoted"secret', "smtp-secret", "temporal-secret")
    try:
        raise ValueError(" ".join(secrets))
    except ValueError:
        told = record("failed with %s", secrets, exc_info=sys.exc_info())
    text = formatter(settings.secrets).format(told)
    assert "ValueError" in text
    for shown in (*secrets, json.dumps(secrets[2])[1:-1]):
        assert shown not in text


def test_an_api_key_in_a_file_is_a_secret_of_the_log_and_a_file_that_is_missing_is_no_error(
    tmp_path: Path,
) -> None:
    (tmp_path / "key").write_text("key-of-temporal\n")
    (tmp_path / "noise").write_bytes(b"\xff\xfe")
    assert Settings(temporal_api_key_file=tmp_path / "key").secrets == {"key-of-temporal"}
    for other in ("noise", "missing"):
        assert Settings(temporal_api_key_file=tmp_path / other).secrets == frozenset()


def test_every_setting_that_is_not_shown_is_a_secret_of_the_log() -> None:
    hidden = [name for name, field in Settings.model_fields.items() if not field.repr]
    assert {"database_url", "rucio_password", "smtp_password"} <= set(hidden)
    settings = Settings.model_construct(**dict.fromkeys(hidden, "a-secret"))
    assert settings.secrets == {"a-secret"}


def test_a_worker_logs_json_from_its_first_line_when_it_is_asked_to(tmp_path: Path) -> None:
    environment = {**os.environ, "WMS2_HOME": str(tmp_path), "WMS2_TEMPORAL_ADDRESS": "127.0.0.1:1"}
    command = [Path(sys.executable).with_name("wms2"), "worker", "run", "--log-format", "json"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        said = json.loads(worker.stderr.readline())
        worker.terminate()
        assert worker.wait(PATIENCE_SEC) == 0
    assert said["level"] == "WARNING"
    assert said["logger"] == "wms2.worker"
    assert "Temporal does not answer" in said["message"]
