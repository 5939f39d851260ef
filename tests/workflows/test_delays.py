"""What an activity's trouble with a service becomes in Temporal: when it is tried again, and what is written down."""

from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.client import WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from tests.wire import Call, Reply, Script, wire
    from wms2.adapters.credentials import Password
    from wms2.adapters.rucio import Rucio
    from wms2.temporal.delays import Delays
    from wms2.temporal.retries import FINAL

QUEUE = "delays"
PASSWORD = "xyzzy-plugh"
TOKEN = "token-of-plover"
EXPIRES = "Mon, 16 Nov 2126 14:02:12 UTC"


@workflow.defn(sandboxed=False)
class Asking:
    """Asks Rucio once, and if that fails an hour later."""

    @workflow.run
    async def run(self, url: str) -> list[str]:
        policy = RetryPolicy(initial_interval=timedelta(hours=1), non_retryable_error_types=FINAL)
        return await workflow.execute_activity(
            ask_rucio, url, start_to_close_timeout=timedelta(minutes=5), retry_policy=policy
        )


@activity.defn
async def ask_rucio(url: str) -> list[str]:
    async with Rucio(url, "wms2", Password("wms2", PASSWORD)) as rucio:
        return await rucio.rses("tier=2")


def troubled(trouble: Reply) -> Script:
    """Rucio with some trouble at its first call after the login, which repeats what it was told."""

    def script(call: Call) -> Reply:
        if call.path.startswith("/auth"):
            return Reply(headers={"X-Rucio-Auth-Token": TOKEN, "X-Rucio-Auth-Token-Expires": EXPIRES})
        if call.number > 2:
            return Reply(content=b'{"rse": "T2_DE_DESY"}\n')
        said = {"ExceptionMessage": f"{call.headers['X-Rucio-Auth-Token']} is busy"}
        return Reply(trouble.status, trouble.content, {**said, **trouble.headers})

    return script


async def ended(env: WorkflowEnvironment, url: str) -> tuple[list[str] | None, str]:
    """The result of asking, or none, and all that Temporal has written down of it."""
    async with Worker(
        env.client, task_queue=QUEUE, workflows=[Asking], activities=[ask_rucio], interceptors=[Delays()]
    ):
        handle = await env.client.start_workflow(Asking.run, url, id="asking", task_queue=QUEUE)
        try:
            result = await handle.result()
        except WorkflowFailureError:
            result = None
        return result, (await handle.fetch_history()).to_json()


async def test_a_service_is_asked_again_when_it_wants_to_be_and_no_secret_is_written_down(
    real_env: WorkflowEnvironment,
) -> None:
    with wire(troubled(Reply(429, headers={"Retry-After": "1"}))) as line:
        result, history = await ended(real_env, line.url)
    assert result == ["T2_DE_DESY"]
    assert "answered GET /rses/ with 429" in history
    assert PASSWORD not in history
    assert TOKEN not in history


@pytest.mark.parametrize("status", [400, 401, 403])
async def test_a_refusal_is_not_tried_again_and_no_secret_is_written_down(
    real_env: WorkflowEnvironment, status: int
) -> None:
    with wire(troubled(Reply(status, headers={"ExceptionClass": "AccessDenied"}))) as line:
        result, history = await ended(real_env, line.url)
    assert result is None
    assert line.count("GET /rses/") == 1
    assert "*** is busy; check WMS2_RUCIO_ACCOUNT" in history
    assert PASSWORD not in history
    assert TOKEN not in history
