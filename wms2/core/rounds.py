"""What the next round of a request is, if there is one: decided from the ledger alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wms2.models.base import PositiveCount
from wms2.models.ledger import Balance, InputFileState
from wms2.models.next_round import Need, NextRound
from wms2.models.plan import PilotPlan
from wms2.models.request import Completion, ProductionStep, Request
from wms2.models.workflow import Round, RoundKind

PILOT_FILES = 5
TELLING_EVENTS = 10
"""Where so many were expected, none at all is no chance: once in twenty thousand times."""
PILOT_FRACTION = 100
"""The pilot begins with a hundredth of a job's events."""
TAIL_FRACTION = 10
"""The last tenth of a round's work units goes first."""
TAIL_RAISE = 100_000
RESCUE_RAISE = 50_000
"""What failed once goes before what was never tried."""


def next_round(
    request: Request, balance: Balance, rounds: Sequence[Round], events_per_job: PositiveCount
) -> NextRound:
    """Pilot first unless the request is urgent; then rounds until the ledger closes.

    A round that is open although the request does not know of it comes first: planned again it is the same one.
    """
    if unknown := next((one for one in rounds if one.status.is_open), None):
        need = Need.PILOT if unknown.kind is RoundKind.PILOT else Need.ROUND
        return NextRound(need=need, events=unknown.planned_events, priority=request.priority)
    pilot = not rounds and not request.urgent
    if request.is_simulation:
        return _next_of_simulation(request, balance, pilot, events_per_job)
    return _next_of_input(request, balance, pilot, len(rounds))


def _next_of_simulation(request: Request, balance: Balance, pilot: bool, events_per_job: int) -> NextRound:
    total = (request.total_events or 0) - balance.events_dropped
    done = _events_done(request, balance)
    if done >= total:
        return NextRound(need=Need.NOTHING)
    if _nothing_passes(request, balance):
        reason = (
            f"none of {balance.events_processed} events passed the filters, "
            f"where the request says that one in {1 / request.filter_efficiency:.0f} does"
        )
        return NextRound(need=Need.PERSON, reason=reason)
    step = production_step(request, total, done)
    generate = math.ceil((_part(total, step) - done) / efficiency(request, balance))
    if pilot:
        return NextRound(need=Need.PILOT, events=min(generate, events_per_job), priority=step.priority)
    return NextRound(need=Need.ROUND, events=generate, priority=step.priority)


def _nothing_passes(request: Request, balance: Balance) -> bool:
    """Whether enough was tried to see that the filters are not as the requestor said."""
    expected = balance.events_processed * request.filter_efficiency
    return balance.events_produced == 0 and expected >= TELLING_EVENTS


def _events_done(request: Request, balance: Balance) -> int:
    return balance.events_planned if request.completion is Completion.OFFSET else balance.events_produced


def events_left(request: Request, balance: Balance) -> int:
    """How many events of a simulation are still to come: requested - dropped = produced + left."""
    return max((request.total_events or 0) - balance.events_dropped - _events_done(request, balance), 0)


def events_of_units(request: Request, balance: Balance, planned_events: int) -> int:
    """What abandoned work units would have added to what was asked for, at most all that is left of it."""
    if request.completion is Completion.OFFSET:
        return 0
    expected = math.ceil(planned_events * efficiency(request, balance))
    return min(expected, events_left(request, balance))


def efficiency(request: Request, balance: Balance) -> float:
    """The part of generated events that is written: measured once there is something to measure."""
    if request.completion is Completion.OFFSET:
        return 1.0
    if balance.events_processed and balance.events_produced:
        return min(1.0, balance.events_produced / balance.events_processed)
    return request.filter_efficiency


def _next_of_input(request: Request, balance: Balance, pilot: bool, rounds_so_far: int) -> NextRound:
    total, left = _files(balance)
    # Before the first plan the input has not been asked for, so there is nothing to count yet.
    if left == 0 and (rounds_so_far > 0 or total > 0):
        return NextRound(need=Need.NOTHING)
    priority = production_step(request, total, total - left).priority
    if pilot:
        return NextRound(need=Need.PILOT, files=PILOT_FILES, priority=priority)
    return NextRound(need=Need.ROUND, priority=priority)


def files_to_plan(request: Request, balance: Balance) -> int | None:
    """About how many files the next round takes; None for all that are left."""
    total, left = _files(balance)
    step = production_step(request, total, total - left)
    return None if step.fraction == 1 else _part(total, step) - (total - left)


def _files(balance: Balance) -> tuple[int, int]:
    """How many files there are, and how many of them are still to be planned."""
    to_plan = (InputFileState.AVAILABLE, InputFileState.ATTEMPTED)
    return sum(balance.files.values()), sum(balance.files.get(state, 0) for state in to_plan)


def production_step(request: Request, total: int, done: int) -> ProductionStep:
    """The part of the sample that is being made: the first whose end is not reached yet."""
    rest = ProductionStep(fraction=1.0, priority=request.priority)
    return next((step for step in request.production_steps if done < _part(total, step) or not total), rest)


def _part(total: int, step: ProductionStep) -> int:
    return math.ceil(total * step.fraction)


def round_priority(priority: int, *, retried: bool) -> int:
    """The priority of a round's jobs before its last work units hurry."""
    return priority + RESCUE_RAISE if retried else priority


def in_the_tail(units_done: int, units: int) -> bool:
    """Whether nine tenths of a round's work units are done, and not all."""
    return 0 < (units - units_done) * TAIL_FRACTION <= units


def tail_priority(priority: int, units_done: int, units: int) -> int:
    """The priority of a round's jobs: higher for its last tenth."""
    return priority + TAIL_RAISE if in_the_tail(units_done, units) else priority


def pilot_plan(events_per_job: int, time_budget_sec: int) -> PilotPlan:
    return PilotPlan(first_events=max(1, events_per_job // PILOT_FRACTION), time_budget_sec=time_budget_sec)
