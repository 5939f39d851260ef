"""A dataset to plan from: files of 1000 events in 10 lumi sections."""

from collections.abc import Mapping
from typing import Any

from wms2.core.sizing import sizing_of
from wms2.models.plan import InputFile, Limits, Snapshot
from wms2.models.request import Request

LUMIS_PER_FILE, EVENTS_PER_FILE = 10, 1000
JOBS_PER_WORK_UNIT = 40
UNBOUNDED = 10**9
SITE = "T1_US_FNAL"


def snapshot_of(files: int, algorithm: str, params: Mapping[str, Any]) -> Snapshot:
    """All of it in one round, however many nodes that makes."""
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
    return Snapshot(
        request=request,
        inputs=tuple(_file(number) for number in range(files)),
        sites=(SITE,),
        sizing=sizing_of(request, None),
        limits=Limits(nodes_per_round=UNBOUNDED, jobs_per_work_unit=JOBS_PER_WORK_UNIT),
    )


def _file(number: int) -> InputFile:
    first = number * LUMIS_PER_FILE + 1
    return InputFile(
        lfn=f"/store/data/Run2024A/MinBias/RAW/v1/000/{number:06d}.root",
        size_bytes=2_000_000_000,
        events=EVENTS_PER_FILE,
        locations=(SITE,),
        lumis=((370_001, first, first + LUMIS_PER_FILE - 1),),
    )
