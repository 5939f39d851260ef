"""The stand-in for Rucio: held against what a real Rucio answers, and what daemons and operators do to it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import stand_in
from tests.rucio_calls import (
    BLOCK,
    CERN,
    DATASET,
    DESY,
    DISK,
    LFNS,
    TAPE,
    did,
    differences,
    file,
    log_in,
    path_of,
    rule,
)
from tests.stand_in import services
from wms2.local.rucio import ACCOUNT, PASSWORD, USER
from wms2.local.rules import ROOT
from wms2.local.services import Answers
from wms2.local.sites import SITES, write_sites


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_sites(tmp_path, SITES)
    return tmp_path


@pytest.fixture
def rucio(home: Path) -> Iterator[httpx.Client]:
    with services(home) as url, httpx.Client(base_url=f"{url}/rucio/", trust_env=False) as client:
        log_in(client, ACCOUNT, USER, PASSWORD)
        yield client


def control(rucio: httpx.Client, method: str, path: str, body: Any = None) -> None:
    stand_in.control(str(rucio.base_url).removesuffix("/rucio/"), method, f"rucio/{path}", body)


def filled(rucio: httpx.Client, lfns: list[str], block: str = BLOCK) -> None:
    rucio.post(path_of(DATASET), json={"type": "CONTAINER"})
    rucio.post(path_of(block), json={"type": "DATASET"})
    rucio.post(path_of(DATASET, "/dids"), json={"dids": [did(block)]})
    more(rucio, lfns, block)


def more(rucio: httpx.Client, lfns: list[str], block: str = BLOCK) -> None:
    files = [file(lfn) for lfn in lfns]
    assert rucio.post("replicas", json={"rse": DISK, "files": files}).status_code == 201
    assert rucio.post(path_of(block, "/dids"), json={"dids": files}).status_code == 201


def ruled(rucio: httpx.Client, name: str, expression: str, **other: Any) -> str:
    answer = rucio.post("rules/", json={**rule(name, expression, **other), "account": ACCOUNT})
    assert answer.status_code == 201
    return str(answer.json()[0])


def seen(rucio: httpx.Client, rule_id: str) -> tuple[str, int, int, int]:
    told = rucio.get(f"rules/{rule_id}").json()
    return told["state"], told["locks_ok_cnt"], told["locks_replicating_cnt"], told["locks_stuck_cnt"]


def test_it_answers_each_call_as_a_real_rucio_does(rucio: httpx.Client) -> None:
    assert differences(rucio, ACCOUNT) == []


def test_a_file_that_comes_late_is_locked_when_the_daemons_have_run(rucio: httpx.Client) -> None:
    filled(rucio, LFNS[:2])
    here = ruled(rucio, BLOCK, DISK)
    above = ruled(rucio, DATASET, DISK)
    more(rucio, LFNS[2:3])
    assert seen(rucio, here) == ("OK", 2, 0, 0)

    control(rucio, "POST", "daemons")

    assert seen(rucio, here) == seen(rucio, above) == ("OK", 3, 0, 0)


def test_transfers_end_when_they_are_told_to_and_fail_when_they_are_told_to(rucio: httpx.Client) -> None:
    filled(rucio, LFNS[:2])
    far, tape = ruled(rucio, BLOCK, DESY), ruled(rucio, BLOCK, TAPE)

    control(rucio, "POST", f"rules/{far}/finish")
    control(rucio, "POST", f"rules/{tape}/stick", {"error": "tape is full"})

    assert seen(rucio, far) == ("OK", 2, 0, 0)
    assert seen(rucio, tape) == ("STUCK", 0, 0, 2)
    assert rucio.get(f"rules/{tape}").json()["error"] == "tape is full"
    control(rucio, "POST", f"rules/{tape}/finish")
    assert seen(rucio, tape) == ("OK", 2, 0, 0)
    listed = rucio.post("replicas/list", json={"dids": [did(BLOCK)], "all_states": True})
    (first, _) = [json.loads(line) for line in listed.text.splitlines()]
    assert first["states"] == dict.fromkeys((DISK, DESY, TAPE), "AVAILABLE")


def test_the_daemons_end_all_transfers_but_those_that_are_stuck(rucio: httpx.Client) -> None:
    filled(rucio, LFNS[:2])
    far, tape = ruled(rucio, BLOCK, DESY), ruled(rucio, BLOCK, TAPE)
    control(rucio, "POST", f"rules/{tape}/stick")

    control(rucio, "POST", "daemons")

    assert (seen(rucio, far), seen(rucio, tape)) == (("OK", 2, 0, 0), ("STUCK", 0, 0, 2))


def test_a_subscription_makes_the_rules_of_new_datasets_that_it_is_for(rucio: httpx.Client) -> None:
    wanted = {
        "filter": {"scope": ["cms"], "pattern": "/Prim/.*"},
        "replication_rules": [{"copies": 1, "rse_expression": TAPE}],
    }
    control(rucio, "POST", "subscriptions/tape", wanted)
    filled(rucio, LFNS[:1])
    filled(rucio, LFNS[1:2], "/Other/Era-proc-v1/GEN-SIM#1")

    control(rucio, "POST", "daemons")
    control(rucio, "POST", "daemons")

    (row,) = [json.loads(line) for line in rucio.get(path_of(BLOCK, "/rules")).text.splitlines()]
    assert (row["account"], row["rse_expression"], row["state"]) == ("transfer_ops", TAPE, "OK")
    assert rucio.get(path_of("/Other/Era-proc-v1/GEN-SIM#1", "/rules")).text == ""
    (subscription,) = [json.loads(line) for line in rucio.get("subscriptions/").text.splitlines()]
    assert json.loads(subscription["filter"])["pattern"] == "/Prim/.*"
    assert subscription["id"] == row["subscription_id"]


def test_a_rule_of_somebody_else_cannot_be_made_or_deleted(rucio: httpx.Client) -> None:
    wanted = {"filter": {}, "replication_rules": [{"copies": 1, "rse_expression": TAPE}]}
    control(rucio, "POST", "subscriptions/all", wanted)
    filled(rucio, LFNS[:1])
    control(rucio, "POST", "daemons")
    (row,) = [json.loads(line) for line in rucio.get(path_of(BLOCK, "/rules")).text.splitlines()]

    deleted = rucio.request("DELETE", f"rules/{row['id']}", json={})
    made = rucio.post("rules/", json={**rule(BLOCK, DISK), "account": "transfer_ops"})

    assert (deleted.status_code, deleted.headers["ExceptionClass"]) == (401, "AccessDenied")
    assert (made.status_code, made.headers["ExceptionClass"]) == (500, "AccessDenied")
    log_in(rucio, ROOT, USER, PASSWORD)
    assert rucio.request("DELETE", f"rules/{row['id']}", json={}).status_code == 200


def test_an_account_without_quota_gets_no_rule(rucio: httpx.Client) -> None:
    filled(rucio, LFNS[:1])
    rucio.post(f"accounts/{ACCOUNT}/limits/local/{CERN}", json={"bytes": 10})

    refused = rucio.post("rules/", json={**rule(BLOCK, CERN), "account": ACCOUNT})

    assert (refused.status_code, refused.headers["ExceptionClass"]) == (409, "InsufficientAccountLimit")
    assert rucio.get(f"accounts/{ACCOUNT}/limits/local/{CERN}").json() == {CERN: 10}


def test_a_deleted_rule_goes_with_its_locks_when_its_hour_is_over(home: Path) -> None:
    times = [1_000_000.0]
    answers = Answers(home, clock=lambda: times[0])
    holdings, rules = answers.catalogue.holdings, answers.catalogue.rules
    holdings.add_did("cms", BLOCK, "DATASET", ACCOUNT)
    (rule_id,) = rules.add({**rule(BLOCK, DISK), "account": ACCOUNT}, ACCOUNT)
    rules.delete(rule_id, ACCOUNT)

    times[0] += 3599
    rules.run_daemons()
    assert rule_id in rules.rules
    times[0] += 2
    rules.run_daemons()

    assert rules.rules == {} == {key: value for key, value in rules.of_did.items() if value}


def test_tokens_expire_when_they_are_told_to_and_those_of_others_can_be_taken(rucio: httpx.Client) -> None:
    assert rucio.get("rses/").status_code == 200
    control(rucio, "DELETE", "tokens")
    assert rucio.get("rses/").status_code == 401
    control(rucio, "PUT", "tokens", {"token": "of-an-identity-provider"})
    assert rucio.get("rses/", headers={"X-Rucio-Auth-Token": "of-an-identity-provider"}).status_code == 200


def test_what_rucio_was_told_outlives_the_service(home: Path) -> None:
    with services(home) as url, httpx.Client(base_url=f"{url}/rucio/", trust_env=False) as client:
        log_in(client, ACCOUNT, USER, PASSWORD)
        filled(client, LFNS[:2])
        far = ruled(client, BLOCK, DESY)
        client.put("replicas", json={"rse": DESY, "files": [{**did(LFNS[0]), "state": "A"}]})
        client.put(path_of(BLOCK, "/status"), json={"open": False})
        before = (seen(client, far), client.get(path_of(BLOCK)).json())
    with services(home) as url, httpx.Client(base_url=f"{url}/rucio/", trust_env=False) as client:
        log_in(client, ACCOUNT, USER, PASSWORD)
        assert (seen(client, far), client.get(path_of(BLOCK)).json()) == before
        assert before[0] == ("REPLICATING", 1, 1, 0)


def test_on_the_stack_the_daemons_run_by_themselves(home: Path) -> None:
    times = [1_000_000.0]
    answers = Answers(home, daemons_sec=1, clock=lambda: times[0])
    holdings, rules = answers.catalogue.holdings, answers.catalogue.rules
    holdings.add_did("cms", BLOCK, "DATASET", ACCOUNT)
    holdings.add_replicas(DISK, [file(LFNS[0])], ACCOUNT)
    holdings.attach("cms", BLOCK, [file(LFNS[0])])
    (far,) = rules.add({**rule(BLOCK, DESY), "account": ACCOUNT}, ACCOUNT)

    answers.rucio.tend()
    assert rules.rules[far].state == "REPLICATING"
    times[0] += 1
    answers.rucio.tend()

    assert rules.rules[far].state == "OK"
