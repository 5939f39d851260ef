"""What can be taken back of a request's outputs."""

from __future__ import annotations

from sqlalchemy.orm import Session

from wms2.db.output_list import list_outputs
from wms2.db.requests import request_record
from wms2.errors import Contradiction
from wms2.models.output import OutputStanding
from wms2.models.output_list import ListedOutput


def outputs_to_undo(session: Session, name: str, dataset: str | None) -> list[ListedOutput]:
    """The datasets, or a Contradiction when there is nothing to take back, or nothing yet."""
    status = request_record(session, name).status
    if not status.is_final:
        raise Contradiction(
            f"{name} is {status} and may still make files: fail, restart or abort it first, or let it end"
        )
    found = [
        output
        for output in list_outputs(session, name, dataset)
        if output.standing is not OutputStanding.INVALIDATED
    ]
    if not found:
        raise Contradiction(
            f"{name} has nothing to take back{f' of {dataset}' if dataset else ''}; `wms2 output show {name}` tells"
        )
    return found
