"""Request files for end-to-end tests: small ones, of both kinds, whose jobs wait or fail where a test says so."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Document = dict[str, Any]
Fault = dict[str, Any]
"""See `wms2/local/faults.py`. Job numbers begin anew in each round, and a pilot has job 0 only."""

INPUT_FILES, FILES_PER_JOB, EVENTS_PER_FILE = 15, 5, 10
PILOT_JOB, SECOND_JOB = "proc_000000", "proc_000001"


def simulation(name: str, folder: Path, *faults: Fault, events: int = 100) -> Document:
    """A pilot of 20 events, then a round of jobs of 40 events, each a work unit of its own."""
    return _document(
        name,
        {"name": "GEN", "type": "demo", "parameters": _parameters(name, folder, faults)},
        outputs=[{"module": "RAWSIMoutput", "tier": "GEN-SIM", "step": "GEN"}],
        primary_dataset="MinBias",
        total_events=events,
        splitting_algo="EventBased",
        splitting_params={"events_per_job": 20},
    )


def pilot_only(name: str, folder: Path, *faults: Fault) -> Document:
    """20 events, which the pilot makes all, and in one go: how long they take must not tell it that it knows enough."""
    return simulation(name, folder, *faults, events=20) | {"splitting_params": {"events_per_job": 2000}}


def reprocessing(name: str, folder: Path, *faults: Fault) -> Document:
    """A pilot of five files in one job, then a round of two such jobs, each a work unit of its own."""
    return _document(
        name,
        {"name": "RECO", "type": "demo", "parameters": _parameters(name, folder, faults)},
        outputs=[{"module": "RECOoutput", "tier": "RECO", "step": "RECO"}],
        input_dataset=input_dataset(name),
        splitting_algo="FileBased",
        splitting_params={"files_per_job": FILES_PER_JOB},
    )


def task_chain(name: str, folder: Path, *faults: Fault) -> Document:
    """A document of ReqMgr2 with two tasks: the second one reads what the first one simulates. A pilot does it all."""
    made = [f"/MinBias/Run2024A-{word(name)}-v1/{tier}" for tier in ("GEN-SIM", "RECO")]
    return {
        "RequestName": name,
        "RequestType": "TaskChain",
        "RequestStatus": "assigned",
        "wms_backend": "wms2",
        "Requestor": "tester",
        "Campaign": "Tests",
        "AcquisitionEra": "Run2024A",
        "ProcessingString": word(name),
        "TimePerEvent": 0.001,
        "SizePerEvent": 1.0,
        "Memory": 500,
        "MaxMergeSize": 30_000,
        "MinMergeSize": 15_000,
        "OutputDatasets": made,
        "TaskChain": 2,
        "Task1": {
            "TaskName": "GEN",
            "PrimaryDataset": "MinBias",
            "RequestNumEvents": 20,
            "EventsPerJob": 2000,
            "PayloadConfig": _demo("GEN", name, folder, faults),
        },
        "Task2": {
            "TaskName": "RECO",
            "InputTask": "GEN",
            "InputFromOutputModule": "GENSIMoutput",
            "SplittingAlgo": "FileBased",
            "FilesPerJob": 5,
            "PayloadConfig": _demo("RECO", name, folder, ()),
        },
    }


def _demo(step: str, name: str, folder: Path, faults: Sequence[Fault]) -> dict[str, Any]:
    return {"steps": [{"name": step, "type": "demo", "parameters": _parameters(name, folder, faults)}]}


def input_dataset(name: str) -> str:
    return f"/MinBias/Run2024A-{word(name)}Input-v1/RAW"


def input_file(name: str, number: int) -> str:
    """The LFN of an input file, numbered from 0: it has the events from `number * EVENTS_PER_FILE + 1` on."""
    return f"/store/data/Demo/{input_dataset(name).strip('/').replace('/', '_')}/000/input_{number:04d}.root"


def waits(gate: Path, job: str) -> Fault:
    """A job that waits until the gate is open, which it is when the file exists."""
    return {"node": job, "until": str(gate)}


def _document(name: str, step: dict[str, Any], **fields: Any) -> Document:
    return {
        "request_name": name,
        "requestor": "tester",
        "campaign": "Tests",
        "acquisition_era": "Run2024A",
        # A dataset of its own: what one request announces must not hide what another one forgot.
        "processing_string": word(name),
        "time_per_event_sec": 0.001,
        "size_per_event_kb": 1.0,
        "memory_mb": 500,
        "merge_target_bytes": 30_000,
        "payload_config": {"steps": [step]},
        **fields,
    }


def _parameters(name: str, folder: Path, faults: Sequence[Fault]) -> dict[str, Any]:
    return {"kb_per_event": 1.0, "fault_dir": str(folder / "faults" / name), "faults": list(faults)}


def word(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
