"""What activities and workflows log tells whom it is about."""

import json
import logging
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from wms2.models.messages import SlotRequest
from wms2.temporal.ids import request_id
from wms2.temporal.logs import JsonFormatter, LogContext, without_details_in_messages

log = logging.getLogger("tests.logs")
ASKED = SlotRequest(request="demo", round=2, priority=1, said=1)


class Lines(logging.Handler):
    """Formatted where they are logged, as a stream would."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@activity.defn
async def at_work(asked: SlotRequest) -> None:
    log.warning("at work")


@workflow.defn(sandboxed=False)
class Telling:
    @workflow.run
    async def run(self) -> None:
        workflow.logger.warning("told")
        await workflow.execute_activity(at_work, ASKED, start_to_close_timeout=timedelta(minutes=1))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    monkeypatch.setattr(activity.logger, "activity_info_on_message", True)
    monkeypatch.setattr(workflow.logger, "workflow_info_on_message", True)
    without_details_in_messages()
    return Lines()


async def test_each_line_names_its_request_its_workflow_and_its_activity(
    real_env: WorkflowEnvironment, lines: Lines
) -> None:
    logging.getLogger().addHandler(lines)
    try:
        async with Worker(
            real_env.client,
            task_queue="telling",
            workflows=[Telling],
            activities=[at_work],
            interceptors=[LogContext()],
            workflow_runner=UnsandboxedWorkflowRunner(),
        ):
            await real_env.client.execute_workflow(Telling.run, id=request_id("demo"), task_queue="telling")
    finally:
        logging.getLogger().removeHandler(lines)
    (told,) = [line for line in lines.lines if line["message"] == "told"]
    (done,) = [line for line in lines.lines if line["message"] == "at work"]
    assert (told["request"], told["workflow"]) == ("demo", "request-demo")
    names = ("request", "round", "workflow", "activity", "attempt", "run")
    assert [done[name] for name in names] == ["demo", 2, "request-demo", "at_work", 1, told["run"]]
