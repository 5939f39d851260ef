"""Who gets a slot, and on which submit host: strict priority, then age, within what may be lent and hosts can carry.

The state is never changed in place: every function takes one and returns the next.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_serializer,
    field_validator,
)

from wms2.core.packing import pack, unpack
from wms2.models.admission import AdmissionSeen, HostRoom
from wms2.models.messages import AdmissionOrder, HostList, Slot, SlotRequest
from wms2.models.plan import CONCURRENT_WORK_UNITS

SHOWN_IN_LINE = 10
REMEMBERED_ACTIONS = 50
MOST_IDLE_JOBS = 100
"""What a DAGMan may keep idle at most, however large the budget: a work unit seldom has more jobs, and what is not
shared out is there when the limit is raised."""
PACKED_FROM = 1_000
"""So many requests travel in packed form: Temporal takes no more than 2 MB, and a place in line can need 700 bytes."""

T = TypeVar("T")


class Waiter(BaseModel):
    """A request in line. The lower its turn, the longer ago it asked."""

    model_config = ConfigDict(frozen=True)

    asked: SlotRequest
    turn: int


class Lease(BaseModel):
    """A slot that is lent. Until it is told, its request does not know of it."""

    model_config = ConfigDict(frozen=True)

    slot: Slot
    told: bool = False


class AdmissionState(BaseModel):
    """Everything admission knows, by request and by host. Fields are only ever added, with a default."""

    model_config = ConfigDict(frozen=True)

    version: int = 1
    limit: int = 300
    """How many slots may be lent at a time."""
    idle_budget: int = 1_000_000
    """How many idle jobs all slots may have together: what the negotiator of the pool can look at."""
    draining: bool = False
    """Nothing more is lent; what is lent runs to its end."""
    concurrent_work_units: int = CONCURRENT_WORK_UNITS
    hosts: dict[str, int] = {}
    """How many DAGMan processes each submit host may run."""
    hosts_at: datetime | None = None
    """When the hosts were so."""
    waiting: dict[str, Waiter] = {}
    leases: dict[str, Lease] = {}
    next_turn: int = 0
    look_at: datetime | None = None
    """When requests that are gone are looked for next."""
    handled_actions: tuple[str, ...] = ()
    """Ids of the latest actions: a repeated one has no second effect."""

    @field_serializer("waiting", "leases", mode="wrap", when_used="json")
    def _pack_many(self, entries: dict[str, Any], plain: SerializerFunctionWrapHandler) -> Any:
        return plain(entries) if len(entries) < PACKED_FROM else pack(plain(entries))

    @field_validator("waiting", "leases", mode="before")
    @classmethod
    def _unpack_many(cls, entries: Any) -> Any:
        return unpack(entries) if isinstance(entries, str) else entries

    @property
    def slot_cost(self) -> int:
        """The DAGMan processes of one slot."""
        return 1 + self.concurrent_work_units

    @property
    def idle_share(self) -> int:
        """How many jobs each DAGMan of the next slot may keep idle. Zero where the budget is too small."""
        fair = self.idle_budget // (max(self.limit, 1) * self.concurrent_work_units)
        return min(fair, MOST_IDLE_JOBS)

    @property
    def idle_lent(self) -> int:
        """How many idle jobs the slots may have that are lent."""
        shares = (lease.slot.idle_jobs or 0 for lease in self.leases.values())
        return sum(shares) * self.concurrent_work_units


def ask(state: AdmissionState, asked: SlotRequest) -> AdmissionState:
    """Put a request in line. A request has one place: a newer question takes over an older one's.

    Asking again changes the priority and keeps the turn. Whoever asks for a slot it already has did not hear
    of it, and is told again.
    """
    if _knows_newer(state, asked):
        return state
    lease, waiter = state.leases.get(asked.request), state.waiting.get(asked.request)
    if lease and lease.slot.age == asked.age:
        untold = lease.model_copy(update={"told": False})
        return state.model_copy(update={"leases": {**state.leases, asked.request: untold}})
    turn = waiter.turn if waiter else state.next_turn
    return state.model_copy(
        update={
            "leases": _without(state.leases, asked.request),
            "waiting": {**state.waiting, asked.request: Waiter(asked=asked, turn=turn)},
            "next_turn": state.next_turn + (0 if waiter else 1),
        }
    )


def give_back(state: AdmissionState, returned: SlotRequest) -> AdmissionState:
    """Take a request's slot back, or its place in line. What belongs to a newer question stays."""
    return state if _knows_newer(state, returned) else forget(state, [returned.request])


