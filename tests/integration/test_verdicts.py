"""Verdicts of people on failures that no rule knows, on a real pool: from `pending` to a request that completes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import Engine

from tests.e2e.documents import PILOT_JOB, simulation
from tests.factories import simulation as simulation_request
from tests.integration.rounds import unique
from tests.patience import PATIENCE_SEC
from wms2.config import Settings
from wms2.dagman.posts import attempt_clusters
from wms2.db import requests, versions
from wms2.db.audit import record_action
from wms2.db.session import connect as connect_database
from wms2.db.session import transaction
from wms2.db.verdicts import judged_request, verdicts_of
from wms2.models.audit import Action

UNKNOWN = 123
VERDICT = ("--name", "licence", "--category", "transient", "--exit-code", str(UNKNOWN))


@pytest.fixture
def worker(settings: Settings, tmp_path: Path) -> Iterator[None]:
    """A worker of this test's namespace and database, on the pool of all."""
    with (tmp_path / "worker.log").open("wb") as log:
        started = subprocess.Popen(
            [Path(sys.executable).with_name("wms2"), "worker", "run", "--host", "verdict-host"],
            env=dict(os.environ), stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield
        finally:
            started.kill()
            started.wait()


def until(reached: Callable[[], bool], told: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_SEC
    while not reached():
        assert time.monotonic() < deadline, told()
        time.sleep(0.3)


def rules(folder: Path) -> list[str]:
    policy = json.loads((folder / "policy.json").read_text())
    return [rule["name"] for rule in policy["rules"] if rule.get("of_request")]


@pytest.mark.pool
def test_one_verdict_lets_all_that_wait_for_it_try_again_and_is_a_rule_of_every_later_round(
    wms2: Any, settings: Settings, worker: None, tmp_path: Path
) -> None:
    name = unique("judged")
    # It fails before the verdict, once more after it, and then never again.
    fault = {"node": PILOT_JOB, "exit_code": UNKNOWN, "message": "no licence left", "times": 2}
    document = simulation(name, settings.home, fault, events=40) | {"on_unclassified": "wait"}
    file = tmp_path / "request.yaml"
    file.write_text(yaml.safe_dump(document))
    assert wms2("request", "submit", file).code == 0

    def shown() -> dict[str, Any]:
        return dict(wms2("request", "show", name, "--json").json()["record"])

    def becomes(status: str) -> None:
        until(
            lambda: shown()["status"] == status,
            lambda: str(shown()) + (tmp_path / "worker.log").read_text()[-3000:],
        )

    becomes("held")
    assert "1 of them wait for a verdict" in shown()["status_reason"]
    (pending,) = wms2("request", "pending", name, "--json").json()["pending"]
    assert (pending["node"], pending["exit_code"], pending["attempts"]) == (PILOT_JOB, UNKNOWN, 1)
    listed = wms2("request", "pending", name).stdout
    assert "Exit code 123: 1 nodes" in listed
    assert "failed with 123" in listed, "the end of its log"

    judged = wms2("request", "judge", name, *VERDICT, "--reason", "the server was full")
    assert "licence is a rule" in judged.stderr
    becomes("completed")

    rounds = settings.home / "submit" / name
    assert [rules(rounds / f"round_{number:02d}") for number in (0, 1)] == [["licence"], ["licence"]]
    dags = [dag["intent"]["dag_id"] for dag in wms2("request", "show", name, "--json").json()["dags"]]
    assert sorted(dags) == [f"{name}:0:1", f"{name}:0:2", f"{name}:1:1"]
    unit = rounds / "round_00" / "mg_000000"
    posts = [unit / f"{PILOT_JOB}.{cluster}.post.json" for cluster in attempt_clusters(unit, PILOT_JOB)]
    told = [json.loads(path.read_text())["classification"] for path in posts]
    assert [(post.get("rule"), post["outcome"]) for post in told] == [
        ("unclassified", "pending"), ("licence", "retried"), (None, "success"),
    ]  # fmt: skip
    assert wms2("request", "pending", name, "--json").json()["pending"] == []
    shown_rules = wms2("policy", "show", "--request", name, "--json").json()["rules"]
    assert "licence" in [rule["name"] for rule in shown_rules]
    story = wms2("request", "why", name, "--json").json()
    (verdict,) = [event for event in story if event["what"] == "judge"]
    assert verdict["why"] == "the server was full"
    assert verdict["detail"]["rule"]["exit_codes"] == [UNKNOWN]
    refused = wms2("request", "judge", name, *VERDICT)
    assert (refused.code, "and that is final" in refused.stderr) == (2, True)


def test_a_verdict_that_ties_with_a_rule_of_the_request_is_refused_before_it_is_recorded(
    wms2: Any, settings: Settings
) -> None:
    name = unique("tied")
    rule = {"name": "mine", "category": "permanent", "exit_codes": [UNKNOWN]}
    with transaction(connect_database(settings.needed("database_url"))) as session:
        requests.insert_request(session, simulation_request(request_name=name, failure_rules=[rule]))
    refused = wms2("request", "judge", name, *VERDICT)
    assert (refused.code, "mine and licence fit the same failures" in refused.stderr) == (2, True)


def judge(session: Any, request: str, name: str, category: str, code: int) -> None:
    rule = {"name": name, "category": category, "exit_codes": [code]}
    told = Action(
        action_id=f"{request}-{name}-{category}", actor="ann", action="judge", request_name=request,
        reason="", detail={"rule": rule},
    )  # fmt: skip
    record_action(session, told)


def test_the_next_version_of_a_request_has_what_was_judged_in_the_old_one(engine: Engine) -> None:
    own = {"name": "own", "category": "data", "exit_codes": [7]}
    with transaction(engine) as session:
        requests.insert_request(session, simulation_request(failure_rules=[own]))
        judge(session, "simulation", "licence", "transient", UNKNOWN)
        judge(session, "simulation", "card", "permanent", 124)
        judge(session, "simulation", "licence", "permanent", UNKNOWN)
        assert [(rule.name, str(rule.category)) for rule in verdicts_of(session, "simulation")] == [
            ("card", "permanent"),
            ("licence", "permanent"),
        ]
        restart = Action(
            action_id="again", actor="ann", action="restart", request_name="simulation", reason=""
        )
        clone = versions.supersede(session, restart, 5)
        assert [rule.name for rule in judged_request(session, clone).failure_rules] == [
            "own",
            "card",
            "licence",
        ]
        assert [rule.name for rule in judged_request(session, "simulation").failure_rules] == [
            "own", "card", "licence",
        ]  # fmt: skip
