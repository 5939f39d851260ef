"""The tables. Only functions of `wms2.db` write to them."""

from wms2.db.tables.dags import DagHistoryRow, DagRow
from wms2.db.tables.ledger import InputFileRow, RoundRow, WorkUnitRow
from wms2.db.tables.outputs import OutputBlockRow, OutputDatasetRow, OutputFileRow
from wms2.db.tables.requests import AuditRow, RequestRow, WorkflowRow
from wms2.db.tables.sites import SiteBanRow, SiteRow, SubmitHostRow

__all__ = [
    "AuditRow",
    "DagHistoryRow",
    "DagRow",
    "InputFileRow",
    "OutputBlockRow",
    "OutputDatasetRow",
    "OutputFileRow",
    "RequestRow",
    "RoundRow",
    "SiteBanRow",
    "SiteRow",
    "SubmitHostRow",
    "WorkUnitRow",
    "WorkflowRow",
]