def forget(state: AdmissionState, gone: list[str]) -> AdmissionState:
    """Free the slots and the places of requests that are gone."""
    return state.model_copy(
        update={"leases": _without(state.leases, *gone), "waiting": _without(state.waiting, *gone)}
    )


def remember(state: AdmissionState, slots: list[Slot]) -> AdmissionState:
    """Know of slots that were lent before. Of a request that has said something since, its own word holds."""
    unknown = [slot for slot in slots if slot.age > _last_word(state, slot.request)]
    return state.model_copy(
        update={
            "leases": {**state.leases, **{slot.request: Lease(slot=slot, told=True) for slot in unknown}},
            "waiting": _without(state.waiting, *(slot.request for slot in unknown)),
        }
    )


def know_hosts(state: AdmissionState, listed: HostList) -> AdmissionState:
    """Lend on these hosts and on no others. Slots that are lent elsewhere stay so until they are given back."""
    if state.hosts_at is not None and listed.at < state.hosts_at:
        return state
    return state.model_copy(update={"hosts": dict(listed.dagmans), "hosts_at": listed.at})


def change(state: AdmissionState, asked: AdmissionOrder) -> AdmissionState:
    """Do what a person asks. Slots above a lowered limit or budget stay lent until they are given back."""
    if asked.action_id in state.handled_actions:
        return state
    draining = {"set": state.draining, "drain": True, "resume": False}[asked.action]
    handled = (*state.handled_actions, asked.action_id)[-REMEMBERED_ACTIONS:]
    return state.model_copy(update={**asked.given, "draining": draining, "handled_actions": handled})


def mistakes(state: AdmissionState, asked: AdmissionOrder) -> list[str]:
    """Why it cannot be done, a sentence each."""
    if asked.action_id in state.handled_actions:
        return []
    try:
        asked.audited()
    except ValidationError as error:
        return [f"the record cannot hold it: {error.errors()[0]['msg']}"]
    if (asked.action == "set") != bool(asked.given):
        return ["give a limit or an idle budget to set, and nothing with any other action"]
    after = change(state, asked)
    if after.draining == state.draining and asked.action != "set":
        return ["it drains already" if state.draining else "it does not drain"]
    if after.idle_share < 1:
        least = after.limit * after.concurrent_work_units
        return [f"{after.limit} slots need an idle budget of {least} jobs at least, one for each work unit"]
    return []


def in_line(state: AdmissionState) -> list[SlotRequest]:
    """Those who wait: highest priority first, then the oldest request, whichever of its rounds asks."""
    return [waiter.asked for waiter in sorted(state.waiting.values(), key=_place)]


def free_dagmans(state: AdmissionState) -> dict[str, int]:
    """What each host can still carry; below zero after it announced less than it was lent."""
    free = dict(state.hosts)
    for lease in state.leases.values():
        if lease.slot.host in free:
            free[lease.slot.host] -= state.slot_cost
    return free


