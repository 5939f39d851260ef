"""What a worker tells Prometheus of itself, over HTTP."""

import asyncio
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from temporalio import activity, workflow
from temporalio.client import WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.patience import PATIENCE_SEC
from wms2.activities.alerts import sound
from wms2.activities.credentials import refresh_credentials
from wms2.adapters.job_credentials import JobCredentials
from wms2.config import Settings
from wms2.core.credentials import HeldCredential
from wms2.db.session import connect as connect_database
from wms2.metrics.catalogue import WORKER
from wms2.temporal.client import connect
from wms2.temporal.runtime import sdk_runtime

Samples = dict[tuple[str, ...], float]
WANTED = {
    "temporal_activity_execution_failed",
    "temporal_activity_schedule_to_start_latency",
    "temporal_worker_task_slots_available",
    "temporal_workflow_task_execution_failed",
    *WORKER,
}
END = datetime(2030, 1, 1, tzinfo=UTC)


@activity.defn
async def fail() -> None:
    raise ValueError("on purpose")


@activity.defn
async def raise_alert() -> None:
    sound("lost_host", "demo", "nobody follows it")


@workflow.defn(sandboxed=False)
class Failing:
    attempts = 0

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(raise_alert, start_to_close_timeout=timedelta(minutes=1))
        Failing.attempts += 1
        if Failing.attempts == 1:
            raise RuntimeError("a bug, which makes the server hand out the task again")
        await workflow.execute_activity(
            fail, start_to_close_timeout=timedelta(minutes=1), retry_policy=RetryPolicy(maximum_attempts=1)
        )


class OneProxy(JobCredentials):
    def refresh(self) -> list[HeldCredential]:
        return [
            HeldCredential("the proxy of jobs", END, kind="proxy"),
            HeldCredential("the token of jobs", None, "it is gone", kind="token"),
        ]


async def scrape(port: int) -> tuple[set[str], Samples]:
    async with httpx.AsyncClient() as http:
        text = (await http.get(f"http://127.0.0.1:{port}/metrics")).raise_for_status().text
    families = list(text_string_to_metric_families(text))
    samples = {
        (sample.name, *(sample.labels[label] for label in WORKER[sample.name].labels)): sample.value
        for family in families
        for sample in family.samples
        if sample.name in WORKER
    }
    # As they are written: the parser gives counters another name.
    return set(re.findall(r"^(\w+)", text, re.MULTILINE)), samples


async def test_a_worker_serves_what_rules_and_dashboard_ask_of_it(
    real_env: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.temporal.runtime._meters", [])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = real_env.client.service_client.config.target_host
    client = await connect(Settings(temporal_address=address), sdk_runtime(port))
    nowhere = connect_database("postgresql://nobody@127.0.0.1:1/nothing")
    async with Worker(
        client,
        task_queue="failing",
        workflows=[Failing],
        activities=[fail, raise_alert],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        await asyncio.to_thread(refresh_credentials, OneProxy(None, None, tmp_path), nowhere, "submit-1")
        failing = await client.start_workflow(Failing.run, id="failing", task_queue="failing")
        async with asyncio.timeout(PATIENCE_SEC):
            names: set[str] = set()
            while not {name for name in WANTED if name in names or f"{name}_bucket" in names} >= WANTED:
                names, samples = await scrape(port)
                await asyncio.sleep(0.1)
        with pytest.raises(WorkflowFailureError):
            await failing.result()
    assert samples["wms2_alerts_total", "lost_host"] == 1
    assert samples["wms2_alerts_total", "credential"] == 1
    assert samples["wms2_credential_end_timestamp_seconds", "submit-1", "proxy"] == END.timestamp()
    assert samples["wms2_credential_end_timestamp_seconds", "submit-1", "token"] == 0
