"""When a workflow begins a new history."""

from __future__ import annotations

from temporalio import workflow

LONG = 1_000
"""Events. Temporal itself suggests it at four times that: a worker that takes a workflow up reads all of them."""


def history_is_long() -> bool:
    info = workflow.info()
    return info.get_current_history_length() >= LONG or info.is_continue_as_new_suggested()
