"""Admission: who waits for a slot, and how many slots there are."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, model_validator

from wms2.api.doorman import Operator
from wms2.api.service import Inside, Service
from wms2.api.words import NO_REASON, AdminHand, Hand, MaybeWhy, Why
from wms2.core.admission import AdmissionState, in_line
from wms2.db.requests import find_request
from wms2.door.admission import admission_state, change_admission
from wms2.models.admission import AdmissionSeen
from wms2.models.base import Count, Model
from wms2.models.messages import AdmissionOrder
from wms2.models.request import RequestStatus

router = APIRouter(prefix="/admission", tags=["Admission"])

SHOWN_IN_LINE = 100


class InLine(Model):
    request_name: str
    priority: int
    round: Count


class NextInLine(InLine):
    queued_since: datetime | None = Field(description="null where the record does not tell")


class AdmissionQueue(Model):
    active_dags: Count = Field(description="slots that are lent")
    max_active_dags: Count
    queued_workflows: Count = Field(description="requests that wait")
    next_in_queue: NextInLine | None
    waiting: list[InLine] = Field(description="the first of them, in the order of their turn")


class AdmissionConfig(Model):
    max_active_dags: Count
    idle_budget: Count = Field(description="how many idle jobs all DAGs share")
    draining: bool = Field(description="nothing more is lent until it is resumed")
    concurrent_work_units: Count = Field(description="DAGMans of a DAG at a time, beside its own")


class AdmissionChange(Why):
    """What is not given stays as it is."""

    max_active_dags: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None,
        description="slots above a lowered limit stay lent until they are given back",
        examples=[300],
    )
    idle_budget: Annotated[int, Field(strict=True, ge=1, le=10**9)] | None = Field(
        default=None, description="how many idle jobs all DAGs share", examples=[1_000_000]
    )

    @model_validator(mode="after")
    def check_that_something_changes(self) -> AdmissionChange:
        if self.max_active_dags is None and self.idle_budget is None:
            raise ValueError("give max_active_dags or idle_budget")
        return self


@router.get("", summary="All of admission: limits, submit hosts, who has a slot, and who waits")
async def show(_: Operator, inside: Inside) -> AdmissionSeen:
    return await inside.admission()


@router.get("/queue", summary="Who waits for a slot, highest priority first, then who has waited longest")
async def queue(_: Operator, inside: Inside) -> AdmissionQueue:
    state = await _state(inside)
    line = [
        InLine(request_name=asked.request, priority=asked.priority, round=asked.round)
        for asked in in_line(state)[:SHOWN_IN_LINE]
    ]
    first = line[0] if line else None
    return AdmissionQueue(
        active_dags=len(state.leases),
        max_active_dags=state.limit,
        queued_workflows=len(state.waiting),
        next_in_queue=None
        if first is None
        else NextInLine(**dict(first), queued_since=await _queued_since(inside, first.request_name)),
        waiting=line,
    )


@router.get("/config", summary="The limits of admission")
async def config(_: Operator, inside: Inside) -> AdmissionConfig:
    return _config(await _state(inside))


@router.patch("/config", summary="Change the limits of admission")
async def change(hand: AdminHand, inside: Inside, to: AdmissionChange) -> AdmissionConfig:
    limits = {"limit": to.max_active_dags, "idle_budget": to.idle_budget}
    return await _change(hand, inside, action="set", reason=to.reason, **limits)


@router.post("/drain", summary="Lend no more slots; rounds that have one run to their end")
async def drain(hand: AdminHand, inside: Inside, why: MaybeWhy = NO_REASON) -> AdmissionConfig:
    return await _change(hand, inside, action="drain", reason=why.reason)


@router.post("/resume", summary="Lend slots again after a drain")
async def resume(hand: AdminHand, inside: Inside, why: MaybeWhy = NO_REASON) -> AdmissionConfig:
    return await _change(hand, inside, action="resume", reason=why.reason)


async def _state(inside: Service) -> AdmissionState:
    """As it begins, where nobody has needed it yet."""
    return await admission_state(await inside.temporal()) or AdmissionState()


async def _change(hand: Hand, inside: Service, **asked: Any) -> AdmissionConfig:
    order = AdmissionOrder(actor=hand.caller.identity, action_id=hand.action_id, **asked)
    return _config(await change_admission(await inside.temporal(), order))


def _config(state: AdmissionState) -> AdmissionConfig:
    return AdmissionConfig(
        max_active_dags=state.limit,
        idle_budget=state.idle_budget,
        draining=state.draining,
        concurrent_work_units=state.concurrent_work_units,
    )


async def _queued_since(inside: Service, name: str) -> datetime | None:
    record = await inside.read(find_request, name)
    steps = record.status_transitions if record else ()
    return next((step.at for step in reversed(steps) if step.to_status is RequestStatus.QUEUED), None)
