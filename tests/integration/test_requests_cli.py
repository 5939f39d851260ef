"""The command line of requests against real servers, in a namespace and a database of its own."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text
from temporalio.common import TypedSearchAttributes

from tests.integration.rounds import unique
from tests.integration.test_database import intent, planned
from tests.patience import PATIENCE_SEC
from wms2.cli.entrance import open_door
from wms2.cli.observer import Questioner
from wms2.config import Settings
from wms2.db.dags import record_dag_intent, record_dag_submitted
from wms2.db.ledger import record_plan
from wms2.db.requests import insert_request, record_status
from wms2.db.session import connect as connect_database
from wms2.db.session import transaction
from wms2.models.request import RequestStatus
from wms2.models.request_file import validate_request_file
from wms2.temporal.attributes import CAMPAIGN, PRIORITY, STATUS
from wms2.temporal.client import connect
from wms2.temporal.ids import request_id

EXAMPLE = Path(__file__).parents[2] / "examples/simulation.yaml"


@pytest.fixture
def file(tmp_path: Path) -> tuple[str, Path]:
    name = unique("submitted")
    path = tmp_path / "request.yaml"
    path.write_text(EXAMPLE.read_text().replace("demo_simulation", name))
    return name, path


@pytest.fixture
def worker(settings: Settings) -> Iterator["subprocess.Popen[str]"]:
    """A worker that serves the namespace, stopped as a service manager would."""
    started = subprocess.Popen(
        [Path(sys.executable).with_name("wms2"), "worker", "run", "--host", "test-host"],
        env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def attributes_of(settings: Settings, name: str) -> tuple[TypedSearchAttributes, str | None]:
    async def describe() -> tuple[TypedSearchAttributes, str | None]:
        described = await (await connect(settings)).get_workflow_handle(request_id(name)).describe()
        return described.typed_search_attributes, await described.static_summary()

    return asyncio.run(describe())


def test_a_submitted_request_is_recorded_and_its_workflow_started(
    wms2: Any, settings: Settings, file: tuple[str, Path]
) -> None:
    name, path = file
    assert wms2("request", "submit", path, "--json").json() == {"request_name": name, "status": "submitted"}
    found, summary = attributes_of(settings, name)
    assert (found[STATUS], found[CAMPAIGN], found[PRIORITY]) == ("submitted", "Demo2024", 100_000)
    assert summary == "2000 events, for demo in Demo2024"
    (listed,) = wms2("request", "list", "--json").json()
    assert (listed["request_name"], listed["status"]) == (name, "submitted")
    shown = wms2("request", "show", name, "--json").json()
    assert shown["record"]["request"]["total_events"] == 2000
    assert (shown["rounds"], shown["dags"], shown["ledger"]["events_planned"]) == ([], [], 0)
    (output,) = shown["outputs"]
    assert (output["dataset"], output["files"]) == ("/MinBias/Run2024A-Demo-v1/GEN-SIM", 0)
    assert "2000 events" in wms2("request", "show", name).stdout
    ledger = wms2("request", "show", name, "--ledger").stdout
    assert "requested" in ledger
    assert "The ledger adds up." in ledger


def test_a_name_that_is_taken_is_refused_in_one_sentence(wms2: Any, file: tuple[str, Path]) -> None:
    name, path = file
    wms2("request", "submit", path, "--hold")
    again = wms2("request", "submit", path)
    assert again.code == 2
    assert f"a request named {name} exists already" in again.stderr
    path.write_text(path.read_text().replace("2000", "3000"))
    assert wms2("request", "submit", path).code == 2


def test_a_request_that_was_recorded_and_not_started_is_started_by_submitting_it_again(
    wms2: Any, settings: Settings, file: tuple[str, Path]
) -> None:
    name, path = file
    with transaction(connect_database(settings.needed("database_url"))) as session:
        insert_request(session, validate_request_file(path))
    told = wms2("request", "stop", name)
    assert told.code == 2
    assert "is not started yet" in told.stderr
    assert wms2("request", "submit", path).code == 0
    assert attributes_of(settings, name)[0][STATUS] == "submitted"


def test_who_submits_is_told_of_a_site_that_looks_like_a_slip(
    wms2: Any, settings: Settings, file: tuple[str, Path]
) -> None:
    _, path = file
    path.write_text(path.read_text() + "site_whitelist: [T2_US_Purdue, T2_US_Perdue]\n")
    wms2("site", "enable", "T2_US_Purdue")
    assert "Note" not in wms2("request", "submit", path, "--hold").stderr, (
        "nobody knows yet which sites there are"
    )
    with transaction(connect_database(settings.needed("database_url"))) as session:
        session.execute(text("UPDATE sites SET cric_seen_at = now()"))
    path.write_text(path.read_text().replace("request_name: ", "request_name: another_"))
    told = wms2("request", "submit", path, "--hold")
    assert (told.code, told.stderr.count("Note"), "CRIC does not list T2_US_Perdue" in told.stderr) == (
        0,
        1,
        True,
    )


def test_lists_can_be_filtered(wms2: Any, file: tuple[str, Path]) -> None:
    name, path = file
    wms2("request", "submit", path, "--hold")
    assert len(wms2("request", "list", "--status", "new", "--status", "held", "--json").json()) == 1
    assert wms2("request", "list", "--status", "held", "--json").json() == []
    assert wms2("request", "list", "--campaign", "Other", "--json").json() == []
    assert name in wms2("request", "list", "--campaign", "Demo2024").stdout


def test_the_dags_of_a_request_that_was_submitted_are_left_to_its_workflow(
    wms2: Any, settings: Settings, file: tuple[str, Path], tmp_path: Path
) -> None:
    name, path = file
    folder = tmp_path / "round"
    assert wms2("request", "plan", path, "--out", folder).code == 0
    with transaction(connect_database(settings.needed("database_url"))) as session:
        insert_request(session, validate_request_file(path))
        record_status(session, name, RequestStatus.ACTIVE, 1, "wms2")
        record_plan(session, planned(0, (1, 2000), request=name))
        dag = intent(dag_id=f"{name}:0:1", request_name=name, submit_dir=str(folder))
        record_dag_intent(session, dag)
        record_dag_submitted(session, dag.dag_id, 17, "schedd")
    for words in (["dag", "stop", dag.dag_id], ["dag", "run", folder]):
        told = wms2(*words)
        assert (
            told.code,
            f"wms2 request {'stop' if 'stop' in words else 'errors'} {name}" in told.stderr,
        ) == (2, True)


@pytest.mark.parametrize(
    ("database", "said"),
    [
        ("postgres", "does not have the tables of this release; `wms2 database upgrade` makes them"),
        ("nowhere", 'the database says no: database "nowhere" does not exist; look at its server'),
    ],
)
def test_a_database_of_another_release_or_that_is_not_there_is_one_sentence(
    wms2: Any, stack: Settings, monkeypatch: pytest.MonkeyPatch, database: str, said: str
) -> None:
    elsewhere = make_url(stack.needed("database_url")).set(database=database, drivername="postgresql")
    monkeypatch.setenv("WMS2_DATABASE_URL", elsewhere.render_as_string(hide_password=False))
    for words in (["request", "list"], ["notice", "list"]):
        told = wms2(*words)
        assert (told.code, said in told.stderr) == (2, True), told.stderr


def test_a_request_that_does_not_exist_is_one_sentence(wms2: Any) -> None:
    for verb in (["show"], ["watch"], ["release"], ["abort", "--yes"]):
        told = wms2("request", *verb, "nobody")
        assert told.code == 2
        assert "there is no request named nobody" in told.stderr


def test_without_a_worker_people_are_told_to_start_one(
    wms2: Any, file: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, path = file
    wms2("request", "submit", path)
    with monkeypatch.context() as short_of_time:
        short_of_time.setattr("wms2.door.asking.ANSWER_TIMEOUT", timedelta(seconds=1))
        told = wms2("request", "hold", name)
    assert told.code == 2
    assert "no worker answers; is one running? start it with `wms2 worker run`" in told.stderr
    left = wms2("request", "stop", name, "--no-wait")
    assert left.code == 0
    assert "signal" in left.stderr


def assert_it_can_be_sized(wms2: Any, name: str) -> None:
    wrong = wms2("request", "size", name, "--memory-mb", "0", "--cores", "999")
    assert wrong.code == 2
    assert f"{name}: memory_mb is 0 and must be above 0; cores is 999" in wrong.stderr
    tried = wms2("request", "size", name, "--memory-mb", "4000", "--dry-run")
    assert (tried.code, "1000" in tried.stdout, "4000" in tried.stdout) == (0, True, True)
    assert wms2("request", "show", name, "--json").json()["sized_by_hand"] is None
    sized = wms2("request", "size", name, "--memory-mb", "4000", "--reason", "[too small]")
    assert (sized.code, "with memory_mb 4000" in sized.stderr) == (0, True)
    wms2("request", "size", name, "--events-per-job", "50", "--reason", "too long")
    shown = wms2("request", "show", name, "--json").json()["sized_by_hand"]
    assert (shown["override"]["memory_mb"], shown["override"]["events_per_job"]) == (4000, 50)
    assert shown["reason"] == "too long"
    assert "memory_mb 4000, events_per_job 50; by" in wms2("request", "show", name).stdout
    assert wms2("request", "size", name, "--clear").code == 0
    assert wms2("request", "show", name, "--json").json()["sized_by_hand"] is None


def test_a_worker_answers_refuses_what_does_not_fit_and_stops_when_told(
    wms2: Any, file: tuple[str, Path], worker: "subprocess.Popen[str]"
) -> None:
    name, path = file
    wms2("request", "submit", path, "--hold")
    refused = wms2("request", "stop", name)
    assert refused.code == 2
    assert f"{name}: the request is new; stop needs one that is" in refused.stderr
    assert_it_can_be_sized(wms2, name)
    assert wms2("request", "abort", name, "--yes", "--reason", "[a mistake]").code == 0
    ended = wms2("request", "watch", name)
    assert ended.code == 1
    assert f"{name} is aborted" in ended.stderr
    assert "that is final" in wms2("request", "release", name).stderr
    for words in (["--clear"], ["--cores", "2", "--dry-run"]):
        assert "that is final" in wms2("request", "size", name, *words).stderr
    shown = wms2("request", "show", name, "--json").json()
    assert "[a mistake]" in shown["record"]["status_reason"]
    worker.send_signal(signal.SIGTERM)
    stdout, stderr = worker.communicate(timeout=PATIENCE_SEC)
    assert (worker.returncode, stdout) == (0, ""), stderr
    assert "stopped" in stderr


def test_what_people_are_told_to_do_about_a_workflow_that_is_gone_revives_it(
    wms2: Any, settings: Settings, file: tuple[str, Path], worker: "subprocess.Popen[str]"
) -> None:
    name, path = file
    wms2("request", "submit", path, "--hold")
    assert wms2("request", "priority", name, "7").code == 0

    async def terminate() -> str:
        await (await connect(settings)).get_workflow_handle(request_id(name)).terminate()
        overview = await open_door(settings).overview(name)
        return (await Questioner(settings.home, name).ask(overview))[1]

    assert "its workflow was ended in Temporal" in asyncio.run(terminate())
    told = wms2("request", "release", name)
    assert told.code == 2
    _, command, _ = told.stderr.replace("\n", " ").split("`")
    program, *words = shlex.split(command.replace("TEXT", "'a mistake'"))
    subprocess.run([Path(sys.executable).with_name(program), *words], check=True, capture_output=True)
    assert wms2("request", "priority", name, "8").code == 0
