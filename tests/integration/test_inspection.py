"""Nodes of DAGs on submit hosts, for whoever is elsewhere: their files are read by the worker that is there."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.api_kit import OPERATOR, REQUESTOR
from tests.integration.conftest import ApiClient, Through
from tests.integration.publishing import made_request
from tests.integration.test_database import intent, planned
from tests.unit.test_failures import planned as round_file
from tests.unit.test_failures import post, write
from wms2.dagman.dag_files import GROUP_DAG
from wms2.dagman.round_folder import ROUND_FILE
from wms2.db import dags, ledger
from wms2.db.requests import insert_request
from wms2.db.session import transaction

DAG = "simulation-0-1"
HOST = "test-host"
"""Where the worker of these tests says that it is."""


def run_on(engine: Engine, host: str | None, folder: Path) -> None:
    """A round of two work units, three nodes each; the second node of each has failed."""
    with transaction(engine) as session:
        insert_request(session, made_request())
        plan = planned(0, (1, 100), (101, 200)).model_copy(update={"submit_host": host})
        ledger.record_plan(session, plan)
        dags.record_dag_intent(session, intent(submit_dir=str(folder)))
    folder.mkdir()
    (folder / ROUND_FILE).write_text(round_file(2).model_dump_json())
    for unit in range(2):
        names = [f"proc_{3 * unit + number:06d}" for number in range(3)]
        write(folder, unit, names[1], post())
        nodes = [f'[\n  Type = "NodeStatus";\n  Node = "{name}";\n  NodeStatus = 5;\n]' for name in names]
        end = '[\n  Type = "StatusEnd";\n]\n'
        (folder / f"mg_{unit:06d}" / f"{GROUP_DAG}.status").write_text("\n".join([*nodes, end]))


def test_the_nodes_of_a_dag_are_read_by_the_worker_of_its_submit_host(
    worker: None, by: ApiClient, engine: Engine, tmp_path: Path
) -> None:
    run_on(engine, HOST, tmp_path / "round_00")
    operator, found, offset = by(OPERATOR), [], 0
    while offset is not None:
        answer = operator.get(f"/dags/{DAG}/nodes", params={"limit": 4, "offset": offset})
        assert answer.status_code == 200, answer.text
        found += [(row["unit"], row["node"], row["exit_code"]) for row in answer.json()["nodes"]]
        offset = answer.json()["next"]
    assert [node for _, node, _ in found] == [f"proc_{number:06d}" for number in range(6)]
    assert [code for _, _, code in found] == [None, 8021, None] * 2
    failed = operator.get(f"/dags/{DAG}/nodes", params={"failed": True, "limit": 2}).json()
    assert [row["node"] for row in failed["nodes"]] == ["proc_000001", "proc_000004"]
    assert failed["next"] is None
    assert operator.get(f"/dags/{DAG}/logs").json()["submit_host"] == HOST
    assert [dag["submit_host"] for dag in operator.get("/dags").json()["dags"]] == [HOST]
    assert by(REQUESTOR).get(f"/dags/{DAG}/nodes").status_code == 403
    (tmp_path / "round_00" / ROUND_FILE).unlink()
    gone = operator.get(f"/dags/{DAG}/nodes")
    assert (gone.status_code, f"on {HOST}; they are removed" in gone.json()["detail"]) == (409, True)


def test_a_host_without_a_worker_is_one_sentence(
    worker: None, by: ApiClient, wms2: Any, engine: Engine, tmp_path: Path
) -> None:
    run_on(engine, "elsewhere", tmp_path / "round_00")
    operator = by(OPERATOR)
    # The first answer waits for the worker of this machine, which has only just started.
    operator.get(f"/dags/{DAG}/nodes")
    answer = operator.get(f"/dags/{DAG}/nodes")
    assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True)
    assert answer.json()["detail"] == (
        "no worker answers on elsewhere; start it there with `wms2 worker run`, "
        f"or look there with `wms2 dag nodes {tmp_path / 'round_00'}`"
    )
    told = wms2("dag", "nodes", DAG)
    assert (told.code, "no worker answers on elsewhere" in told.stderr) == (2, True)
    assert len(wms2("dag", "nodes", tmp_path / "round_00", "--json").json()) == 6


def test_nobody_at_all_is_one_sentence_too(
    wms2: Any, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_on(engine, HOST, tmp_path / "round_00")
    monkeypatch.setattr("wms2.door.inspection.ANSWER_TIMEOUT", timedelta(seconds=1))
    told = wms2("dag", "nodes", DAG)
    assert (told.code, "no worker answers; is one running?" in told.stderr) == (2, True)


def test_the_command_line_lists_nodes_through_the_service(
    worker: None, wms2: Any, engine: Engine, url: str, through: Through, tmp_path: Path
) -> None:
    run_on(engine, HOST, tmp_path / "round_00")
    straight = wms2("dag", "nodes", DAG, "--json").json()
    assert len(straight) == 6
    through(url, OPERATOR)
    assert wms2("dag", "nodes", DAG, "--json").json() == straight
    failed = wms2("dag", "nodes", DAG, "--failed", "--json").json()
    assert [row["node"] for row in failed] == ["proc_000001", "proc_000004"]
    assert "there is no DAG with the id none" in wms2("dag", "nodes", "none").stderr


def test_a_round_that_was_run_by_hand_is_read_where_it_is(
    by: ApiClient, engine: Engine, tmp_path: Path
) -> None:
    folder = tmp_path / "round_00"
    run_on(engine, None, folder)
    assert len(by(OPERATOR).get(f"/dags/{DAG}/nodes").json()["nodes"]) == 6
    folder.rename(tmp_path / "elsewhere")
    answer = by(OPERATOR).get(f"/dags/{DAG}/nodes")
    assert (answer.status_code, "was run by hand" in json.dumps(answer.json())) == (409, True)
