"""Chains of requests: what one that waits for its input is told."""

from __future__ import annotations

from wms2.models.chain import Waiting
from wms2.models.request import RequestStatus

_HINT = "abort this one, or release it to read what is there"
_PARENT = {
    RequestStatus.HELD: ", which is held",
    RequestStatus.FAILED: f", which has failed: {_HINT}",
    RequestStatus.ABORTED: f", which was aborted: {_HINT}",
}


def waiting_words(waiting: Waiting) -> str:
    """What it waits for, and whether that may never come."""
    return f"waits for {waiting.dataset} of {waiting.parent}{_PARENT.get(waiting.parent_status, '')}"


def may_start(waiting: Waiting) -> bool:
    """A request is complete when all of its outputs are announced."""
    return waiting.parent_status is RequestStatus.COMPLETED


def input_words(waiting: Waiting) -> str:
    return f"{waiting.dataset} of {waiting.parent} is there"
