"""Documents of ReqMgr2."""

import json
from typing import Any

import pytest

from wms2.models.mistakes import RequestFileError
from wms2.models.request import Request
from wms2.models.request_file import read_request
from wms2.models.splitting import SplittingAlgo


def rereco(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "RequestName": "operator_ReReco",
        "RequestType": "ReReco",
        "Requestor": "operator",
        "Campaign": "Demo",
        "AcquisitionEra": "Run2024A",
        "ProcessingString": "ReReco",
        "InputDataset": "/MinBias/Run2024A-v1/RAW",
        "OutputDatasets": ["/MinBias/Run2024A-ReReco-v1/AOD"],
        "CMSSWVersion": "CMSSW_14_0_0",
        "ScramArch": ["el9_amd64_gcc12"],
        "ConfigCacheID": "0123456789abcdef",
    }
    return {name: value for name, value in (fields | changes).items() if value is not ...}


STEP_1 = {
    "StepName": "GEN",
    "PrimaryDataset": "MinBias",
    "RequestNumEvents": 100_000,
    "EventsPerJob": 500,
    "EventsPerLumi": 100,
    "ConfigCacheID": "0123",
    "KeepOutput": False,
}
STEP_2 = {
    "StepName": "RECO",
    "InputStep": "GEN",
    "InputFromOutputModule": "RAWSIMoutput",
    "ConfigCacheID": "4567",
}


