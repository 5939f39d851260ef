"""The command line of somebody who can reach the REST service and none of the servers."""

import json
import time
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.api_kit import ADMIN, OPERATOR, REQUESTOR
from tests.integration.conftest import Run, Through
from tests.integration.publishing import begin, dataset_of, made_request, produce
from tests.integration.test_database import intent
from tests.integration.test_metrics import FIGURES
from tests.patience import PATIENCE_SEC
from wms2.core.sizing import sizing_of
from wms2.db import dags
from wms2.db.audit import audit_trail
from wms2.db.session import transaction
from wms2.models.audit import Action
from wms2.models.dag import DagStatus, NodeCounts
from wms2.models.sizing import PredictedRound

SITE = "T2_CH_CERN"


def deeds(engine: Engine) -> list[Action]:
    """What the audit trail has, the oldest first."""
    with transaction(engine) as session:
        return [entry.action for entry in reversed(audit_trail(session))]


def until(wms2: Any, *words: str) -> Run:
    """What the command says as soon as it succeeds: a worker may only just be starting."""
    limit = time.monotonic() + PATIENCE_SEC
    while (done := wms2(*words)).code or not json.loads(done.stdout):
        assert time.monotonic() < limit, done.stderr
        time.sleep(0.2)
    told: Run = done
    return told


def test_the_word_on_a_site_goes_through_the_service(
    wms2: Any, url: str, through: Through, engine: Engine
) -> None:
    through(url, OPERATOR)
    assert f"nothing is known of {SITE}" in wms2("site", "show", SITE).stderr
    drained = wms2("site", "drain", SITE, "--days", "2", "--reason", "[downtime]")
    assert (drained.code, f"{SITE} is draining until" in drained.stderr) == (0, True)
    assert f"CRIC has never listed {SITE}" in drained.stderr
    assert f"{SITE} is maintenance" in wms2("site", "maintenance", SITE, "--days", "1").stderr
    assert f"{SITE} is disabled" in wms2("site", "disable", SITE).stderr
    assert f"{SITE} is enabled" in wms2("site", "enable", SITE).stderr
    assert "is banned for all, for 2 days" in wms2("site", "ban", SITE, "--days", "2", "--reason", "x").stderr
    unknown = wms2("site", "ban", SITE, "--request", "nobody", "--reason", "x")
    assert (unknown.code, "there is no request nobody" in unknown.stderr) == (2, True)
    shown = wms2("site", "show", SITE, "--json").json()
    assert (shown["status_now"], [ban["reason"] for ban in shown["bans"]]) == ("enabled", [said("x", shown)])
    assert "1 ban of T2_CH_CERN lifted" in wms2("site", "unban", SITE).stderr
    refused = wms2("site", "unban", SITE)
    assert (refused.code, "is not banned" in refused.stderr) == (2, True)
    told = deeds(engine)
    assert [one.action for one in told] == ["drain", "maintenance", "disable", "enable", "ban", "unban"]
    assert {one.actor.split("@")[0] for one in told} == {OPERATOR}
    assert told[0].reason == "[downtime]"


def said(reason: str, shown: dict[str, Any]) -> str:
    return f"by {shown['status_by']}: {reason}"


def test_submit_hosts_go_through_the_service(
    worker: None, wms2: Any, url: str, through: Through, engine: Engine
) -> None:
    straight = until(wms2, "host", "list", "--json").json()
    through(url, ADMIN)
    listed = wms2("host", "list", "--json").json()
    assert [host["name"] for host in listed] == [host["name"] for host in straight] == ["test-host"]
    assert "test-host is disabled" in wms2("host", "disable", "test-host", "--reason", "disks").stderr
    assert wms2("host", "list", "--json").json()[0]["unused_because"].endswith(": disks")
    enabled = wms2("host", "enable", "test-host")
    assert ("test-host is enabled" in enabled.stderr, "all the same" in enabled.stderr) == (True, False)
    assert "No worker has announced elsewhere" in wms2("host", "disable", "elsewhere").stderr
    assert "disabled when they return: elsewhere." in wms2("host", "list").stderr
    lost = wms2("host", "lost", "elsewhere", "--reason", "broken", "--yes")
    assert "elsewhere is given up; 0 requests are held." in lost.stderr
    assert wms2("host", "lost", "no host", "--yes").code == 2
    told = [one.action for one in deeds(engine)]
    assert told == ["host_disable", "host_enable", "host_disable", "host_lost"]
    through(url, OPERATOR)
    refused = wms2("host", "disable", "test-host")
    assert (refused.code, "this needs admin" in refused.stderr) == (2, True)


