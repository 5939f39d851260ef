"""What became of documents of ReqMgr2: taken on once, refused once, and how far ReqMgr2 was told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.core.reporting import ENDS
from wms2.db.ledger import rounds_of
from wms2.db.notices import queue_alert
from wms2.db.requests import insert_request
from wms2.db.tables import ImportRow, LinkRow, ParameterSetRow, RequestRow
from wms2.errors import UserError
from wms2.models.chain import LinkedRequest
from wms2.models.imports import ImportRecord, Member, Report, Standing
from wms2.models.messages import Alert
from wms2.models.parameter_set import ParameterSet, PsetFile
from wms2.models.request import RequestStatus


def find_import(session: Session, name: str) -> ImportRecord | None:
    row = session.get(ImportRow, name, populate_existing=True)
    return None if row is None else _record(row)


def list_imports(session: Session, limit: int = 1000, offset: int = 0) -> list[ImportRecord]:
    """The newest first."""
    query = select(ImportRow).order_by(ImportRow.created_at.desc(), ImportRow.name)
    return [_record(row) for row in session.scalars(query.limit(limit).offset(offset))]


def record_import(
    session: Session, name: str, digest: str, linked: Sequence[LinkedRequest], sets: Iterable[ParameterSet]
) -> ImportRecord:
    """Take a document on, with all of its requests. Whoever comes second finds what the first one took."""
    row = _locked(session, name, digest)
    if row.requests:
        return _record(row)
    for found in sets:
        kept = insert(ParameterSetRow).values(digest=found.digest, content=found.content)
        session.execute(kept.on_conflict_do_nothing())
    for link in linked:
        waits = link.parent is not None
        insert_request(session, link.request, RequestStatus.NEW if waits else RequestStatus.SUBMITTED)
        if waits:
            session.add(LinkRow(request_name=link.request.request_name, parent_name=link.parent))
    row.digest, row.problem = digest, ""
    row.requests = [link.request.request_name for link in linked]
    row.updated_at = func.now()
    session.flush()
    session.refresh(row)
    return _record(row)


def record_refusal(session: Session, name: str, digest: str, problem: str, alert: Alert) -> bool:
    """Whether it is news that the document cannot be taken on; then people are told."""
    row = _locked(session, name, "")
    if row.requests or row.digest == digest:
        return False
    row.digest, row.problem, row.updated_at = digest, problem, func.now()
    session.flush()
    queue_alert(session, alert)
    return True


def unfinished_imports(session: Session) -> list[Standing]:
    """Those whose end ReqMgr2 does not have yet, each with how its requests stand."""
    query = select(ImportRow).where(
        func.jsonb_array_length(ImportRow.requests) > 0, ImportRow.settled.not_in(ENDS)
    )
    return [
        Standing(
            name=row.name,
            reported=row.reported,
            settled=row.settled,
            members=tuple(_member(session, request) for request in row.requests),
        )
        for row in session.scalars(query.order_by(ImportRow.created_at, ImportRow.name))
    ]


def record_report(session: Session, name: str, report: Report) -> bool:
    """Whether the problem is news; then people are told of it, once. What was refused is told ReqMgr2 again."""
    row = _locked(session, name, "")
    is_new_problem = row.report_problem != report.problem
    row.reported, row.report_problem = report.found, report.problem
    row.settled = "" if report.refused else report.wanted
    if session.is_modified(row):
        row.updated_at = func.now()
    session.flush()
    if is_new_problem and report.problem:
        queue_alert(session, Alert(request=row.requests[0], kind="reqmgr2", message=report.problem))
    return is_new_problem and bool(report.problem)


def import_of(session: Session, request_name: str) -> str | None:
    """The document that a request, or the first version of it, came from."""
    query = select(ImportRow.name).where(ImportRow.requests.contains([_first_version(session, request_name)]))
    return session.scalar(query)


def pset_contents(session: Session, files: Sequence[PsetFile]) -> dict[str, bytes]:
    """The configurations that the jobs of a request take along, by the name of their file."""
    query = select(ParameterSetRow).where(ParameterSetRow.digest.in_([file.digest for file in files]))
    known = {row.digest: row.content for row in session.scalars(query)}
    if missing := [file.name for file in files if file.digest not in known]:
        raise UserError(
            f"the configuration {missing[0]} is not in the database; fail the request, and import it again"
        )
    return {file.name: known[file.digest] for file in files}


def _locked(session: Session, name: str, digest: str) -> ImportRow:
    """The row, nobody else's until the transaction ends."""
    session.execute(insert(ImportRow).values(name=name, digest=digest).on_conflict_do_nothing())
    query = select(ImportRow).where(ImportRow.name == name).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).one()


def _member(session: Session, request_name: str) -> Member:
    """The newest version of a request counts."""
    columns = select(RequestRow.status, RequestRow.superseded_by_request)
    status, newer = session.execute(columns.where(RequestRow.request_name == request_name)).one()
    if newer is not None:
        return _member(session, newer)
    rounds = rounds_of(session, request_name)
    return Member(
        status=RequestStatus(status),
        rounds=len(rounds),
        has_open_round=any(round_.status.is_open for round_ in rounds),
    )


def _first_version(session: Session, request_name: str) -> str:
    query = select(RequestRow.previous_version_request).where(RequestRow.request_name == request_name)
    previous = session.scalar(query)
    return request_name if previous is None else _first_version(session, previous)


def _record(row: ImportRow) -> ImportRecord:
    return ImportRecord.model_validate({name: getattr(row, name) for name in ImportRecord.model_fields})
