"""What a person asks of a request that lives. Each is an update of its workflow, which refuses what does not fit."""

from __future__ import annotations

from typing import Annotated, Any, Self

from fastapi import APIRouter, Body
from pydantic import Field, model_validator

from wms2.api.service import Inside, Service
from wms2.api.words import (
    NO_REASON,
    Hand,
    MaybeWhy,
    Name,
    OperatorHand,
    Reason,
    ReasonInQuery,
    RequestorHand,
    Why,
)
from wms2.core.plain import plain_line
from wms2.models.actions import Action
from wms2.models.base import Count, Flag, Model
from wms2.models.messages import (
    Changes,
    DropAction,
    JudgeAction,
    OperatorAction,
    PriorityAction,
    ReleaseAction,
    RestartAction,
    SizeAction,
)
from wms2.models.policy import FailureRule
from wms2.models.request import CleanupPolicy, Priority, RequestRecord, RequestStatus
from wms2.models.sizing import SizingOverride
from wms2.patterns import Lfn

router = APIRouter(prefix="/requests", tags=["Actions on requests"])

TOWARDS: dict[RequestStatus, Action] = {
    RequestStatus.QUEUED: Action.RELEASE,
    RequestStatus.HELD: Action.HOLD,
    RequestStatus.STOPPING: Action.STOP,
    RequestStatus.FAILED: Action.FAIL,
    RequestStatus.ABORTED: Action.ABORT,
}
"""The action that brings a request to a status that people can want."""


class Acted(Model):
    """What was asked for is noted; the request does it next."""

    request_name: str
    action: Action
    action_id: str = Field(description="its name in the audit trail")
    previous_status: RequestStatus = Field(description="before it was asked")
    status: RequestStatus = Field(
        description="as it is recorded now; what was asked for may be still to come"
    )
    reason: str
    stop_reason: str | None = Field(None, description="of a stop: the reason")
    message: str = Field(description="the answer of the request's workflow")


class Patch(Model):
    """Another priority, or the status that the request should go to."""

    priority: Priority | None = None
    status: RequestStatus | None = Field(
        None, description="queued (release), held (hold), stopping (stop), failed (fail) or aborted (abort)"
    )
    reason: Reason = ""

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if (self.priority is None) is (self.status is None):
            raise ValueError("expected either a priority or a status")
        if self.status is not None and self.status not in TOWARDS:
            raise ValueError(f"expected a status that can be asked for: {', '.join(TOWARDS)}")
        return self


class Release(Why):
    """Changes are in force before it goes on, and for all rounds to come."""

    rescue: Flag = Field(False, description="go on with the same DAG, its rescues counted anew")
    changes: Changes = Field(
        Changes(),
        description="files to leave out, sites to avoid, memory, thresholds",
        examples=[{"avoid_sites": ["T2_US_Purdue"], "memory_mb": 4000}],
    )


AS_IT_WAS = Release()


class Restart(Why):
    """What becomes of outputs that are replaced can be decided anew."""

    cleanup_policy: CleanupPolicy | None = Field(
        None,
        description="of its outputs, once the next version is complete, and of those of that version; "
        "as the request has it if it is not given",
    )


AS_ASKED_FOR = Restart()


class Drop(Why):
    """One of the four."""

    files: tuple[Lfn, ...] = Field((), max_length=1000)
    units: tuple[Count, ...] = Field((), max_length=1000, description="numbers of work units")
    files_left: Flag = False
    events_left: Flag = False


class Judge(Why):
    rule: FailureRule = Field(
        examples=[{"name": "licence", "category": "transient", "exit_codes": [123]}],
        description="what failures are that no rule knows",
    )


class Prioritise(Why):
    priority: Priority


class Size(Why):
    change: SizingOverride = SizingOverride()
    clear: Flag = Field(False, description="forget all that was decided before")


async def ask(inside: Service, hand: Hand, record: RequestRecord, **fields: Any) -> Acted:
    """Ask the request's workflow. Who asks is who was let in, and nothing that the call says."""
    kind = _KINDS.get(fields["action"], OperatorAction)
    order = kind(actor=hand.caller.identity, action_id=hand.action_id, **fields)
    message = await inside.ask(record, order)
    name = record.request.request_name
    return Acted(
        request_name=name,
        action=order.action,
        action_id=order.action_id,
        previous_status=record.status,
        status=(await inside.record(name)).status,
        reason=order.reason,
        stop_reason=order.reason if order.action is Action.STOP else None,
        message=message,
    )


_KINDS: dict[Action, type[OperatorAction]] = {
    Action.RELEASE: ReleaseAction,
    Action.DROP: DropAction,
    Action.JUDGE: JudgeAction,
    Action.PRIORITY: PriorityAction,
    Action.RESTART: RestartAction,
    Action.SIZE: SizeAction,
}


