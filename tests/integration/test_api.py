"""The REST service on real servers: what it shows, what it does, and who it says did it."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from sqlalchemy import Engine
from temporalio.client import Client as TemporalClient

from tests.api_kit import ADMIN, OPERATOR, REQUESTOR, USER, Issuer
from tests.factories import simulation
from tests.integration.conftest import ApiClient as Client
from tests.integration.publishing import begin, dataset_of, made_request
from tests.integration.rounds import unique
from tests.integration.test_database import intent
from tests.patience import PATIENCE_SEC
from wms2.config import Settings
from wms2.db import dags
from wms2.db.requests import insert_request
from wms2.db.session import transaction
from wms2.db.tables import OutputDatasetRow
from wms2.db.workflows import workflow_of
from wms2.door.direct import DirectDoor
from wms2.errors import Silent
from wms2.models.dag import DagStatus, NodeCounts
from wms2.models.output import OutputStatus

EXAMPLE = Path(__file__).parents[2] / "examples/simulation.yaml"


def example(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    return document | {"request_name": unique("api"), **changes}


def submitted(client: httpx.Client, *, hold: bool = False, **changes: Any) -> dict[str, Any]:
    body = {"source": "document", "request": example(**changes), "hold": hold}
    answer = client.post("/requests", json=body)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


def until(client: httpx.Client, name: str, status: str) -> dict[str, Any]:
    limit = time.monotonic() + PATIENCE_SEC
    while True:
        record: dict[str, Any] = client.get(f"/requests/{name}").json()["record"]
        if record["status"] == status:
            return record
        assert time.monotonic() < limit, record["status"]
        time.sleep(0.1)


def announced_hosts(client: httpx.Client) -> list[dict[str, Any]]:
    """The hosts, once one has announced itself."""
    limit = time.monotonic() + PATIENCE_SEC
    while not (hosts := client.get("/hosts").json()):
        assert time.monotonic() < limit
        time.sleep(0.1)
    listed: list[dict[str, Any]] = hosts
    return listed


def test_a_request_is_submitted_listed_and_shown_in_the_shapes_of_the_specification(by: Client) -> None:
    mine = by(REQUESTOR)
    told = submitted(mine, hold=True)
    name = told["request_name"]
    assert (told["status"], told["workflow"]["status"], told["requests"]) == ("new", "new", [name])
    page = mine.get("/requests").json()
    assert ([one["request_name"] for one in page["requests"]], page["total"], page["next"]) == (
        [name],
        1,
        None,
    )
    assert mine.get(f"/requests/{name}").json()["record"]["request"]["total_events"] == 2000
    status = mine.get(f"/workflows/{told['workflow']['id']}/status").json()
    assert status == {
        "workflow_id": told["workflow"]["id"], "request_name": name, "status": "new", "pilot_metrics": None,
        "dag": None, "progress_percent": 0.0, "estimated_completion": None,
        "outputs": [
            {
                "dataset_name": "/MinBias/Run2024A-Demo-v1/GEN-SIM", "status": "pending",
                "transfers_complete": False,
            }
        ],
    }  # fmt: skip
    versions = mine.get(f"/requests/{name}/versions").json()
    assert versions == {
        "current": {
            "request_name": name, "processing_version": 1, "status": "new",
            "cleanup_policy": "keep_until_replaced",
        },
        "versions": [],
    }  # fmt: skip
    assert by(OPERATOR).get("/audit", params={"request": name, "offset": 1}).json() == []
    for part in ("ledger", "errors", "why", "pending", "outputs"):
        assert mine.get(f"/requests/{name}/{part}").status_code == 200
    (entry,) = by(OPERATOR).get("/audit", params={"request": name}).json()
    assert (entry["action"]["action"], entry["action"]["actor"].split("@")[0]) == ("submit", REQUESTOR)


def test_a_submission_with_mistakes_names_all_of_them_and_one_that_is_repeated_is_taken_once(
    by: Client,
) -> None:
    mine = by(REQUESTOR)
    wrong = {"source": "document", "request": example(priority=-1, colour="red")}
    answer = mine.post("/requests", json=wrong)
    assert answer.status_code == 422
    assert {"priority", "colour"} <= {one["field"] for one in answer.json()["mistakes"]}
    for order, field in (
        ({"source": "elsewhere"}, "body"),
        ({"source": "document"}, "body.document.request"),
    ):
        answer = mine.post("/requests", json=order)
        assert (answer.status_code, [one["field"] for one in answer.json()["mistakes"]]) == (422, [field])
    body = {"source": "document", "request": example()}
    first, again = (mine.post("/requests", json=body, headers={"Idempotency-Key": "k1"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    for other in ({"hold": True}, {"request": body["request"] | {"priority": 7}}):
        answer = mine.post("/requests", json=body | other, headers={"Idempotency-Key": "k1"})
        assert (answer.status_code, "used for something else" in answer.json()["detail"]) == (409, True)
    answer = mine.post("/requests", json=body)
    assert (answer.status_code, "exists already" in answer.json()["detail"]) == (409, True)


def test_a_requestor_sees_and_submits_in_their_own_name_only(by: Client) -> None:
    mine, operator = by(REQUESTOR), by(OPERATOR)
    theirs = submitted(operator, hold=True, requestor="somebody")
    name, workflow = theirs["request_name"], theirs["workflow"]["id"]
    own = submitted(mine, hold=True)["request_name"]
    assert mine.get("/requests", params={"requestor": "somebody"}).json()["requests"] == []
    listed = mine.get("/requests", params={"requestor": USER}).json()["requests"]
    assert [one["request_name"] for one in listed] == [own]
    for path in (
        f"requests/{name}",
        f"requests/{name}/why",
        f"workflows/{workflow}",
        f"requests/{name}/outputs",
    ):
        answer = mine.get(path)
        assert (answer.status_code, "somebody else's" in answer.json()["detail"]) == (403, True)
    assert mine.delete(f"/requests/{name}").status_code == 403
    assert mine.post(f"/requests/{name}/abort").status_code == 403
    assert [one["request_name"] for one in mine.get("/workflows").json()["workflows"]] == [own]
    answer = mine.post("/requests", json={"source": "document", "request": example(requestor="somebody")})
    assert (answer.status_code, "their own name" in answer.json()["detail"]) == (403, True)
    for spoofed in ({"requestor_dn": "/DC=ch/CN=Somebody"}, {"previous_version_request": name}):
        document = {"source": "document", "request": example(**spoofed)}
        assert mine.post("/requests", json=document).status_code == 403
    answer = mine.post("/requests", json={"request_name": "any_request"})
    assert (answer.status_code, "by operators" in answer.json()["detail"]) == (403, True)
    assert operator.get("/requests", params={"requestor": "somebody"}).json()["total"] == 1


def test_what_people_ask_is_done_by_the_request_and_told_of_them(worker: None, by: Client) -> None:
    mine, operator = by(REQUESTOR), by(OPERATOR)
    name = submitted(mine, hold=True)["request_name"]
    answer = operator.post(f"/requests/{name}/stop", json={"reason": "maintenance"})
    assert (answer.status_code, "the request is new" in answer.json()["detail"]) == (409, True)
    for policy, status in (("grace_period", 409), ("burn_it", 422)):
        answer = operator.post(f"/requests/{name}/restart", json={"cleanup_policy": policy})
        assert (answer.status_code, "restart needs one that is" in answer.text) == (status, status == 409)
    answer = operator.patch(f"/requests/{name}", json={"priority": 7, "reason": "not urgent"})
    assert (answer.status_code, answer.json()["action"]) == (202, "priority")
    sized = operator.post(f"/requests/{name}/size", json={"change": {"memory_mb": 4000}})
    assert sized.status_code == 202, sized.text
    refused = operator.post(f"/requests/{name}/size", json={"change": {"cores": 999}})
    assert (refused.status_code, "cores is 999" in refused.json()["detail"]) == (422, True)
    rule = {"name": "licence", "category": "transient", "exit_codes": [123]}
    assert operator.post(f"/requests/{name}/judge", json={"rule": rule}).status_code == 202
    assert operator.post(f"/requests/{name}/drop", json={"events_left": True}).status_code == 409
    asked = mine.post(f"/requests/{name}/abort", json={"reason": "a mistake"})
    assert asked.status_code == 202
    assert (asked.json()["previous_status"], asked.json()["reason"]) == ("new", "a mistake")
    until(mine, name, "aborted")
    assert operator.delete(f"/requests/{name}").status_code == 409
    told = {one["action"]["action"]: one["action"] for one in operator.get("/audit").json()}
    assert told["priority"]["actor"].startswith(f"{OPERATOR}@")
    assert (told["abort"]["actor"].split("@")[0], told["abort"]["reason"]) == (REQUESTOR, "a mistake")
    assert told["abort"]["action_id"] == asked.json()["action_id"]


def test_a_key_names_one_action_of_one_caller(worker: None, by: Client) -> None:
    operator, admin = by(OPERATOR), by(ADMIN)
    name = submitted(operator, hold=True)["request_name"]
    headers = {"Idempotency-Key": "k"}
    ids = [
        client.post(f"/requests/{name}/priority", json={"priority": number}, headers=headers).json()[
            "action_id"
        ]
        for client, number in ((operator, 5), (operator, 5), (operator, 4), (admin, 6))
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    trail = operator.get("/audit", params={"request": name}).json()
    assert [one["action"]["action"] for one in trail] == ["priority"] * 3 + ["submit"]
    assert operator.get(f"/requests/{name}").json()["record"]["priority"] == 6


def test_admission_is_shown_and_changed_by_admins(worker: None, by: Client) -> None:
    operator, admin = by(OPERATOR), by(ADMIN)
    order = {"max_active_dags": 7, "reason": "downtime"}
    limit = time.monotonic() + PATIENCE_SEC
    while (changed := admin.patch("/admission/config", json=order)).status_code == 409:
        assert "does not run yet" in changed.json()["detail"]
        assert time.monotonic() < limit
    assert (changed.status_code, changed.json()["max_active_dags"]) == (200, 7)
    assert admin.patch("/admission/config", json={"idle_budget": 5000}).json()["max_active_dags"] == 7
    assert admin.patch("/admission/config", json={"reason": "nothing"}).status_code == 422
    assert admin.post("/admission/drain", json={"reason": "upgrade"}).json()["draining"] is True
    name = submitted(operator)["request_name"]
    until(operator, name, "queued")
    limit = time.monotonic() + PATIENCE_SEC
    while not (queue := operator.get("/admission/queue").json())["waiting"]:
        assert time.monotonic() < limit
    assert (queue["active_dags"], queue["max_active_dags"], queue["queued_workflows"]) == (0, 7, 1)
    assert (queue["next_in_queue"]["request_name"], queue["next_in_queue"]["priority"]) == (name, 100_000)
    assert queue["next_in_queue"]["queued_since"]
    lifecycle = operator.get("/lifecycle/status").json()
    assert (lifecycle["healthy"], lifecycle["statuses"]["queued"]["requests"]) == (True, 1)
    assert operator.get("/status").json()["requests"] == {"queued": 1}
    again = admin.patch("/admission/config", json={"max_active_dags": 300, "idle_budget": 1_000_000})
    assert again.json()["idle_budget"] == 1_000_000
    assert operator.get("/admission/config").json()["draining"] is True
    told = operator.get("/metrics").text
    assert 'wms2_requests{status="queued"} 1.0' in told
    assert "wms2_admission_queue_depth 1.0" in told
    assert operator.delete(f"/requests/{name}").status_code == 202
    until(operator, name, "aborted")
    assert admin.post("/admission/resume").json()["draining"] is False
    done = {one["action"]["action"]: one["action"]["reason"] for one in operator.get("/audit").json()}
    assert (done["admission_drain"], done["admission_resume"]) == ("upgrade", "")


def test_hosts_are_shown_disabled_enabled_and_given_up_by_admins(worker: None, by: Client) -> None:
    operator, admin = by(OPERATOR), by(ADMIN)
    assert [(host["name"], host["unused_because"]) for host in announced_hosts(operator)] == [
        ("test-host", None)
    ]
    disabled = admin.post("/hosts/test-host/disable", json={"reason": "new disks"}).json()
    assert disabled["known"]["unused_because"].endswith("new disks")
    enabled = admin.post("/hosts/test-host/enable").json()
    assert (enabled["disabled"], enabled["known"]["unused_because"]) == (False, None)
    assert admin.post("/hosts/elsewhere/disable").json()["known"] is None
    gone = admin.post("/hosts/elsewhere/lost", json={"reason": "broken"})
    assert (gone.status_code, gone.json()["held"]) == (202, [])
    done = [one["action"]["action"] for one in operator.get("/audit").json()]
    assert done[:4] == ["host_lost", "host_disable", "host_enable", "host_disable"]


def test_sites_are_drained_enabled_banned_and_unbanned(by: Client) -> None:
    operator, site = by(OPERATOR), "/sites/T2_CH_CERN"
    assert operator.get(site).status_code == 404
    drained = operator.post(f"{site}/drain", json={"days": 2, "reason": "downtime"}).json()
    assert (drained["status_now"], drained["status_reason"]) == ("draining", "downtime")
    assert drained["closed_because"]
    assert [one["name"] for one in operator.get("/sites", params={"closed": True}).json()] == ["T2_CH_CERN"]
    assert operator.post(f"{site}/enable").json()["status_now"] == "enabled"
    assert operator.patch(site, json={"status": "disabled"}).json()["status_now"] == "disabled"
    headers = {"Idempotency-Key": "b"}
    for _ in range(2):
        banned = operator.post(f"{site}/ban", json={"days": 1, "reason": "storage"}, headers=headers)
        assert (banned.status_code, len(banned.json()["bans"])) == (201, 1)
    assert len(operator.get("/bans").json()) == 1
    assert operator.post(f"{site}/ban", json={"request": "no_such_request"}).status_code == 404
    assert operator.delete(f"{site}/ban").json() == {"site": "T2_CH_CERN", "lifted": 1}
    assert operator.delete(f"{site}/ban").status_code == 409
    assert operator.post(f"{site}/drain", json={"until": "2020-01-01T00:00:00Z"}).status_code == 422
    assert operator.post(f"{site}/drain", json={"until": "9999-01-01T00:00:00Z"}).status_code == 422


def test_dags_are_shown_and_what_is_asked_of_them_is_asked_of_their_request(
    by: Client, engine: Engine
) -> None:
    begin(engine, made_request(), 2)
    with transaction(engine) as session:
        for attempt in (1, 2):
            dags.record_dag_intent(session, intent(attempt))
            dags.record_dag_submitted(session, f"simulation-0-{attempt}", 10 + attempt, "schedd")
        dags.record_dag_status(session, "simulation-0-1", DagStatus.PARTIAL, NodeCounts(done=1, failed=3))
    operator = by(OPERATOR)
    assert [one["intent"]["attempt"] for one in operator.get("/dags").json()["dags"]] == [2, 1]
    (partial,) = operator.get("/dags", params={"status": "partial", "request": "simulation"}).json()["dags"]
    shown = operator.get(f"/dags/{partial['id']}").json()
    assert shown["dag"]["nodes"] == {"idle": 0, "running": 0, "done": 1, "failed": 3, "held": 0}
    assert [event["event_type"] for event in shown["history"]] == ["intent", "submitted", "status"]
    logs = operator.get("/dags/simulation-0-1/logs").json()
    assert logs["dagman_log"] == "/submit/simulation/round_00/workflow.dag.dagman.out"
    answer = operator.get("/dags/simulation-0-2/nodes")
    assert (answer.status_code, "cannot be read from here" in answer.json()["detail"]) == (409, True)
    for verb in ("hold", "remove", "rescue", "release"):
        answer = operator.post(f"/dags/simulation-0-1/{verb}")
        assert (answer.status_code, "followed by simulation-0-2" in answer.json()["detail"]) == (409, True)
        answer = operator.post(f"/dags/simulation-0-2/{verb}")
        assert (answer.status_code, "is not started yet" in answer.json()["detail"]) == (409, True)
    assert operator.get("/dags/none").status_code == 404


def test_metrics_tell_how_long_answers_took_by_route(by: Client) -> None:
    mine = by(REQUESTOR)
    mine.get("/requests")
    assert mine.get("/metrics").status_code == 403, "it names the requests of others"
    told = by(OPERATOR).get("/metrics")
    assert told.headers["content-type"].startswith("text/plain")
    line = 'wms2_api_request_seconds_count{method="GET",route="/requests",status="200"}'
    assert line in told.text


def test_listings_come_in_pages(by: Client, engine: Engine) -> None:
    with transaction(engine) as session:
        for number in range(5):
            insert_request(session, made_request(f"simulation_{number}"))
    operator, found, offset = by(OPERATOR), [], 0
    while offset is not None:
        page = operator.get("/requests", params={"limit": 2, "offset": offset}).json()
        found += [one["request_name"] for one in page["requests"]]
        assert (len(page["requests"]) <= 2, page["total"]) == (True, 5)
        offset = page["next"]
    assert found == [f"simulation_{number}" for number in range(5)]


async def test_a_listing_straight_from_the_database_leaves_nobody_out(engine: Engine) -> None:
    async def nobody() -> TemporalClient:
        raise Silent("Temporal is not asked")

    with transaction(engine) as session:
        for number in range(1001):
            insert_request(session, simulation(request_name=f"listed{number}"))
    assert len(await DirectDoor(engine, nobody, Settings()).list_requests()) == 1001


def test_the_command_line_goes_through_the_service(
    worker: None, wms2: Any, url: str, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, name = tmp_path / "token", unique("cli")
    token.write_text(issuer.token(OPERATOR))
    file = tmp_path / "request.yaml"
    file.write_text(EXAMPLE.read_text().replace("demo_simulation", name))
    monkeypatch.setenv("WMS2_API_URL", url)
    monkeypatch.setenv("WMS2_TOKEN_FILE", str(token))
    # Neither server can be reached from here.
    monkeypatch.setenv("WMS2_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    monkeypatch.setenv("WMS2_TEMPORAL_ADDRESS", "127.0.0.1:9")
    assert wms2("request", "submit", file, "--hold", "--json").json()["status"] == "new"
    assert "exists already" in wms2("request", "submit", file).stderr
    assert [one["request_name"] for one in wms2("request", "list", "--json").json()] == [name]
    assert wms2("request", "list", "--status", "held", "--json").json() == []
    assert "2000 events" in wms2("request", "show", name).stdout
    assert "The ledger adds up." in wms2("request", "show", name, "--ledger").stdout
    assert "No failure is recorded." in wms2("request", "errors", name).stdout
    assert wms2("request", "pending", name, "--json").json()["pending"] == []
    refused = wms2("request", "stop", name)
    assert (refused.code, "the request is new; stop needs one that is" in refused.stderr) == (2, True)
    assert wms2("request", "priority", name, "5", "--reason", "later").code == 0
    assert wms2("request", "size", name, "--memory-mb", "4000").code == 0
    assert (
        wms2(
            "request", "judge", name, "--name", "licence", "--category", "transient", "--exit-code", "9"
        ).code
        == 0
    )
    answer = wms2("request", "restart", name, "--yes", "--cleanup-policy", "grace_period")
    assert (answer.code, "the request is new; restart needs one that is" in answer.stderr) == (2, True)
    assert wms2("request", "abort", name, "--yes", "--reason", "[a mistake]").code == 0
    watched = wms2("request", "watch", name)
    assert (watched.code, f"{name} is aborted" in watched.stderr) == (1, True)
    assert "there is no request named nobody" in wms2("request", "show", "nobody").stderr
    story = wms2("request", "why", name, "--json").json()
    assert {one["actor"].split("@")[0] for one in story if one["kind"] == "action"} == {OPERATOR}
    token.write_text("nothing")
    answer = wms2("request", "list")
    assert (answer.code, "WMS2_TOKEN_FILE" in answer.stderr) == (2, True)


def test_listings_through_the_service_are_those_of_the_servers(
    by: Client,
    wms2: Any,
    engine: Engine,
    url: str,
    issuer: Issuer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin(engine, made_request(), 2)
    with transaction(engine) as session:
        dags.record_dag_intent(session, intent())
        workflow = workflow_of(session, "simulation").id
        session.add(
            OutputDatasetRow(
                workflow_id=workflow, dataset_name=dataset_of("simulation"), status=OutputStatus.PENDING
            )
        )
    by(OPERATOR).post("/sites/T2_CH_CERN/drain", json={"days": 2}).raise_for_status()
    by(OPERATOR).post("/sites/T2_CH_CERN/ban", json={"request": "simulation"}).raise_for_status()
    listings = [
        ("site", "list", "--closed"),
        ("site", "bans", "--all"),
        ("dag", "list", "--request", "simulation"),
        ("output", "list", "--request", "simulation", "--status", "pending"),
    ]
    told = [wms2(*words, "--json").json() for words in listings]
    assert all(len(listed) == 1 for listed in told)
    nobodys = [("dag", "list", "--request", "a/b"), ("request", "list", "--campaign", "x y")]
    assert all(wms2(*words, "--json").json() == [] for words in nobodys)
    token = tmp_path / "token"
    token.write_text(issuer.token(OPERATOR))
    monkeypatch.setenv("WMS2_API_URL", url)
    monkeypatch.setenv("WMS2_TOKEN_FILE", str(token))
    monkeypatch.setenv("WMS2_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    assert [wms2(*words, "--json").json() for words in listings] == told
    assert all(wms2(*words, "--json").json() == [] for words in nobodys)


def test_a_silent_service_is_one_sentence(wms2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_API_URL", "http://127.0.0.1:9")
    answer = wms2("request", "list")
    assert (
        answer.code,
        "The REST service at http://127.0.0.1:9/api/v1 does not answer" in answer.stderr,
    ) == (2, True)


def test_an_example_request_is_the_users_own() -> None:
    assert example()["requestor"] == USER
