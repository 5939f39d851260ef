"""Requests that read what other requests make."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select, update
from sqlalchemy.orm import Session, aliased

from wms2.db.tables import LinkRow, RequestRow, WorkflowRow
from wms2.models.chain import ChainLinks, Waiting
from wms2.models.request import Request, RequestStatus


def waiting_requests(session: Session) -> list[Waiting]:
    """Those that have not started, the oldest first."""
    child, parent = aliased(RequestRow), aliased(RequestRow)
    query = (
        select(
            child.request_name, child.input_dataset, child.status_reason, parent.request_name, parent.status
        )
        .join(LinkRow, LinkRow.request_name == child.request_name)
        .join(parent, parent.request_name == LinkRow.parent_name)
        .where(child.status == RequestStatus.NEW)
        .order_by(child.request_no)
    )
    return [
        Waiting(
            request=name, dataset=dataset, reason=reason, parent=makes, parent_status=RequestStatus(status)
        )
        for name, dataset, reason, makes, status in session.execute(query)
    ]


def chain_links(session: Session, request_name: str) -> ChainLinks:
    """Whose output the request reads, and who reads its own."""
    parent = session.scalar(select(LinkRow.parent_name).where(LinkRow.request_name == request_name))
    readers = select(LinkRow.request_name).where(LinkRow.parent_name == request_name)
    return ChainLinks(
        reads_from=parent, read_by=tuple(session.scalars(readers.order_by(LinkRow.request_name)))
    )


def link_readers_anew(session: Session, old: str, clone: Request) -> None:
    """Requests that wait for the outputs of the old one wait for those of its next version from now on.

    One that has started, because a person released it, goes on with what it reads.
    """
    outputs = session.scalars(
        select(RequestRow.request_data["outputs"]).where(RequestRow.request_name == old)
    ).one()
    names = dict(zip((output["dataset"] for output in outputs), clone.output_datasets, strict=True))
    waiting = (
        select(RequestRow)
        .join(LinkRow, LinkRow.request_name == RequestRow.request_name)
        .where(LinkRow.parent_name == old, RequestRow.status == RequestStatus.NEW)
        .with_for_update(of=RequestRow)
    )
    for row in session.scalars(waiting.execution_options(populate_existing=True)).all():
        _link_anew(session, row, names, clone.request_name)


def _link_anew(session: Session, row: RequestRow, names: Mapping[str, str], parent: str) -> None:
    dataset = names[row.input_dataset or ""]
    row.input_dataset = dataset
    row.request_data = {**row.request_data, "input_dataset": dataset}
    session.execute(
        update(WorkflowRow).where(WorkflowRow.request_name == row.request_name).values(input_dataset=dataset)
    )
    session.execute(
        update(LinkRow).where(LinkRow.request_name == row.request_name).values(parent_name=parent)
    )
    session.flush()