def open_slots(state: AdmissionState) -> int:
    """How many slots could be lent now, had the hosts room for them."""
    share = state.idle_share
    if state.draining or share < 1:
        return 0
    idle_left = state.idle_budget - state.idle_lent
    return max(0, min(state.limit - len(state.leases), idle_left // (share * state.concurrent_work_units)))


def due(state: AdmissionState) -> list[Slot]:
    """The slots to lend now, in order. Who finds no room on a host is passed over and keeps the place."""
    free, most, share = free_dagmans(state), open_slots(state), state.idle_share
    slots: list[Slot] = []
    for asked in in_line(state):
        if len(slots) >= most:
            break
        host = _choose_host(free, state.slot_cost, asked.host)
        if host is not None:
            free[host] -= state.slot_cost
            slots.append(
                Slot(request=asked.request, round=asked.round, host=host, said=asked.said, idle_jobs=share)
            )
    return slots


def lend(state: AdmissionState) -> AdmissionState:
    """Lend every slot that is due. The leases are untold still."""
    slots = due(state)
    return state.model_copy(
        update={
            "leases": {**state.leases, **{slot.request: Lease(slot=slot) for slot in slots}},
            "waiting": _without(state.waiting, *(slot.request for slot in slots)),
        }
    )


def untold(state: AdmissionState) -> list[Slot]:
    return [lease.slot for lease in state.leases.values() if not lease.told]


def is_lent(state: AdmissionState, slot: Slot) -> bool:
    lease = state.leases.get(slot.request)
    return lease is not None and lease.slot == slot


def told(state: AdmissionState, slots: list[Slot]) -> AdmissionState:
    leases = {slot.request: Lease(slot=slot, told=True) for slot in slots}
    return state.model_copy(update={"leases": {**state.leases, **leases}})


def unreachable(state: AdmissionState, slot: Slot) -> AdmissionState:
    """Free a slot whose request could not be told, unless the request has asked again since."""
    if state.leases.get(slot.request) != Lease(slot=slot, told=True):
        return state
    return forget(state, [slot.request])


def seen(state: AdmissionState) -> AdmissionSeen:
    """The state, for whoever looks at admission."""
    free = free_dagmans(state)
    return AdmissionSeen(
        limit=state.limit,
        idle_budget=state.idle_budget,
        idle_lent=state.idle_lent,
        idle_share=state.idle_share,
        draining=state.draining,
        hosts=tuple(HostRoom(host=host, dagmans=state.hosts[host], free=free[host]) for host in sorted(free)),
        slots=tuple(lease.slot for lease in state.leases.values()),
        waiting=tuple(in_line(state)),
    )


def as_markdown(state: AdmissionState) -> str:
    """The state in words, for whoever looks at the workflow."""
    drained = "; it drains, and lends nothing more" if state.draining else ""
    lines = [
        f"**{len(state.leases)}** of {state.limit} slots lent, **{len(state.waiting)}** requests wait{drained}",
        "",
        f"- {state.idle_lent} of {state.idle_budget} idle jobs shared out",
    ]
    free = free_dagmans(state)
    lines += [f"- {host}: {free[host]} of {state.hosts[host]} DAGMans free" for host in sorted(free)]
    if not free:
        lines.append("- No submit host can be used: `wms2 host list` says why.")
    if first := in_line(state)[:SHOWN_IN_LINE]:
        lines += [
            "",
            "Next in line: " + ", ".join(f"{one.request} (priority {one.priority})" for one in first),
        ]
    return "\n".join(lines)


def _knows_newer(state: AdmissionState, late: SlotRequest) -> bool:
    """Whether the request has said something newer since, and has a slot or a place in line for it."""
    return _last_word(state, late.request) > late.age


def _last_word(state: AdmissionState, request: str) -> tuple[int, int]:
    """The age of what a request has a slot or a place in line for; less than any where it has neither."""
    if lease := state.leases.get(request):
        return lease.slot.age
    waiter = state.waiting.get(request)
    return waiter.asked.age if waiter else (-1, -1)


def _place(waiter: Waiter) -> tuple[int, float, int]:
    """The lower, the sooner it is served. Who does not tell its age asked before those who do."""
    created = waiter.asked.created_at
    return -waiter.asked.priority, created.timestamp() if created else 0.0, waiter.turn


def _choose_host(free: dict[str, int], cost: int, wanted: str | None) -> str | None:
    """The host with most room; of equals the first by name. A round that is planned has no choice."""
    fitting = [host for host, room in free.items() if room >= cost and wanted in (None, host)]
    return min(fitting, key=lambda host: (-free[host], host), default=None)


def _without(entries: dict[str, T], *names: str) -> dict[str, T]:
    dropped = set(names)
    return {name: entry for name, entry in entries.items() if name not in dropped}
