"""What the next round of a request is, if there is one: decided from the ledger alone."""

from __future__ import annotations

import math

from wms2.models.base import PositiveCount
from wms2.models.ledger import Balance, InputFileState
from wms2.models.next_round import Need, NextRound
from wms2.models.plan import PilotPlan
from wms2.models.request import Completion, Request

PILOT_FILES = 5
PILOT_FRACTION = 100
"""The pilot begins with a hundredth of a job's events."""
ROUND_NODES = 10_000


def next_round(
    request: Request, balance: Balance, rounds_so_far: int, events_per_job: PositiveCount
) -> NextRound:
    """Pilot first unless the request is urgent; then rounds until the ledger closes."""
    pilot = rounds_so_far == 0 and not request.urgent
    if request.is_simulation:
        return _next_of_simulation(request, balance, pilot, events_per_job)
    return _next_of_input(balance, pilot, rounds_so_far)


def _next_of_simulation(request: Request, balance: Balance, pilot: bool, events_per_job: int) -> NextRound:
    wanted = request.total_events or 0
    done = balance.events_planned if request.completion is Completion.OFFSET else balance.events_produced
    if done >= wanted:
        return NextRound(need=Need.NOTHING)
    if balance.events_processed > 0 and balance.events_produced == 0:
        reason = f"none of {balance.events_processed} events passed the filters"
        return NextRound(need=Need.PERSON, reason=reason)
    generate = math.ceil((wanted - done) / efficiency(request, balance))
    if pilot:
        return NextRound(need=Need.PILOT, events=min(generate, events_per_job))
    return NextRound(need=Need.ROUND, events=min(generate, ROUND_NODES * events_per_job))


def efficiency(request: Request, balance: Balance) -> float:
    """The part of generated events that is written: measured once there is something to measure."""
    if request.completion is Completion.OFFSET:
        return 1.0
    if balance.events_processed and balance.events_produced:
        return min(1.0, balance.events_produced / balance.events_processed)
    return request.filter_efficiency


def _next_of_input(balance: Balance, pilot: bool, rounds_so_far: int) -> NextRound:
    files = {state: balance.files.get(state, 0) for state in InputFileState}
    left = files[InputFileState.AVAILABLE] + files[InputFileState.ATTEMPTED]
    # Before the first round the input has not been asked for, so there is nothing to count yet.
    if left == 0 and rounds_so_far > 0:
        return NextRound(need=Need.NOTHING)
    if pilot:
        return NextRound(need=Need.PILOT, files=min(left or PILOT_FILES, PILOT_FILES))
    return NextRound(need=Need.ROUND, files=left)


def pilot_plan(events_per_job: int, time_budget_sec: int, target_job_sec: int) -> PilotPlan:
    return PilotPlan(
        first_events=max(1, events_per_job // PILOT_FRACTION),
        time_budget_sec=time_budget_sec,
        target_job_sec=target_job_sec,
    )
