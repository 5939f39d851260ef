"""What can be taken back of a request's outputs."""

from __future__ import annotations

from collections.abc import Sequence

from wms2.errors import Contradiction
from wms2.models.output import OutputStanding
from wms2.models.output_list import ListedOutput
from wms2.models.request import RequestStatus


def outputs_to_undo(
    name: str, status: RequestStatus, dataset: str | None, outputs: Sequence[ListedOutput]
) -> list[ListedOutput]:
    """Those of its outputs, or a Contradiction when there is nothing to take back, or nothing yet."""
    if not status.is_final:
        raise Contradiction(
            f"{name} is {status} and may still make files: fail, restart or abort it first, or let it end"
        )
    found = [output for output in outputs if output.standing is not OutputStanding.INVALIDATED]
    if not found:
        raise Contradiction(
            f"{name} has nothing to take back{f' of {dataset}' if dataset else ''}; `wms2 output show {name}` tells"
        )
    return found
