"""Outputs: the datasets that requests make, and how to take them back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from wms2.api.doorman import Requestor
from wms2.api.service import Inside
from wms2.api.words import Limit, Name, Offset, OfRequest, OperatorHand, Why, next_offset, owner_of
from wms2.db.output_list import list_outputs
from wms2.models.base import Model
from wms2.models.output import OutputStanding, OutputStatus
from wms2.models.output_list import ListedOutput, OutputDetails
from wms2.models.undo import UndoOrder
from wms2.patterns import OutputDatasetName

router = APIRouter(tags=["Outputs"])


class OutputPage(Model):
    outputs: list[ListedOutput]
    next: int | None = Field(description="the offset of the next page; null for the last one")


class Invalidate(Why):
    dataset: OutputDatasetName | None = Field(None, description="one of them; else all of the request")


class Undoing(Model):
    request_name: str
    datasets: list[str]
    message: str


@router.get("/outputs", summary="List output datasets, newest first")
async def list_all(
    caller: Requestor,
    inside: Inside,
    request: OfRequest = None,
    status: Annotated[list[OutputStatus] | None, Query(description="Only these.")] = None,
    standing: Annotated[list[OutputStanding] | None, Query(description="Only these.")] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> OutputPage:
    found = await inside.read(
        list_outputs, request, None, status or (), standing or (), limit, offset, owner_of(caller)
    )
    return OutputPage(outputs=found, next=next_offset(len(found), limit, offset))


@router.get("/requests/{name}/outputs", summary="The output datasets of a request, with their blocks")
async def show(name: Name, caller: Requestor, inside: Inside) -> list[OutputDetails]:
    await inside.check_sees(caller, name)
    return await inside.outputs_of(name)


@router.post(
    "/requests/{name}/outputs/invalidate",
    status_code=202,
    summary="Take back what DBS and Rucio were told of a request's outputs. This is final",
)
async def invalidate(name: Name, hand: OperatorHand, inside: Inside, order: Invalidate) -> Undoing:
    """The request must have ended. Rucio removes the files when no rule of anybody holds them any more."""
    found = await inside.outputs_to_undo(name, order.dataset)
    undo = UndoOrder(
        request=name,
        dataset=order.dataset,
        reason=order.reason,
        actor=hand.caller.identity,
        action_id=hand.action_id,
    )
    await inside.undo(undo)
    return Undoing(
        request_name=name,
        datasets=[one.dataset for one in found],
        message=f"the outputs of {name} are being taken back; GET /api/v1/requests/{name}/outputs tells how far it is",
    )
