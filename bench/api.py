"""The REST service: how long it takes to answer with many requests in the database, over real HTTP on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median

import httpx
import psutil
from sqlalchemy import Engine

from bench.case import Case, leaving
from tests.api_kit import AUDIENCE, OPERATOR, Issuer, issuing
from tests.integration.publishing import made_request
from tests.integration.test_database import intent, planned
from wms2.db import dags, ledger, requests
from wms2.db.migrate import upgrade
from wms2.db.session import connect, transaction
from wms2.db.workflows import workflow_of
from wms2.local import postgres, process
from wms2.local.ports import pick_port
from wms2.local.postgres import Postgres
from wms2.models.dag import DagStatus, NodeCounts
from wms2.models.request import RequestStatus

START_SEC = 60.0
CALLS, CLIENTS = 200, 4
"""So many calls of each route, one after another; and as many again of all, by so many clients at once."""
LIFE = (RequestStatus.SUBMITTED, RequestStatus.QUEUED, RequestStatus.PLANNING, RequestStatus.ACTIVE)


@dataclass(frozen=True)
class Running:
    """A service that runs in a process of its own, and what to ask it."""

    url: str
    token: str
    routes: Mapping[str, str]
    pid: int


def prepare(size: int, folder: Path) -> Running:
    home = folder / "servers"
    home.mkdir()
    leaving.callback(process.sweep, home)
    database = Postgres(home, {postgres.PART: pick_port()})
    database.start()
    if not process.wait_until(lambda: database.problem() is None, START_SEC):
        raise RuntimeError(database.problem())
    database.ensure_database()
    upgrade(database.url)
    engine = connect(database.url)
    names = [f"request_{number:06d}" for number in range(size)]
    for name in names:
        fill(engine, name)
    with transaction(engine) as session:
        workflow = workflow_of(session, names[-1]).id
    engine.dispose()
    issuer = leaving.enter_context(issuing())
    url, pid = serve(folder, database.url, issuer)
    routes = {
        "list": "requests?limit=100",
        "list_held": "requests?status=held",
        "list_all": "requests?limit=1000",
        "show": f"requests/{names[-1]}",
        "why": f"requests/{names[-1]}/why",
        "errors": f"requests/{names[-1]}/errors",
        "workflow_status": f"workflows/{workflow}/status",
        "dags": "dags?limit=100",
        "dag": f"dags/{names[-1]}:0:1",
        "outputs": "outputs?limit=100",
        "sites": "sites",
        "audit": "audit",
        "metrics": "metrics",
    }
    return Running(url, issuer.token(OPERATOR), routes, pid)


def fill(engine: Engine, name: str) -> None:
    """A request in the middle of its life: a round of 20 work units, a DAG, some changes of status."""
    with transaction(engine) as session:
        requests.insert_request(session, made_request(name), RequestStatus.SUBMITTED)
        for sequence, status in enumerate(LIFE, 1):
            requests.record_status(session, name, status, sequence, "bench", "as it goes")
        ranges = [(100 * k + 1, 100 * k + 100) for k in range(20)]
        ledger.record_plan(session, planned(0, *ranges, request=name))
        dag = f"{name}:0:1"
        dags.record_dag_intent(session, intent(dag_id=dag, request_name=name))
        dags.record_dag_submitted(session, dag, 1, "schedd")
        dags.record_dag_status(session, dag, DagStatus.RUNNING, NodeCounts(idle=1, running=2, done=1))


def serve(folder: Path, database_url: str, issuer: Issuer) -> tuple[str, int]:
    port = pick_port()
    config = {
        "port": port,
        "issuers": [{"issuer": issuer.url, "audiences": [AUDIENCE]}],
        "grants": [{"role": "operator", "issuer": issuer.url, "subject": OPERATOR}],
        "calls_per_min": 1_000_000,
    }
    file = folder / "api.json"
    file.write_text(json.dumps(config))
    # No route that is measured asks Temporal.
    environment = {
        "WMS2_DATABASE_URL": database_url,
        "WMS2_TEMPORAL_ADDRESS": "127.0.0.1:9",
        "WMS2_HOME": str(folder),
    }
    started = subprocess.Popen(
        [Path(sys.executable).with_name("wms2"), "api", "run", "--config", file],
        env=dict(os.environ) | environment,
        stderr=subprocess.DEVNULL,
    )

    def stop() -> None:
        started.terminate()
        started.wait()

    leaving.callback(stop)
    url = f"http://127.0.0.1:{port}/api/v1"
    if not process.wait_until(lambda: _answers(url), START_SEC):
        raise RuntimeError("the service did not come up")
    return url, started.pid


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code in (200, 503)
    except httpx.TransportError:
        return False


def run(given: Running) -> Mapping[str, float]:
    told: dict[str, float] = {}
    for name, path in given.routes.items():
        before = _cpu_sec(given.pid)
        taken = timed(given, [path] * CALLS)
        cpu = (_cpu_sec(given.pid) - before) / CALLS
        told |= {
            f"{name}_p50_ms": _ms(median(taken)),
            f"{name}_p99_ms": _ms(_p99(taken)),
            f"{name}_cpu_ms": _ms(cpu),
        }
    mixed = list(given.routes.values()) * (CALLS // len(given.routes))
    with ThreadPoolExecutor(CLIENTS) as clients:
        together = [
            one for taken in clients.map(lambda _: timed(given, mixed), range(CLIENTS)) for one in taken
        ]
    told |= {"together_p50_ms": _ms(median(together)), "together_p99_ms": _ms(_p99(together))}
    return {"calls": CALLS * len(given.routes) + len(together), **told}


def _cpu_sec(pid: int) -> float:
    """What the service has taken so far. A busy machine makes answers late, and this no larger."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def timed(given: Running, paths: list[str]) -> list[float]:
    """The seconds of each call, by a client that keeps its connection."""
    return list(_times(given, paths))


def _times(given: Running, paths: list[str]) -> Iterator[float]:
    headers = {"Authorization": f"Bearer {given.token}"}
    with httpx.Client(headers=headers, timeout=60) as client:
        client.get(f"{given.url}/requests?limit=1").raise_for_status()
        for path in paths:
            began = time.perf_counter()
            client.get(f"{given.url}/{path}").raise_for_status()
            yield time.perf_counter() - began


def _p99(taken: list[float]) -> float:
    return sorted(taken)[ceil(0.99 * len(taken)) - 1]


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


CASES = (Case("answers of the REST service", "requests", (1000,), prepare, run),)