def chain(
    step_1: dict[str, Any] | None = None, step_2: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    fields = {
        "RequestName": "operator_chain",
        "RequestType": "StepChain",
        "InputDataset": ...,
        "ConfigCacheID": ...,
        "StepChain": 2,
        "Step1": STEP_1 | (step_1 or {}),
        "Step2": STEP_2 | (step_2 or {}),
        "OutputDatasets": ["/MinBias/Run2024A-ReReco-v1/AODSIM"],
    }
    return rereco(**(fields | changes))


def read(document: dict[str, Any]) -> Request:
    return read_request(json.dumps(document))


def mistakes(document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(RequestFileError) as error:
        read(document)
    return {mistake.field: mistake.problem for mistake in error.value.mistakes}


def test_a_document_gets_the_defaults_of_reqmgr2() -> None:
    request = read(rereco())
    assert (request.time_per_event_sec, request.size_per_event_kb) == (12.0, 512.0)
    assert (request.memory_mb, request.cores, request.priority) == (2300, 1, 8000)
    assert (request.merge_target_bytes, request.merge_copy_fraction) == (4 * 1024**3, 0.5)
    assert request.splitting_algo == SplittingAlgo.EVENT_AWARE_LUMI
    assert request.events_per_job == 2400, "eight hours of 12 seconds an event"
    assert request.merged_lfn_base == "/store/data"


def test_a_rereco_is_one_step() -> None:
    request = read(rereco(GlobalTag="140X_v3", PrepID="SMP-1"))
    assert request.payload_config["steps"] == [
        {
            "name": "DataProcessing",
            "type": "cmsRun",
            "parameters": {
                "config_cache_id": "0123456789abcdef",
                "cmssw_version": "CMSSW_14_0_0",
                "global_tag": "140X_v3",
                "scram_arch": "el9_amd64_gcc12",
            },
        }
    ]
    assert request.payload_config["reqmgr2"] == {"RequestType": "ReReco", "PrepID": "SMP-1"}
    (output,) = request.outputs
    assert (output.step, output.module, output.tier) == ("DataProcessing", "AODoutput", "AOD")


@pytest.mark.parametrize(
    ("algo", "given", "expected"),
    [
        ("LumiBased", {}, {"lumis_per_job": 8}),
        ("LumiBased", {"LumisPerJob": 3, "EventsPerJob": 10}, {"lumis_per_job": 3}),
        ("FileBased", {}, {"files_per_job": 1}),
        ("FileBased", {"FilesPerJob": 7}, {"files_per_job": 7}),
        ("EventAwareLumiBased", {"EventsPerJob": 900.0}, {"events_per_job": 900}),
        ("EventBased", {"EventsPerJob": 900}, {"events_per_job": 900, "events_per_lumi": 900}),
    ],
)
def test_each_algorithm_takes_its_own_parameters(
    algo: str, given: dict[str, Any], expected: dict[str, int]
) -> None:
    params = read(rereco(SplittingAlgo=algo, **given)).splitting_params.model_dump()
    assert expected.items() <= params.items()


def test_reqmgr2s_generous_types_are_understood() -> None:
    request = read(
        rereco(
            ScramArch="el9_amd64_gcc12",
            SiteWhitelist="T1_US_FNAL, T2_US_Purdue",
            LumiList='{"1": [[1, 5]]}',
            Memory=4000.0,
            RunWhitelist=[],
            Group="",
            SiteBlacklist=None,
            RequiresGPU="required",
            GPUParams='{"GPUMemoryMB": 8000, "CUDARuntime": "11.2", "CUDACapabilities": ["7.5"]}',
            _id="couch",
            _rev="1-x",
            RequestTransition=[],
            RequestStatus="assigned",
        )
    )
    assert request.scram_arch == ("el9_amd64_gcc12",)
    assert request.site_whitelist == ("T1_US_FNAL", "T2_US_Purdue")
    assert request.lumi_mask == {"1": ((1, 5),)}
    assert request.memory_mb == 4000
    assert request.requires_gpu
    assert request.gpu_params is not None
    assert request.gpu_params.cuda_capabilities == ("7.5",)


def test_the_first_step_of_a_chain_says_what_is_made_and_how_it_is_split() -> None:
    request = read(chain({"FilterEfficiency": 0.25, "GlobalTag": "gen_tag"}))
    assert request.is_simulation
    assert (request.primary_dataset, request.total_events, request.filter_efficiency) == (
        "MinBias",
        100_000,
        0.25,
    )
    assert (request.splitting_algo, request.events_per_job, request.events_per_lumi) == (
        "EventBased",
        500,
        100,
    )
    assert request.merged_lfn_base == "/store/mc"
    steps: Any = request.payload_config["steps"]
    assert [step["name"] for step in steps] == ["GEN", "RECO"]


def test_a_chain_with_input_reads_what_its_first_step_names() -> None:
    step = {"InputDataset": "/MinBias/Run2024A-v1/RAW", "PrimaryDataset": None, "RequestNumEvents": None}
    request = read(chain(step | {"RunWhitelist": [5]}))
    assert not request.is_simulation
    assert (request.run_whitelist, request.splitting_algo) == ((5,), "EventAwareLumiBased")


def test_of_memory_and_cores_per_step_the_request_has_the_largest_and_each_step_its_own() -> None:
    request = read(chain(Memory={"GEN": 2000, "RECO": 6000.0}, Multicore={"GEN": 8, "RECO": 4}))
    assert (request.memory_mb, request.cores) == (6000, 8)
    steps: Any = request.payload_config["steps"]
    assert [(step["parameters"]["memory_mb"], step["parameters"]["cores"]) for step in steps] == [
        (2000, 8),
        (6000, 4),
    ]


def test_eras_per_step_are_those_of_the_last_step_that_is_kept() -> None:
    request = read(chain(AcquisitionEra={"GEN": "EraA", "RECO": "EraB"}, ProcessingString={"RECO": "P"}))
    assert (request.acquisition_era, request.processing_string) == ("EraB", "P")


def test_outputs_belong_to_the_steps_that_keep_them() -> None:
    names = ["/MinBias/Run2024A-X-v1/GEN-SIM", "/MinBias/Run2024A-X-v1/AODSIM"]
    both = read(chain({"KeepOutput": True}, OutputDatasets=names))
    assert [(output.step, output.module) for output in both.outputs] == [
        ("GEN", "RAWSIMoutput"),
        ("RECO", "AODSIMoutput"),
    ]
    one = read(chain({"KeepOutput": "False"}, OutputDatasets=names))
    assert [output.step for output in one.outputs] == ["RECO", "RECO"]


def test_a_payload_with_steps_takes_the_place_of_the_documents_own() -> None:
    payload = {"steps": [{"name": "DataProcessing", "type": "demo"}]}
    request = read(rereco(PayloadConfig=payload, CMSSWVersion=..., ScramArch=..., ConfigCacheID=...))
    assert request.payload_config["steps"] == payload["steps"]


def test_mistakes_are_reported_under_the_names_of_the_document() -> None:
    found = mistakes(
        chain(
            {"RequestNumEvents": -1, "EventsPerJob": 0, "StepNme": "x"},
            {"InputStep": "SIM"},
            RequestName="a b",
            Requestor="a b",
            Memory={"GEN": "much", "RECO": 4000},
            SiteWhitelist=["Purdue"],
            OutputDatasets=["AODSIM/"],
            RequiresGPU="required",
            MinMergeSize=5 * 1024**3,
            Cmapaign="Demo",
            GPUParams={"GPUMemoryMB": 0, "CUDARuntime": "11.2", "CUDACapabilities": ["7.5"]},
        )
    )
    assert found.keys() == {
        "Step1.RequestNumEvents",
        "Step1.EventsPerJob",
        "Step1.StepNme",
        "Step2.InputStep",
        "RequestName",
        "Requestor",
        "Memory.GEN",
        "SiteWhitelist[0]",
        "OutputDatasets[0]",
        "MinMergeSize",
        "Cmapaign",
        "GPUParams.GPUMemoryMB",
    }
    assert found["Cmapaign"] == "unknown field, did you mean Campaign?"


ONE_MISTAKE: list[tuple[dict[str, Any], str, str]] = [
    ({"RequestType": "Resubmission"}, "RequestType", "is not supported, expected ReReco, StepChain"),
    ({"RequestType": "Wish"}, "RequestType", 'StepChain or TaskChain, found "Wish"'),
    ({"RequestType": ["ReReco"]}, "RequestType", "found"),
    ({"RequestName": "x"}, "RequestType", "missing"),
    (rereco(InputDataset=...), "InputDataset", "missing"),
    (rereco(OutputDatasets=...), "OutputDatasets", "/MinBias/Run2024A-ReReco-v1/TIER"),
    (rereco(CMSSWVersion=...), "CMSSWVersion", "runs cmsRun"),
    (rereco(ConfigCacheID=...), "ConfigCacheID", "missing"),
    (rereco(IncludeParents=True), "IncludeParents", "not"),
    (rereco(LumiList="no json"), "LumiList", "a mapping"),
    (rereco(RequiresGPU="maybe"), "RequiresGPU", "true or false"),
    (rereco(RequiresGPU="required"), "GPUParams", "missing"),
    (rereco(PayloadConfig=[]), "PayloadConfig", "a mapping"),
    (rereco(TimePerEvent="slow"), "TimePerEvent", "a number"),
    (rereco(MinMergeSize=-1), "MinMergeSize", "above 0"),
    (rereco(Step1={}), "Step1", "unknown field"),
    (rereco(Memory={}), "Memory", "whole number"),
    (chain(Memory={"GEN": "much"}), "Memory.GEN", "whole number"),
    (chain(StepChain="two"), "StepChain", "how many steps"),
    (chain(StepChain=0), "StepChain", "how many steps"),
    (chain(Step2=...), "Step2", "a mapping"),
    (chain({"StepName": ""}), "Step1.StepName", "missing"),
    (chain(step_2={"StepName": "GEN"}), "Step2.StepName", "only once"),
    (chain({"RequestNumEvents": None}), "Step1.RequestNumEvents", "missing"),
    (chain({"PrimaryDataset": None}), "Step1.PrimaryDataset", "missing"),
    (chain({"LheInputFiles": "True"}), "Step1.LheInputFiles", "not"),
    (chain(step_2={"KeepOutput": False}), "Step2.KeepOutput", "at least one"),
    (chain({"KeepOutput": True}), "OutputDatasets", "expected 2 names"),
    (chain(step_2={"ConfigCacheID": ""}), "Step2.ConfigCacheID", "missing"),
]


@pytest.mark.parametrize(("document", "field", "problem"), ONE_MISTAKE)
def test_one_mistake_is_reported_once_and_at_its_name(
    document: dict[str, Any], field: str, problem: str
) -> None:
    found = mistakes(document)
    assert list(found) == [field]
    assert problem in found[field]
