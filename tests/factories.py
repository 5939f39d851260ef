"""Requests and snapshots for tests: say what matters, leave the rest."""

from datetime import UTC, datetime
from typing import Any

from wms2.core.sizing import sizing_of
from wms2.models.plan import InputFile, Limits, Snapshot
from wms2.models.request import Request
from wms2.models.workflow import Round, RoundKind, RoundStatus

SITES = ("T1_US_FNAL", "T2_CH_CERN", "T2_DE_DESY", "T2_US_Purdue")


def simulation(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "request_name": "simulation",
        "requestor": "tester",
        "campaign": "Tests",
        "acquisition_era": "Run2024A",
        "processing_string": "Test",
        "processing_version": 1,
        "primary_dataset": "MinBias",
        "total_events": 1000,
        "outputs": [
            {
                "module": "RAWSIMoutput",
                "tier": "GEN-SIM",
                "step": "GEN",
                "dataset": "/MinBias/Run2024A-Test-v1/GEN-SIM",
            }
        ],
        "splitting_algo": "EventBased",
        "splitting_params": {"events_per_job": 100, "events_per_lumi": 40},
        "payload_config": {"steps": [{"name": "GEN", "type": "demo"}]},
    }
    return Request.model_validate(fields | changes)


def reprocessing(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "request_name": "reprocessing",
        "primary_dataset": None,
        "total_events": None,
        "input_dataset": "/MinBias/Run2024A-v1/RAW",
        "outputs": [
            {
                "module": "RECOoutput",
                "tier": "RECO",
                "step": "RECO",
                "dataset": "/MinBias/Run2024A-Test-v1/RECO",
            }
        ],
        "splitting_algo": "FileBased",
        "splitting_params": {"files_per_job": 2},
        "payload_config": {"steps": [{"name": "RECO", "type": "demo"}]},
    }
    return simulation(**(fields | changes))


def rounds(number: int, last: RoundStatus = RoundStatus.COMPLETED) -> list[Round]:
    """As many rounds, all of them over but for the last one if so told."""
    return [
        Round(
            request_name="simulation",
            number=one,
            kind=RoundKind.PRODUCTION if one else RoundKind.PILOT,
            status=last if one == number - 1 else RoundStatus.COMPLETED,
            snapshot_digest="0" * 64,
            work_units=1,
            nodes=4,
            planned_events=100,
            first_event=None,
            last_event=None,
            submit_host="here",
            created_at=datetime(2024, 1, 1, tzinfo=UTC),
            closed_at=None,
        )
        for one in range(number)
    ]


def input_file(
    number: int,
    events: int = 100,
    locations: tuple[str, ...] = SITES[:1],
    size: int = 10**6,
    **more: Any,
) -> InputFile:
    return InputFile(
        lfn=f"/store/data/Run2024A/MinBias/RAW/v1/000/{number:06d}.root",
        size_bytes=size,
        events=events,
        locations=locations,
        **more,
    )


def snapshot(request: Request | None = None, **changes: Any) -> Snapshot:
    request = request or simulation()
    fields: dict[str, Any] = {
        "request": request,
        "events": request.total_events or 0,
        "sites": SITES,
        "sizing": sizing_of(request, None),
        "limits": Limits(log_scan_sec=1, status_sec=1, cool_off_sec=0),
    }
    return Snapshot(**(fields | changes))
