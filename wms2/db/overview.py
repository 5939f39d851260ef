"""A request with its rounds, DAGs, outputs and ledger, read in one go."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from wms2.core.measurement import comparisons
from wms2.db.audit import newest_entry
from wms2.db.chains import chain_links
from wms2.db.dags import dags_of_request
from wms2.db.failures import left_out_files
from wms2.db.imports import import_of
from wms2.db.inputs import input_progress
from wms2.db.invalidation import written_manifest
from wms2.db.ledger import balance, rounds_of
from wms2.db.requests import pilot_metrics_of, request_record
from wms2.db.sites import avoided_sites
from wms2.db.tables import OutputDatasetRow, OutputFileRow, WorkflowRow
from wms2.models.actions import Action as ActionName
from wms2.models.output import OutputFileStatus, OutputStatus
from wms2.models.overview import OutputSummary, RequestOverview, RequestProgress, SizedByHand
from wms2.models.request import Request
from wms2.models.sizing import SizingOverride

LEFT_OUT_SHOWN = 50


def request_progress(session: Session, request_name: str) -> RequestProgress:
    """How far a request is, or a UserError when there is none of that name."""
    record = request_record(session, request_name)
    return RequestProgress(
        record=record,
        pilot=pilot_metrics_of(session, request_name),
        rounds=tuple(rounds_of(session, request_name)),
        dags=tuple(dags_of_request(session, request_name)),
        outputs=_outputs(session, record.request),
        ledger=balance(session, request_name),
    )


def request_overview(session: Session, request_name: str) -> RequestOverview:
    """Everything that is known of a request, or a UserError when there is none of that name."""
    progress = request_progress(session, request_name)
    return RequestOverview(
        **dict(progress),
        sized_by_hand=_sized_by_hand(session, request_name),
        accuracy=tuple(comparison for round in progress.rounds for comparison in comparisons(round)),
        left_out=tuple(left_out_files(session, request_name, LEFT_OUT_SHOWN)),
        invalidation=written_manifest(session, request_name),
        input=input_progress(session, request_name),
        avoided_sites=avoided_sites(session, request_name),
        links=chain_links(session, request_name),
        imported_from=import_of(session, request_name),
    )


def _sized_by_hand(session: Session, request_name: str) -> SizedByHand | None:
    """The newest word of an operator, which tells all that is in force; None when it cleared what was."""
    entry = newest_entry(session, request_name, ActionName.SIZE)
    if entry is None or not entry.action.detail:
        return None
    return SizedByHand(
        override=SizingOverride.model_validate(entry.action.detail),
        actor=entry.action.actor,
        at=entry.at,
        reason=entry.action.reason,
    )


def _outputs(session: Session, request: Request) -> tuple[OutputSummary, ...]:
    """In the request's own order; a dataset has no row before its first file."""
    registered = OutputFileRow.status == OutputFileStatus.REGISTERED
    query = (
        select(
            OutputDatasetRow.dataset_name.label("dataset"),
            OutputDatasetRow.status,
            OutputDatasetRow.announced_at,
            func.count(OutputFileRow.id).label("files"),
            func.count(OutputFileRow.id).filter(registered).label("registered"),
            func.coalesce(func.sum(OutputFileRow.events), 0).label("events"),
            func.coalesce(func.sum(OutputFileRow.size_bytes), 0).label("size_bytes"),
        )
        .join(WorkflowRow, WorkflowRow.id == OutputDatasetRow.workflow_id)
        .outerjoin(OutputFileRow, OutputFileRow.output_dataset_id == OutputDatasetRow.id)
        .where(WorkflowRow.request_name == request.request_name)
        .group_by(OutputDatasetRow.id)
    )
    known = {row.dataset: _summary(dict(row._mapping)) for row in session.execute(query)}
    return tuple(known.get(dataset) or _pending(dataset) for dataset in request.output_datasets)


def _summary(columns: dict[str, object]) -> OutputSummary:
    # PostgreSQL sums big integers as decimals.
    whole = {name: int(str(columns[name])) for name in ("files", "registered", "events", "size_bytes")}
    return OutputSummary.model_validate(columns | whole)


def _pending(dataset: str) -> OutputSummary:
    return OutputSummary(
        dataset=dataset,
        status=OutputStatus.PENDING,
        files=0,
        registered=0,
        events=0,
        size_bytes=0,
        announced_at=None,
    )