@router.patch("/{name}", status_code=202, summary="Change the priority of a request, or where it should go")
async def patch(name: Name, hand: OperatorHand, inside: Inside, to: Patch) -> Acted:
    record = await inside.record(name)
    if to.status is not None:
        return await ask(inside, hand, record, action=TOWARDS[to.status], reason=to.reason)
    return await ask(inside, hand, record, action=Action.PRIORITY, priority=to.priority, reason=to.reason)


@router.delete("/{name}", status_code=202, summary="Cancel a request: its jobs are removed. This is final")
async def delete(name: Name, hand: RequestorHand, inside: Inside, reason: ReasonInQuery = "") -> Acted:
    """Requestors may cancel their own."""
    record = await inside.seen(hand.caller, name)
    why = plain_line(reason, 1000)
    return await ask(inside, hand, record, action=Action.ABORT, reason=why)


@router.post(
    "/{name}/abort", status_code=202, summary="Cancel a request: its jobs are removed. This is final"
)
async def abort(name: Name, hand: RequestorHand, inside: Inside, why: MaybeWhy = NO_REASON) -> Acted:
    """Requestors may cancel their own."""
    record = await inside.seen(hand.caller, name)
    return await ask(inside, hand, record, action=Action.ABORT, reason=why.reason)


@router.post("/{name}/stop", status_code=202, summary="Stop a DAG cleanly; the request queues again")
async def stop(name: Name, hand: OperatorHand, inside: Inside, why: MaybeWhy = NO_REASON) -> Acted:
    record = await inside.record(name)
    return await ask(inside, hand, record, action=Action.STOP, reason=why.reason)


@router.post("/{name}/hold", status_code=202, summary="Stop a request, and keep it held until it is released")
async def hold(name: Name, hand: OperatorHand, inside: Inside, why: MaybeWhy = NO_REASON) -> Acted:
    record = await inside.record(name)
    return await ask(inside, hand, record, action=Action.HOLD, reason=why.reason)


@router.post("/{name}/fail", status_code=202, summary="Give up a request that is held. This is final")
async def fail(name: Name, hand: OperatorHand, inside: Inside, why: MaybeWhy = NO_REASON) -> Acted:
    record = await inside.record(name)
    return await ask(inside, hand, record, action=Action.FAIL, reason=why.reason)


@router.post(
    "/{name}/restart", status_code=202, summary="Give a request up, and begin anew with its next version"
)
async def restart(
    name: Name, hand: OperatorHand, inside: Inside, way: Annotated[Restart, Body()] = AS_ASKED_FOR
) -> Acted:
    """Its outputs stay until the new version is complete; what follows its cleanup policy says, or the one given."""
    record = await inside.record(name)
    return await ask(inside, hand, record, action=Action.RESTART, **dict(way))


@router.post("/{name}/release", status_code=202, summary="Let a held request go on, with changes or without")
async def release(
    name: Name, hand: OperatorHand, inside: Inside, way: Annotated[Release, Body()] = AS_IT_WAS
) -> Acted:
    """Held because work units failed: the round is closed and new rounds make up for it; or, with `rescue`, the same
    DAG runs what is left. Also for a request that was submitted with `hold`.
    """
    record = await inside.record(name)
    fields = {"action": Action.RELEASE, "rescue": way.rescue, "changes": way.changes, "reason": way.reason}
    return await ask(inside, hand, record, **fields)


@router.post("/{name}/drop", status_code=202, summary="Do without a part of what was asked for")
async def drop(name: Name, hand: OperatorHand, inside: Inside, part: Drop) -> Acted:
    """The request stays held; released, it completes without that part. It cannot be taken back."""
    record = await inside.record(name)
    return await ask(inside, hand, record, action=Action.DROP, **dict(part))


@router.post("/{name}/judge", status_code=202, summary="Say what failures are that no rule knows")
async def judge(name: Name, hand: OperatorHand, inside: Inside, verdict: Judge) -> Acted:
    """The verdict is a rule of the request from now on. Held over such failures, it may go on by itself."""
    record = await inside.record(name)
    return await ask(inside, hand, record, action=Action.JUDGE, rule=verdict.rule, reason=verdict.reason)


@router.post("/{name}/priority", status_code=202, summary="Give a request another priority")
async def priority(name: Name, hand: OperatorHand, inside: Inside, to: Prioritise) -> Acted:
    """In the queue, for the jobs that are there, and for all that follow."""
    record = await inside.record(name)
    return await ask(inside, hand, record, action=Action.PRIORITY, **dict(to))


@router.post("/{name}/size", status_code=202, summary="Decide what jobs need, from the next round on")
async def size(name: Name, hand: OperatorHand, inside: Inside, to: Size) -> Acted:
    record = await inside.record(name)
    return await ask(inside, hand, record, action=Action.SIZE, **dict(to))
