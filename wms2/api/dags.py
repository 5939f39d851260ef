"""DAGs. A DAG belongs to its request: what is asked of it, the request does."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from wms2.api.actions import Acted, ask
from wms2.api.callers import Caller
from wms2.api.doorman import Requestor
from wms2.api.service import Inside, Service
from wms2.api.words import (
    NO_REASON,
    Hand,
    Limit,
    MaybeWhy,
    Offset,
    OfRequest,
    OperatorHand,
    next_offset,
    owner_of,
)
from wms2.dagman.dag_files import WORKFLOW_DAG
from wms2.db.dags import dag_history, list_dags, named_dag
from wms2.door.inspection import page_of_nodes
from wms2.errors import Contradiction
from wms2.models.actions import Action
from wms2.models.base import Model
from wms2.models.dag import DAG, DagDetails, DagStatus
from wms2.models.nodes import NodeRow
from wms2.patterns import DAG_ID

router = APIRouter(prefix="/dags", tags=["DAGs"])

DagName = Annotated[
    str,
    Path(
        pattern=f"^{DAG_ID.pattern}$",
        description="The DAG's own id, as it is listed, or the id of its row.",
        examples=["demo_simulation:1:1"],
    ),
]


class DagPage(Model):
    dags: list[DAG]
    next: int | None = Field(description="the offset of the next page; null for the last one")


class NodePage(Model):
    dag_id: str
    nodes: list[NodeRow]
    next: int | None = Field(description="the offset of the next page; null for the last one")


class DagLogs(Model):
    """Where to look; `wms2 dag logs` shows them there."""

    dag_id: str
    submit_host: str | None
    dagman_log: str = Field(description="the log of the round's own DAGMan")
    work_unit_logs: str = Field(description="those of the work units' DAGMans")


@router.get("", summary="List DAGs, newest first")
async def list_all(
    caller: Requestor,
    inside: Inside,
    request: OfRequest = None,
    status: Annotated[list[DagStatus] | None, Query(description="Only these.")] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> DagPage:
    found = await inside.read(list_dags, status or (), limit, offset, request, owner_of(caller))
    return DagPage(dags=found, next=next_offset(len(found), limit, offset))


@router.get("/{dag}", summary="Look at a DAG: how its nodes stand, and what happened to it")
async def show(dag: DagName, caller: Requestor, inside: Inside) -> DagDetails:
    found = await _seen(inside, caller, dag)
    return DagDetails(dag=found, history=await inside.read(dag_history, found.intent.dag_id))


@router.get("/{dag}/nodes", summary="The nodes of a DAG, as DAGMan's own files tell of them now")
async def nodes(
    dag: DagName,
    caller: Requestor,
    inside: Inside,
    failed: Annotated[bool, Query(description="Only those whose newest attempt failed.")] = False,
    limit: Limit = 100,
    offset: Offset = 0,
) -> NodePage:
    """Those files are on the submit host, and its worker reads them: without one the answer is 503."""
    found = await inside.read(named_dag, dag)
    await inside.check_sees(caller, found.intent.request_name)
    page = await page_of_nodes(inside, found, failed=failed, offset=offset, limit=limit)
    return NodePage(dag_id=found.intent.dag_id, nodes=list(page.nodes), next=page.next)


@router.get("/{dag}/logs", summary="Where the logs of a DAG are")
async def logs(dag: DagName, caller: Requestor, inside: Inside) -> DagLogs:
    found = await inside.read(named_dag, dag)
    intent = found.intent
    await inside.check_sees(caller, intent.request_name)
    return DagLogs(
        dag_id=intent.dag_id,
        submit_host=found.submit_host,
        dagman_log=f"{intent.submit_dir}/{WORKFLOW_DAG}.dagman.out",
        work_unit_logs=f"{intent.submit_dir}/mg_*/group.dag.dagman.out",
    )


@router.post("/{dag}/hold", status_code=202, summary="Hold the request of a DAG: the DAG is stopped")
async def hold(dag: DagName, hand: OperatorHand, inside: Inside, why: MaybeWhy = NO_REASON) -> Acted:
    """To hold DAGMan's own job would stop nothing that runs; so its request is held, which removes the DAG cleanly."""
    found = await _newest(inside, dag, running=True)
    return await _ask(inside, hand, found, Action.HOLD, why.reason)


@router.post("/{dag}/release", status_code=202, summary="Release the request of a DAG")
async def release(dag: DagName, hand: OperatorHand, inside: Inside, why: MaybeWhy = NO_REASON) -> Acted:
    """As POST /requests/{name}/release does, without changes."""
    found = await _newest(inside, dag)
    return await _ask(inside, hand, found, Action.RELEASE, why.reason)


@router.post("/{dag}/remove", status_code=202, summary="Remove a DAG from the queue: its request is stopped")
async def remove(dag: DagName, hand: OperatorHand, inside: Inside, why: MaybeWhy = NO_REASON) -> Acted:
    """A clean stop: what is done stays done, and the request queues to go on."""
    found = await _newest(inside, dag, running=True)
    return await _ask(inside, hand, found, Action.STOP, why.reason)


@router.post("/{dag}/rescue", status_code=202, summary="Let a held request go on with the same DAG")
async def rescue(dag: DagName, hand: OperatorHand, inside: Inside, why: MaybeWhy = NO_REASON) -> Acted:
    """As POST /requests/{name}/release does with `rescue`."""
    found = await _newest(inside, dag)
    return await _ask(inside, hand, found, Action.RELEASE, why.reason, rescue=True)


async def _ask(
    inside: Service,
    hand: Hand,
    dag: DAG,
    action: Action,
    reason: str,
    **more: bool,
) -> Acted:
    record = await inside.record(dag.intent.request_name)
    return await ask(inside, hand, record, action=action, reason=reason, **more)


async def _seen(inside: Service, caller: Caller, name: str) -> DAG:
    found = await inside.read(named_dag, name)
    await inside.check_sees(caller, found.intent.request_name)
    return found


async def _newest(inside: Service, name: str, *, running: bool = False) -> DAG:
    """The DAG, if it is the one that its request has to do with now."""
    found = await inside.read(named_dag, name)
    intent = found.intent
    (newest,) = await inside.read(list_dags, limit=1, request_name=intent.request_name)
    if newest.intent.dag_id != intent.dag_id:
        raise Contradiction(f"{intent.dag_id} was followed by {newest.intent.dag_id}; name that one")
    if running and found.status.is_final:
        raise Contradiction(f"{intent.dag_id} has ended as {found.status}; there is nothing left to remove")
    return found
