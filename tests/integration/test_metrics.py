"""Metrics of the whole system: from a real database, a real admission, over HTTP."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session
from temporalio.worker import Worker

from tests.factories import simulation
from tests.integration.test_database import intent, planned
from tests.patience import PATIENCE_SEC
from wms2.activities.admission import AdmissionActivities, signal_admission
from wms2.config import Settings
from wms2.core.sizing import sizing_of
from wms2.db import dags, ledger, requests
from wms2.db.admission import remembered_admission
from wms2.db.session import connect, transaction
from wms2.metrics.catalogue import ADMISSION, DATABASE
from wms2.metrics.collector import FRESH_SEC, SystemCollector
from wms2.models.dag import DagStatus, NodeCounts
from wms2.models.messages import HostList, SlotRequest
from wms2.models.request import RequestStatus
from wms2.models.sizing import MeasuredRound, PredictedRound
from wms2.temporal.client import connect as connect_temporal
from wms2.temporal.queues import WORKFLOWS
from wms2.worker import workflow_runner
from wms2.workflows.admission import AdmissionWorkflow

Samples = dict[tuple[str, ...], float]
FIGURES = MeasuredRound(
    time_per_event_sec=1, startup_sec=0, peak_rss_mb=1000, size_per_event_kb=1, merged_kb_per_event=1,
    written_kb_per_event=1, jobs=1, job_sec=100,
)  # fmt: skip


def read(exposition: str) -> Samples:
    """By name and the values of the labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def scrape(collector: SystemCollector) -> Samples:
    registry = CollectorRegistry()
    registry.register(collector)
    return read(generate_latest(registry).decode())


def add_request(session: Session, name: str, *statuses: tuple[RequestStatus, str]) -> None:
    requests.insert_request(session, simulation(request_name=name))
    for sequence, (status, actor) in enumerate(statuses, 1):
        requests.record_status(session, name, status, sequence, actor, "because")


def add_dag(session: Session, name: str, status: DagStatus, attempt: int = 1, **nodes: int) -> None:
    dag_id = f"{name}:0:{attempt}"
    dags.record_dag_intent(session, intent(dag_id=dag_id, request_name=name, attempt=attempt, total_nodes=10))
    dags.record_dag_submitted(session, dag_id, attempt, "schedd")
    dags.record_dag_status(session, dag_id, status, NodeCounts(**nodes))


def test_requests_are_counted_by_status_also_those_that_there_are_none_of(engine: Engine) -> None:
    with transaction(engine) as session:
        add_request(session, "first", (RequestStatus.SUBMITTED, "wms2"), (RequestStatus.QUEUED, "wms2"))
        add_request(session, "second", (RequestStatus.QUEUED, "wms2"))
        add_request(session, "third", (RequestStatus.COMPLETED, "wms2"))
    found = scrape(SystemCollector(engine))
    counts = {key[1]: value for key, value in found.items() if key[0] == "wms2_requests"}
    assert counts == {**dict.fromkeys(RequestStatus, 0), "queued": 2, "completed": 1}


def test_the_longest_wait_in_a_status_is_told_beside_its_limit(engine: Engine) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=5)
    with transaction(engine) as session:
        add_request(session, "old", (RequestStatus.QUEUED, "wms2"))
        add_request(session, "young", (RequestStatus.QUEUED, "wms2"))
        add_request(session, "done", (RequestStatus.COMPLETED, "wms2"))
        session.execute(
            text(
                "UPDATE requests SET status_transitions ="
                " jsonb_set(status_transitions, '{-1,at}', to_jsonb(CAST(:at AS text)))"
                " WHERE request_name IN ('old', 'done')"
            ),
            {"at": long_ago.isoformat()},
        )
    found = scrape(SystemCollector(engine))
    assert found["wms2_oldest_wait_seconds", "queued"] == pytest.approx(5 * 3600, abs=60)
    assert ("wms2_oldest_wait_seconds", "completed") not in found
    assert found["wms2_status_limit_seconds", "queued"] == 7 * 24 * 3600


