"""Traces of a request, as a real collector gets them."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from temporalio.testing import WorkflowEnvironment

from tests.workflows.life import Life, living
from wms2.config import Settings
from wms2.models.request import RequestStatus
from wms2.temporal.client import connect
from wms2.temporal.ids import request_id
from wms2.temporal.tracing import flush_traces


class Receiver:
    """What OTLP calls a receiver: it takes spans over HTTP, on loopback."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                receiver.take(ExportTraceServiceRequest.FromString(self.rfile.read(length)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def take(self, sent: ExportTraceServiceRequest) -> None:
        for told in sent.resource_spans:
            known = {pair.key: pair.value.string_value for pair in told.resource.attributes}
            self.services.add(known["service.name"])
            self.spans += [span for scope in told.scope_spans for span in scope.spans]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    # A body that is not compressed is one that the receiver above can read.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever)
    thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()
    thread.join()


async def complete(env: WorkflowEnvironment, traces_url: str | None) -> Life:
    address = env.client.service_client.config.target_host
    client = await connect(Settings(temporal_address=address, traces_url=traces_url))
    async with living(WorkflowEnvironment.from_client(client)) as life:
        await life.begin()
        await life.until(RequestStatus.COMPLETED)
    flush_traces()
    return life


async def test_all_that_a_request_does_is_one_trace_in_the_collector(
    real_env: WorkflowEnvironment, receiver: Receiver
) -> None:
    life = await complete(real_env, receiver.url)
    names = {span.name for span in receiver.spans}
    assert {"StartWorkflow:RequestWorkflow", "RunWorkflow:RequestWorkflow"} <= names
    assert {"StartActivity:plan_round", "RunActivity:plan_round", "RunActivity:submit_dag"} <= names
    (start,) = [span for span in receiver.spans if span.name == "StartWorkflow:RequestWorkflow"]
    own = [
        span
        for span in receiver.spans
        for pair in span.attributes
        if (pair.key, pair.value.string_value) == ("temporalWorkflowID", request_id(life.name))
    ]
    assert own
    assert {span.trace_id for span in own} == {start.trace_id}
    assert receiver.services == {"wms2"}


async def test_without_a_collector_nothing_is_traced_and_history_carries_nothing_of_it(
    real_env: WorkflowEnvironment, receiver: Receiver
) -> None:
    life = await complete(real_env, None)
    assert receiver.spans == []
    history = await life.handle.fetch_history()
    assert not history.events[0].workflow_execution_started_event_attributes.header.fields