def test_admission_goes_through_the_service(
    worker: None, wms2: Any, url: str, through: Through, engine: Engine
) -> None:
    through(url, ADMIN)
    begun = until(wms2, "admission", "show", "--json").json()
    assert (begun["draining"], begun["slots"], begun["waiting"]) == (False, [], [])
    changed = wms2("admission", "set", "--limit", "7", "--idle-budget", "500", "--reason", "slow schedds")
    assert "0 of 7 slots are lent, 0 requests wait; 0 of 500 idle jobs are shared out." in changed.stderr
    assert "It drains" in wms2("admission", "drain").stderr
    refused = wms2("admission", "drain")
    assert (refused.code, "it drains already" in refused.stderr) == (2, True)
    assert "drains" in wms2("admission", "show").stdout
    assert "It drains" not in wms2("admission", "resume").stderr
    told = deeds(engine)
    assert [one.action for one in told] == ["admission_set", "admission_drain", "admission_resume"]
    assert (told[0].detail, told[0].reason) == ({"limit": 7, "idle_budget": 500}, "slow schedds")


def test_admission_that_does_not_run_yet_is_one_sentence_either_way(
    wms2: Any, url: str, through: Through
) -> None:
    for _ in range(2):
        told = wms2("admission", "show")
        assert (told.code, "admission does not run;" in told.stderr) == (2, True)
        through(url, ADMIN)


def test_outputs_are_shown_and_taken_back_through_the_service(
    wms2: Any, url: str, through: Through, engine: Engine
) -> None:
    begin(engine, made_request(), 2)
    produce(engine, "simulation", 0, 1)
    straight = wms2("output", "show", "simulation", "--json").json()
    assert [one["dataset"] for one in straight] == [dataset_of("simulation")]
    through(url, OPERATOR)
    assert wms2("output", "show", "simulation", "--json").json() == straight
    assert (
        "makes no dataset /A/B-c-v1/D"
        in wms2("output", "show", "simulation", "--dataset", "/A/B-c-v1/D").stderr
    )
    assert "there is no request named nobody" in wms2("output", "show", "nobody").stderr
    refused = wms2("output", "invalidate", "simulation", "--yes")
    assert (refused.code, "may still make files" in refused.stderr) == (2, True)
    with transaction(engine) as session:
        session.execute(text("UPDATE requests SET status = 'aborted'"))
    other = wms2("output", "invalidate", "simulation", "--dataset", "/A/B-c-v1/D", "--yes")
    assert (other.code, "has nothing to take back of /A/B-c-v1/D" in other.stderr) == (2, True)
    begun = wms2("output", "invalidate", "simulation", "--reason", "wrong conditions", "--yes")
    assert (begun.code, "are being taken back" in begun.stderr) == (0, True)


def test_a_request_with_a_round_that_was_measured_is_shown_as_the_database_has_it(
    wms2: Any, url: str, through: Through, engine: Engine
) -> None:
    begin(engine, made_request(), 2)
    predicted = PredictedRound(sizing=sizing_of(made_request(), None), job_sec=80)
    with transaction(engine) as session:
        session.execute(
            text("UPDATE rounds SET predicted = :predicted, measured = :measured, status = 'completed'"),
            {"predicted": predicted.model_dump_json(), "measured": FIGURES.model_dump_json()},
        )
    straight = wms2("request", "show", "simulation", "--json").json()
    assert straight["accuracy"]
    through(url, OPERATOR)
    assert wms2("request", "show", "simulation", "--json").json() == straight
    shown = wms2("output", "show", "simulation")
    assert shown.code == 0, shown.stderr


def test_a_dag_is_shown_as_it_is_recorded(wms2: Any, url: str, through: Through, engine: Engine) -> None:
    begin(engine, made_request(), 2)
    with transaction(engine) as session:
        dags.record_dag_intent(session, intent())
        dags.record_dag_submitted(session, "simulation-0-1", 17, "schedd")
        dags.record_dag_status(session, "simulation-0-1", DagStatus.PARTIAL, NodeCounts(done=1, failed=3))
    straight = wms2("dag", "show", "simulation-0-1", "--recorded", "--json").json()
    assert [event["event_type"] for event in straight["history"]] == ["intent", "submitted", "status"]
    through(url, OPERATOR)
    assert wms2("dag", "show", "simulation-0-1", "--json").json() == straight
    shown = wms2("dag", "show", "simulation-0-1")
    assert "is recorded as partial: of 4 nodes 0 idle, 0 running, 1 done, 3 failed, 0 held." in shown.stdout
    assert "cluster 17" in shown.stdout
    assert "there is no DAG with the id none" in wms2("dag", "show", "none").stderr
    logs = wms2("dag", "logs", "simulation-0-1")
    assert (logs.code, "/submit/simulation/round_00 is not on this machine" in logs.stderr) == (2, True)


@pytest.mark.parametrize("words", [("host", "list"), ("admission", "show"), ("request", "imports")])
def test_a_requestor_is_told_that_it_needs_an_operator(
    wms2: Any, url: str, through: Through, words: tuple[str, ...]
) -> None:
    through(url, REQUESTOR)
    refused = wms2(*words)
    assert (refused.code, "this needs operator" in refused.stderr) == (2, True)
