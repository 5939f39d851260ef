"""The tables. Only functions of `wms2.db` write to them."""

from wms2.db.tables.admission import AdmissionWordRow, SlotRow
from wms2.db.tables.dags import DagHistoryRow, DagRow
from wms2.db.tables.failures import FileFailureRow, NodeFailureRow
from wms2.db.tables.hosts import HostWordRow, SubmitHostRow
from wms2.db.tables.imports import ImportRow, LinkRow, ParameterSetRow
from wms2.db.tables.inputs import InputRuleRow
from wms2.db.tables.ledger import InputFileRow, RoundRow, WorkUnitRow
from wms2.db.tables.notices import DigestRow, NoticeRow
from wms2.db.tables.outputs import OutputBlockRow, OutputDatasetRow, OutputFileRow
from wms2.db.tables.requests import AuditRow, RequestRow, WorkflowRow
from wms2.db.tables.silences import SilenceRow
from wms2.db.tables.sites import SiteBanRow, SiteRow

__all__ = [
    "AdmissionWordRow",
    "AuditRow",
    "DagHistoryRow",
    "DagRow",
    "DigestRow",
    "FileFailureRow",
    "HostWordRow",
    "ImportRow",
    "InputFileRow",
    "InputRuleRow",
    "LinkRow",
    "NodeFailureRow",
    "NoticeRow",
    "OutputBlockRow",
    "OutputDatasetRow",
    "OutputFileRow",
    "ParameterSetRow",
    "RequestRow",
    "RoundRow",
    "SilenceRow",
    "SiteBanRow",
    "SiteRow",
    "SlotRow",
    "SubmitHostRow",
    "WorkUnitRow",
    "WorkflowRow",
]
