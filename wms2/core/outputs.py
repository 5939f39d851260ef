"""How far an output dataset is, from how far its blocks are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wms2.models.output import OutputStatus

FINAL = {OutputStatus.ANNOUNCED, OutputStatus.INVALIDATED}


@dataclass(frozen=True, slots=True)
class BlockSteps:
    """What was done for a block."""

    protected: bool
    registered: bool
    transfers_requested: bool
    transfers_looked_at: bool
    archived: bool
    source_released: bool


def dataset_status(now: str, blocks: Iterable[BlockSteps]) -> OutputStatus:
    """As far as the block that is furthest behind; what is announced or invalidated stays so."""
    if OutputStatus(now) in FINAL:
        return OutputStatus(now)
    steps = [_status(block) for block in blocks]
    order = list(OutputStatus)
    return min(steps, key=order.index, default=OutputStatus.PENDING)


def _status(block: BlockSteps) -> OutputStatus:
    if not block.protected:
        return OutputStatus.PENDING
    if not block.registered:
        return OutputStatus.SOURCE_PROTECTED
    if block.archived:
        return OutputStatus.SOURCE_RELEASED if block.source_released else OutputStatus.TRANSFERRED
    if block.transfers_looked_at:
        return OutputStatus.TRANSFERRING
    return OutputStatus.TRANSFERS_REQUESTED if block.transfers_requested else OutputStatus.DBS_REGISTERED
