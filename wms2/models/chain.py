"""Requests that are linked by their datasets: one reads what another one makes."""

from __future__ import annotations

from wms2.models.base import Count, Model
from wms2.models.request import Request, RequestStatus
from wms2.patterns import Dataset, RequestName


class LinkedRequest(Model):
    """A request, and the one that makes its input; None for one whose input is there already."""

    request: Request
    parent: RequestName | None = None


class Waiting(Model):
    """A request that waits for its input, and how the one that makes it stands."""

    request: RequestName
    parent: RequestName
    dataset: Dataset
    parent_status: RequestStatus
    reason: str = ""
    """What people are told that it waits for."""


class ChainLinks(Model):
    """Where a request stands among those that it is linked with."""

    reads_from: RequestName | None = None
    read_by: tuple[RequestName, ...] = ()


class Advanced(Model):
    """What a look at all chains came to: how many still wait, and which were let go."""

    waiting: Count
    let_go: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = f"{self.waiting} requests wait for their input"
        return f"{words}; let go {', '.join(self.let_go)}" if self.let_go else words