def test_held_requests_are_told_apart_by_what_they_are_held_for(engine: Engine) -> None:
    held, partial = RequestStatus.HELD, RequestStatus.PARTIAL
    with transaction(engine) as session:
        add_request(session, "failures", (partial, "wms2"), (held, "wms2"))
        add_request(session, "judged", (partial, "wms2"), (held, "wms2"), (held, "wms2"))
        add_request(session, "by_hand", (RequestStatus.ACTIVE, "wms2"), (held, "alice"))
        add_request(session, "trouble", (RequestStatus.PLANNING, "wms2"), (held, "wms2"))
        add_request(session, "released", (held, "wms2"), (RequestStatus.QUEUED, "alice"))
    found = scrape(SystemCollector(engine))
    kinds = ("failures", "operator", "problem")
    assert [found["wms2_held_requests", kind] for kind in kinds] == [2, 1, 1]


def test_progress_is_told_of_dags_that_run_and_success_of_rounds_that_ended(engine: Engine) -> None:
    with transaction(engine) as session:
        for name in ("runs", "rescued", "failed", "stopped"):
            add_request(session, name)
            ledger.record_plan(session, planned(0, (1, 100), request=name))
        add_dag(session, "runs", DagStatus.RUNNING, done=4, running=3, idle=2)
        add_dag(session, "rescued", DagStatus.PARTIAL, done=5)
        add_dag(session, "rescued", DagStatus.COMPLETED, attempt=2, done=10)
        add_dag(session, "failed", DagStatus.PARTIAL, done=6, failed=1)
        add_dag(session, "stopped", DagStatus.STOPPED, done=1)
    found = scrape(SystemCollector(engine))
    assert found["wms2_dag_progress", "runs", "0"] == pytest.approx(0.4)
    assert [key for key in found if key[0] == "wms2_dag_progress"] == [("wms2_dag_progress", "runs", "0")]
    assert found["wms2_dag_nodes", "running"] == 3
    assert found["wms2_node_success_ratio",] == pytest.approx(16 / 20)
    assert found["wms2_dags", "partial"] == 2


def test_predictions_are_judged_by_who_made_them(engine: Engine) -> None:
    sizing = sizing_of(simulation(), None).model_copy(
        update={"time_per_event_sec": 1.0, "peak_rss_mb": 500, "size_per_event_kb": 1.0}
    )
    with transaction(engine) as session:
        add_request(session, "simulation")
        for number in range(3):
            first = 100 * number + 1
            ledger.record_plan(session, planned(number, (first, first + 99), first_unit=number))
            session.execute(
                text(
                    "UPDATE rounds SET predicted = :predicted, measured = :measured, status = 'completed',"
                    " closed_at = now() WHERE number = :number"
                ),
                {
                    "number": number,
                    "predicted": PredictedRound(sizing=sizing, job_sec=80).model_dump_json(),
                    "measured": FIGURES.model_dump_json(),
                },
            )
    found = scrape(SystemCollector(engine))
    for source in ("requestor", "pilot", "rounds"):
        assert found["wms2_predictions", "seconds_per_event", source, "good"] == 1
        assert found["wms2_predictions", "peak_memory_mb", source, "off"] == 1
        assert found["wms2_prediction_error_ratio", "peak_memory_mb", source] == pytest.approx(1)
    # How long the job of a pilot takes is nobody's prediction.
    assert ("wms2_prediction_error_ratio", "seconds_per_job", "requestor") not in found
    assert found["wms2_prediction_error_ratio", "seconds_per_job", "pilot"] == pytest.approx(0.25)


def test_banned_sites_are_counted_once_each(engine: Engine) -> None:
    with transaction(engine) as session:
        session.execute(text("INSERT INTO sites (name) VALUES ('T2_US_Purdue'), ('T2_CH_CERN')"))
        session.execute(
            text(
                "INSERT INTO site_bans (site_name, reason, expires_at) VALUES"
                " ('T2_US_Purdue', 'x', now() + interval '1 day'), ('T2_US_Purdue', 'y', now() + interval '1 day'),"
                " ('T2_CH_CERN', 'z', now() - interval '1 day')"
            )
        )
    found = scrape(SystemCollector(engine))
    assert (found["wms2_sites_banned", "all"], found["wms2_sites_banned", "request"]) == (1, 0)
    assert found["wms2_sites", "enabled"] == 2


