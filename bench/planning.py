"""Splitting a dataset into jobs, and planning a round of it: files of 1000 events in 10 lumi sections."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.case import Case
from wms2.core.planning import plan_round
from wms2.core.sizing import sizing_of
from wms2.core.splitting import split
from wms2.models.plan import InputFile, Snapshot
from wms2.models.request import Request

SIZES = (10_000, 100_000)
LUMIS_PER_FILE, EVENTS_PER_FILE = 10, 1000
SITE = "T1_US_FNAL"


def _snapshot(files: int, algorithm: str, params: Mapping[str, Any]) -> Snapshot:
    request = Request.model_validate(
        {
            "request_name": "bench",
            "requestor": "bench",
            "campaign": "Bench",
            "acquisition_era": "Run2024A",
            "processing_string": "Bench",
            "input_dataset": "/MinBias/Run2024A-v1/RAW",
            "outputs": [
                {
                    "module": "RECOoutput",
                    "tier": "RECO",
                    "step": "RECO",
                    "dataset": "/MinBias/Run2024A-Bench-v1/RECO",
                }
            ],
            "splitting_algo": algorithm,
            "splitting_params": params,
            "payload_config": {"steps": [{"name": "RECO", "type": "demo"}]},
        }
    )
    inputs = tuple(_file(number) for number in range(files))
    return Snapshot(request=request, inputs=inputs, sites=(SITE,), sizing=sizing_of(request, None))


def _file(number: int) -> InputFile:
    first = number * LUMIS_PER_FILE + 1
    return InputFile(
        lfn=f"/store/data/Run2024A/MinBias/RAW/v1/000/{number:06d}.root",
        size_bytes=2_000_000_000,
        events=EVENTS_PER_FILE,
        locations=(SITE,),
        lumis=((370_001, first, first + LUMIS_PER_FILE - 1),),
    )


def _split(snapshot: Snapshot) -> dict[str, int]:
    return {"jobs": len(split(snapshot).jobs)}


def _plan(snapshot: Snapshot) -> dict[str, int]:
    plan = plan_round(snapshot)
    return {"jobs": plan.jobs, "work_units": len(plan.work_units)}


def _splitting(name: str, algorithm: str, **params: Any) -> Case:
    return Case(name, "files", SIZES, partial(_snapshot, algorithm=algorithm, params=params), _split)


CASES = (
    _splitting("FileBased", "FileBased", files_per_job=5),
    _splitting("EventBased", "EventBased", events_per_job=500),
    _splitting("LumiBased", "LumiBased", lumis_per_job=8),
    _splitting("EventAwareLumiBased", "EventAwareLumiBased", events_per_job=5000),
    _splitting("LumiBased, one job", "LumiBased", lumis_per_job=10**9),
    _splitting("EventAwareLumiBased, one job", "EventAwareLumiBased", events_per_job=10**12),
    Case(
        "LumiBased, whole plan",
        "files",
        SIZES,
        partial(_snapshot, algorithm="LumiBased", params={"lumis_per_job": 8}),
        _plan,
    ),
)
