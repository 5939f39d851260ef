"""Starting workflows, and finding out whether that of a request lives."""

from __future__ import annotations

from datetime import timedelta

from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import (
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from wms2.models.nodes import Inspected, NodesOrder
from wms2.models.request import Request, RequestStatus
from wms2.models.request_state import RequestState
from wms2.models.undo import UndoOrder
from wms2.temporal.attributes import CAMPAIGN, PRIORITY, REQUESTOR, STATUS
from wms2.temporal.client import START_TIMEOUT
from wms2.temporal.ids import nodes_id, request_id, undo_id
from wms2.temporal.queues import WORKFLOWS

_LIVING = "WorkflowType = 'RequestWorkflow' AND ExecutionStatus = 'Running'"
PAGE = 1000
"""How many workflows are listed at once."""
_SUMMARY_LENGTH = 200
_INSPECTION = timedelta(minutes=1)
"""Without any worker it ends by itself, long after nobody waits for it."""


async def start_request(client: Client, request: Request, *, hold: bool = False, waits_for: str = "") -> None:
    """Start the workflow of a request whose row is in the database; with `hold` it waits for a release first.

    `waits_for` says what that will be, where it is not a person.

    Raises WorkflowAlreadyStartedError when the request has, or lately had, a workflow.
    """
    state = first_state(request, hold=hold).model_copy(update={"waits_for": waits_for})
    await client.start_workflow(
        "RequestWorkflow",
        state,
        id=request_id(request.request_name),
        task_queue=WORKFLOWS,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        static_summary=state.summary,
        search_attributes=TypedSearchAttributes(
            [
                SearchAttributePair(STATUS, str(state.status)),
                SearchAttributePair(REQUESTOR, state.requestor),
                SearchAttributePair(CAMPAIGN, state.campaign),
                SearchAttributePair(PRIORITY, state.priority),
            ]
        ),
        rpc_timeout=START_TIMEOUT,
    )


async def start_undo(client: Client, order: UndoOrder) -> str:
    """The id of the workflow that takes the outputs back; one that is at it already is left to it."""
    name = undo_id(order.request, order.dataset)
    try:
        await client.start_workflow(
            "UndoWorkflow",
            order,
            id=name,
            task_queue=WORKFLOWS,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            static_summary=f"takes back the outputs of {order.request}: {order.reason}"[:200],
            rpc_timeout=START_TIMEOUT,
        )
    except WorkflowAlreadyStartedError:
        return name
    return name


async def start_inspection(client: Client, order: NodesOrder) -> WorkflowHandle[object, Inspected]:
    """The workflow that looks at the files of a DAG; one that is at the same already is joined."""
    return await client.start_workflow(
        "InspectionWorkflow",
        order,
        id=nodes_id(order),
        task_queue=WORKFLOWS,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        execution_timeout=_INSPECTION,
        result_type=Inspected,
        static_summary=f"looks at the nodes of {order.dag_id} on {order.host}"[:_SUMMARY_LENGTH],
        rpc_timeout=START_TIMEOUT,
    )


async def living_requests(client: Client) -> set[str]:
    """The ids of the workflows of requests that have not ended, as Temporal lists them: it may be a little behind.

    The service itself is asked: the SDK decodes all that is known of each, which for thousands of them takes seconds.
    """
    living: set[str] = set()
    asked = ListWorkflowExecutionsRequest(namespace=client.namespace, query=_LIVING, page_size=PAGE)
    while True:
        page = await client.workflow_service.list_workflow_executions(asked, retry=True)
        living.update(found.execution.workflow_id for found in page.executions)
        if not page.next_page_token:
            return living
        asked.next_page_token = page.next_page_token


async def request_lives(client: Client, request_name: str) -> bool:
    """Whether the request has a workflow that has not ended. The server's own answer, not a list that may be behind."""
    try:
        found = await client.get_workflow_handle(request_id(request_name)).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return found.close_time is None


def revival(request_name: str, client: Client | None) -> str:
    """How a person lets the workflow of a request go on that was ended in Temporal; where that is, by its client."""
    where = ""
    if client is not None:
        where = f"--address {client.service_client.config.target_host} --namespace {client.namespace} "
    return (
        f"`temporal workflow reset {where}--workflow-id {request_id(request_name)} --type LastWorkflowTask "
        "--reason TEXT` revives it"
    )


def first_state(request: Request, *, hold: bool) -> RequestState:
    """What a request's workflow knows when it begins."""
    return RequestState(
        request_name=request.request_name,
        requestor=request.requestor,
        campaign=request.campaign,
        priority=request.priority,
        urgent=request.urgent,
        datasets=request.output_datasets,
        summary=_summary(request),
        replaces=request.previous_version_request or "",
        next_lumi=request.first_lumi,
        prefetch=request.prefetch or "",
        hold_threshold=request.error_hold_threshold,
        max_rescues=request.error_max_rescue_attempts,
        status=RequestStatus.NEW if hold else RequestStatus.SUBMITTED,
    )


def _summary(request: Request) -> str:
    work = f"{request.total_events} events" if request.is_simulation else f"all of {request.input_dataset}"
    return f"{work}, for {request.requestor} in {request.campaign}"[:_SUMMARY_LENGTH]