def test_many_who_ask_cost_the_database_one_look(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *words: statements.append(words[2]))
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    collector = SystemCollector(engine)
    for _ in range(5):
        scrape(collector)
    once = len(statements)
    assert 0 < once <= 15
    clock[0] += FRESH_SEC + 1
    scrape(collector)
    assert len(statements) == 2 * once


def test_a_database_that_is_away_is_told_and_is_no_error() -> None:
    found = scrape(SystemCollector(connect("postgresql://nobody@127.0.0.1:1/nothing")))
    assert found == {("wms2_database_up",): 0}


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """`wms2 metrics run` as a process; its URL."""
    command = [Path(sys.executable).with_name("wms2"), "metrics", "run", "--port", "0"]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            said = re.search(r"http://127\.0\.0\.1:\d+/metrics", server.stderr.readline())
            assert said
            yield said.group()
        finally:
            server.terminate()
            assert server.wait(PATIENCE_SEC) == 0


def test_a_new_priority_makes_no_request_look_as_if_it_had_just_come_to_its_status(engine: Engine) -> None:
    with transaction(engine) as session:
        add_request(session, "waits", (RequestStatus.QUEUED, "wms2"))
    with transaction(engine) as session:
        before = requests.requests_by_status(session)
        requests.record_priority(session, "waits", 7)
    with transaction(engine) as session:
        assert requests.requests_by_status(session) == before


def test_all_that_the_catalogue_promises_is_served_while_admission_answers(
    settings: Settings, engine: Engine
) -> None:
    with transaction(engine) as session:
        add_request(session, "runs")
        ledger.record_plan(session, planned(0, (1, 100), request="runs"))
        add_dag(session, "runs", DagStatus.RUNNING, done=4)

    async def ask_admission_and_scrape(url: str) -> str:
        client = await connect_temporal(settings)
        # Too few for a slot.
        activities = AdmissionActivities(engine, client)
        hosts = HostList(at=datetime.now(UTC), dagmans={"submit-1": 5})
        await signal_admission(client, "know_hosts", hosts, partial(activities.record, remembered_admission))
        await activities.ask_admission(SlotRequest(request="runs", round=1, priority=1, said=1))
        async with (
            Worker(
                client,
                task_queue=WORKFLOWS,
                workflows=[AdmissionWorkflow],
                activities=[activities.closed_requests, activities.record_slots],
                workflow_runner=workflow_runner(),
            ),
            httpx.AsyncClient(timeout=PATIENCE_SEC) as http,
        ):
            deadline = time.monotonic() + PATIENCE_SEC
            while time.monotonic() < deadline:
                answer = (await http.get(url)).raise_for_status().text
                if read(answer)["wms2_admission_up",] == 1:
                    return answer
        raise AssertionError("admission never answered")

    with served(settings) as url:
        answer = asyncio.run(ask_admission_and_scrape(url))
    found = read(answer)
    assert found["wms2_admission_queue_depth",] == 1
    assert (found["wms2_admission_slots_lent",], found["wms2_admission_slots_limit",]) == (0, 300)
    assert (found["wms2_admission_draining",], found["wms2_admission_idle_jobs_budget",]) == (0, 1_000_000)
    assert found["wms2_host_dagmans_free", "submit-1"] == 5
    promised = {*DATABASE, *ADMISSION}
    assert {family.name for family in text_string_to_metric_families(answer)} == promised - {
        # Nothing has ended yet.
        "wms2_node_success_ratio"
    }


def test_an_admission_without_a_worker_is_told_and_the_rest_as_ever(settings: Settings) -> None:
    with served(settings) as url:
        found = read(httpx.get(url, timeout=PATIENCE_SEC).raise_for_status().text)
    assert found["wms2_admission_up",] == 0
    assert found["wms2_database_up",] == 1
