"""The many shapes of ReqMgr2 documents: how they come wrapped, what they say per step, and what is refused."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_request_reqmgr2 import STEP_1, STEP_2, chain, mistakes, read, rereco
from wms2.errors import UserError
from wms2.models.mistakes import RequestFileError
from wms2.models.reqmgr2_fields import KNOWN
from wms2.models.request import Request
from wms2.models.request_file import read_request

PILEUP = "/Minimum/Mixing-Premix_v1-v2/PREMIX"


def steps_of(request: Request) -> list[dict[str, Any]]:
    steps: Any = request.payload_config["steps"]
    return [step["parameters"] for step in steps]


def task(**changes: Any) -> dict[str, Any]:
    """A TaskChain of one task."""
    own = {name: value for name, value in STEP_1.items() if name not in ("StepName", "KeepOutput")}
    fields: dict[str, Any] = {"RequestType": "TaskChain", "StepChain": ..., "Step1": ..., "Step2": ...}
    return chain(**(fields | {"TaskChain": 1, "Task1": {**own, "TaskName": "GEN"}} | changes))


# How documents come


@pytest.mark.parametrize(
    "wrap",
    [
        lambda document: {"result": [{"operator_ReReco": document}]},
        lambda document: {"result": [document]},
        lambda document: {"operator_ReReco": document},
        lambda document: {"createRequest": document},
        lambda document: {"createRequest": document, "assignRequest": {}},
    ],
)
def test_a_wrapped_document_is_the_document(wrap: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    assert read(wrap(rereco())) == read(rereco())


def test_the_assignment_of_a_template_wins_over_its_creation() -> None:
    template = {
        "createRequest": chain(
            {"ProcessingVersion": 3, "Memory": 1000, "AcquisitionEra": "Old"}, SiteWhitelist=[]
        ),
        "assignRequest": {
            "ProcessingVersion": 7,
            "AcquisitionEra": {"RECO": "EraB"},
            "Memory": 5000,
            "SiteWhitelist": "T1_US_FNAL",
            "Team": "any",
        },
    }
    request = read(template)
    assert (request.processing_version, request.acquisition_era, request.memory_mb) == (7, "EraB", 5000)
    assert [step["memory_mb"] for step in steps_of(request)] == [5000, 5000]
    assert request.site_whitelist == ("T1_US_FNAL",)


def test_placeholders_of_a_template_are_no_values() -> None:
    template = {
        "createRequest": chain(Campaign="Campaign-OVERRIDE-ME", RequestString="RequestString-OVERRIDE-ME"),
        "assignRequest": {
            "AcquisitionEra": {"GEN": "AcquisitionEra-OVERRIDE-ME", "RECO": "AcquisitionEra-1-OVERRIDE-ME"},
            "ProcessingString": "ProcessingString-OVERRIDE-ME",
            "SiteWhitelist": ["SiteWhitelist-OVERRIDE-ME"],
            "Dashboard": "dashboard-OVERRIDE-ME",
        },
    }
    request = read(template)
    assert (request.acquisition_era, request.processing_string) == ("Run2024A", "ReReco")
    assert (request.campaign, request.site_whitelist) == ("Run2024A", ())


@pytest.mark.parametrize(
    "document",
    [
        {"result": []},
        {"result": [rereco(), rereco()]},
        {"result": [{"a": rereco(), "b": rereco()}]},
        {"a": rereco(), "b": chain()},
        {"createRequest": rereco(), "changeSplitting": {"DataProcessing": {"SplittingAlgo": "FileBased"}}},
        {"createRequest": 5},
        {"assignRequest": {}},
        {"createRequest": {}, "assignRequest": []},
    ],
)
def test_a_wrapping_without_one_request_is_one_sentence(document: dict[str, Any]) -> None:
    assert len(mistakes(document)) == 1


def test_a_document_that_was_never_in_reqmgr2_gets_a_name_that_stays_the_same() -> None:
    document = rereco(RequestName=..., Requestor=..., RequestString="My request!")
    names = {read(document).request_name for _ in range(2)}
    assert len(names) == 1
    assert "My_request_" in names.pop()
    assert read(document).requestor
    assert read(rereco(RequestName=...)) != read(rereco(RequestName=..., Memory=5000))


def test_a_name_that_reqmgr2_let_pass_is_noted_and_a_slip_of_the_pen_is_refused() -> None:
    assert mistakes(rereco(SitWhitelist=[])) == {"SitWhitelist": "unknown field, did you mean SiteWhitelist?"}
    request = read(rereco(NewInReqMgr2=1, RequestTransition=[{"Status": "new", "UpdateTime": 1, "DN": ""}]))
    assert request.notes == ("NewInReqMgr2: not known here and left out",)


CREATION = """AcquisitionEra BlockBlacklist BlockWhitelist CMSSWVersion Campaign Comments ConfigCacheID ConfigCacheUrl
CouchDBName CouchURL CouchWorkloadDBName DQMConfigCacheID DQMHarvestUnit DQMSequences DQMUploadProxy DQMUploadUrl
DashboardHost DashboardPort DbsUrl DeleteFromSource DeterministicPileup EnableHarvesting EnableNewStageout
EventStreams EventsPerJob FilesPerJob FirstEvent FirstLumi GPUParams GlobalTag GlobalTagConnect Group HarvestingMemory
IgnoredOutputModules IncludeParents InputDataset JobExtraMatchRequirements LumiList LumisPerJob MaxMergeEvents
MaxMergeSize MaxWaitTime Memory MergedLFNBase MinMergeSize Multicore OpenRunningTimeout OverrideCatalog
ParentageResolved PeriodicHarvestInterval PrepID PrimaryDataset PriorityTransition ProcessingString
ProcessingVersion RequestDate RequestName RequestPriority RequestStatus RequestString RequestTransition
RequestType Requestor RequestorDN RequiresGPU RobustMerge RunBlacklist RunNumber RunWhitelist Scenario ScramArch
SizePerEvent SplittingAlgo StepChain SubRequestType TaskChain TimePerEvent TransientOutputModules UnmergedLFNBase
ValidStatus VoGroup VoRole ChainParentageMap"""
ASSIGNMENT = """AllowOpportunistic BlockCloseMaxEvents BlockCloseMaxFiles BlockCloseMaxSize BlockCloseMaxWaitTime
CustodialSites Dashboard DatasetLifetime GracePeriod HardTimeout NonCustodialSites Override SiteBlacklist
SiteWhitelist SoftTimeout SubscriptionPriority Team TrustPUSitelists TrustSitelists OutputDatasets
OutputModulesLFNBases InitialPriority RequestWorkflow TotalEstimatedJobs TotalInputEvents TotalInputFiles
TotalInputLumis SoftwareVersions"""


@pytest.mark.parametrize("name", [*CREATION.split(), *ASSIGNMENT.split()])
def test_every_name_that_reqmgr2_writes_is_known(name: str) -> None:
    assert name in KNOWN


# Values per step


def test_what_a_step_says_itself_wins_over_what_is_said_for_all() -> None:
    request = read(
        chain(
            {"Memory": 2000, "Multicore": 8, "CMSSWVersion": "CMSSW_13_0_1", "ScramArch": "el8_amd64_gcc11"},
            {
                "EventStreams": 2,
                "GlobalTag": "140X_v9",
                "AcquisitionEra": "Run2024B",
                "ProcessingVersion": "4",
            },
            Memory=3000,
            Multicore=2,
            EventStreams=0,
            GlobalTag="140X_v3",
        )
    )
    gen, reco = steps_of(request)
    assert (gen["memory_mb"], gen["cores"], gen["cmssw_version"], gen["global_tag"]) == (
        *(2000, 8, "CMSSW_13_0_1"),
        "140X_v3",
    )
    assert (reco["memory_mb"], reco["cores"], reco["cmssw_version"], reco["global_tag"]) == (
        *(3000, 2, "CMSSW_14_0_0"),
        "140X_v9",
    )
    assert (gen["scram_arch"], reco["scram_arch"]) == ("el8_amd64_gcc11", "el9_amd64_gcc12")
    assert ("event_streams" in gen, reco["event_streams"]) == (False, 2)
    assert (request.memory_mb, request.cores) == (3000, 8)
    assert (request.acquisition_era, request.processing_version) == ("Run2024B", 4)


def test_of_several_architectures_a_step_gets_the_newest() -> None:
    archs = ["el8_amd64_gcc10", "el8_amd64_gcc12", "el8_amd64_gcc11"]
    request = read(rereco(ScramArch=archs))
    assert request.scram_arch == tuple(archs)
    assert steps_of(request)[0]["scram_arch"] == "el8_amd64_gcc12"


def test_the_campaign_of_a_step_is_not_that_of_the_request() -> None:
    assert read(chain({"Campaign": "OfTheStep"})).campaign == "Demo"


def test_the_memory_of_a_whole_chain_is_for_all_steps_together() -> None:
    assert read(chain({"Memory": 1000}, {"Memory": 2000}, Memory=8000)).memory_mb == 8000


def test_a_task_by_itself_is_a_request_and_its_own_values_hold() -> None:
    one = task(Memory=1000, Multicore=1, TimePerEvent=10, SizePerEvent=100)
    one["Task1"] |= {"Memory": 2000, "Multicore": 4, "TimePerEvent": 20.5, "ScramArch": "el8_amd64_gcc11"}
    request = read(one)
    assert (request.memory_mb, request.cores) == (2000, 4)
    assert (request.time_per_event_sec, request.size_per_event_kb) == (20.5, 100)
    assert (request.is_simulation, request.total_events) == (True, 100_000)
    (step,) = steps_of(request)
    assert (step["scram_arch"], step["config_cache_id"]) == ("el8_amd64_gcc11", "0123")
    assert [(output.step, output.tier) for output in request.outputs] == [("GEN", "AODSIM")]


def test_seconds_and_size_of_an_event_are_of_the_whole_chain_or_the_sum_of_its_steps() -> None:
    parts: tuple[dict[str, Any], ...] = ({"TimePerEvent": 2.5, "SizePerEvent": 10}, {"TimePerEvent": 4})
    summed = read(chain(*parts))
    assert (summed.time_per_event_sec, summed.size_per_event_kb) == (6.5, 10)
    said = read(chain(*parts, TimePerEvent=30, SizePerEvent="50.5"))
    assert (said.time_per_event_sec, said.size_per_event_kb) == (30, 50.5)


def test_numbers_flags_and_lists_may_be_texts() -> None:
    request = read(
        rereco(
            RequestPriority="90000",
            ProcessingVersion="2",
            TimePerEvent="7.5",
            TrustSitelists="True",
            TrustPUSitelists="true",
            RunWhitelist="370001, 370002",
            RunBlacklist=["370003", 370003],
            SiteWhitelist=["T1_US_FNAL", "T2_US_Purdue", "T1_US_FNAL"],
            BlockWhitelist="['/MinBias/Run2024A-v1/RAW#abc']",
            MaxMergeSize="4000000000",
            MinMergeSize="1000000000",
            LumisPerJob="5",
            SplittingAlgo="LumiBased",
            GPUParams="null",
            RequiresGPU="forbidden",
            JobExtraMatchRequirements="",
            LumiList=[],
            OutputDatasets=[["/MinBias/Run2024A-ReReco-v2/AOD"]],
        )
    )
    assert (request.priority, request.processing_version, request.time_per_event_sec) == (90_000, 2, 7.5)
    assert (request.trust_sitelists, request.trust_pu_sitelists) == (True, True)
    assert (request.run_whitelist, request.run_blacklist) == ((370_001, 370_002), (370_003,))
    assert request.block_whitelist == ("/MinBias/Run2024A-v1/RAW#abc",)
    assert request.site_whitelist == ("T1_US_FNAL", "T2_US_Purdue")
    assert (request.merge_target_bytes, request.merge_copy_fraction) == (4_000_000_000, 0.25)
    assert (request.lumis_per_job, request.gpu_params, request.requires_gpu) == (5, None, False)


def test_a_gpu_is_needed_when_any_step_needs_it() -> None:
    params = '{"GPUMemoryMB": 8000, "CUDARuntime": "12.0", "CUDACapabilities": ["7.5", "8.0"]}'
    request = read(
        chain(
            {"RequiresGPU": "optional", "GPUParams": params},
            {"RequiresGPU": "required", "GPUParams": params},
            RequiresGPU="forbidden",
            GPUParams="null",
        )
    )
    assert request.requires_gpu
    assert request.gpu_params
    assert (request.gpu_params.gpu_memory_mb, request.gpu_params.cuda_capabilities) == (8000, ("7.5", "8.0"))
    assert not read(chain({"RequiresGPU": "optional", "GPUParams": params})).requires_gpu


def test_the_priority_has_two_names() -> None:
    assert read(rereco(Priority=5)).priority == 5
    assert read(rereco(RequestPriority=6)).priority == 6


# How the work is cut


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"EventsPerJob": 160, "EventsPerLumi": 100}, (200, 100)),
        ({"EventsPerJob": 140, "EventsPerLumi": 100}, (100, 100)),
        ({"EventsPerJob": 50, "EventsPerLumi": 100}, (50, 50)),
        ({"EventsPerJob": None, "EventsPerLumi": None}, (288, 288)),
        ({"EventsPerJob": None, "EventsPerLumi": "100"}, (300, 100)),
        ({"EventsPerJob": 10**6, "EventsPerLumi": None}, (100_000, 100_000)),
        ({"EventsPerJob": 10**6, "EventsPerLumi": None, "FilterEfficiency": 0.5}, (200_000, 200_000)),
    ],
)
def test_jobs_of_a_simulation_are_as_large_as_reqmgr2_makes_them(
    given_: dict[str, Any], expected: tuple[int, int]
) -> None:
    request = read(chain(given_, TimePerEvent=100))
    assert (request.events_per_job, request.events_per_lumi) == expected


def test_without_input_events_are_split_whatever_the_document_says() -> None:
    assert read(chain({"SplittingAlgo": "EventAwareLumiBased"})).splitting_algo == "EventBased"


def test_a_step_with_input_may_name_the_primary_dataset_of_its_output() -> None:
    step = {"InputDataset": "/MinBias/Run2024A-v1/RAW", "PrimaryDataset": "Other"}
    request = read(chain(step, OutputDatasets=["AOD"]))
    assert request.output_datasets == ("/Other/Run2024A-ReReco-v1/AOD",)
    assert (request.primary_dataset, request.total_events) == (None, None)


# Outputs


TWO = ["/MinBias/Run2024B-P-v1/MINIAOD", "/MinBias/Run2024A-P-v1/GEN-SIM", "/MinBias/Run2024B-P-v1/DQMIO"]


def test_the_map_of_parents_says_which_step_makes_which_dataset() -> None:
    parentage = {
        "Step1": {"ParentDset": None, "ChildDsets": [TWO[1]]},
        "Step2": {"ParentDset": TWO[1], "ChildDsets": [TWO[0], TWO[2]]},
    }
    request = read(chain({"KeepOutput": True}, OutputDatasets=TWO, ChainParentageMap=parentage))
    assert [(output.step, output.module) for output in request.outputs] == [
        ("RECO", "MINIAODoutput"),
        ("GEN", "RAWSIMoutput"),
        ("RECO", "DQMIOoutput"),
    ]


def test_a_step_with_several_outputs_names_the_module_that_the_next_step_reads() -> None:
    first = ["/MinBias/Run2024A-P-v1/GEN-SIM", "/MinBias/Run2024A-P-v1/LHE"]
    parentage = {
        "Step1": {"ParentDset": None, "ChildDsets": first},
        "Step2": {"ParentDset": first[0], "ChildDsets": [TWO[0]]},
    }
    document = chain({"KeepOutput": True}, OutputDatasets=[*first, TWO[0]], ChainParentageMap=parentage)
    assert [output.module for output in read(document).outputs] == [
        "RAWSIMoutput",
        "LHEoutput",
        "MINIAODoutput",
    ]


def test_without_that_map_era_and_processing_in_the_names_say_it() -> None:
    eras: dict[str, Any] = {
        "AcquisitionEra": {"GEN": "Run2024A", "RECO": "Run2024B"},
        "ProcessingString": "P",
    }
    request = read(chain({"KeepOutput": True}, OutputDatasets=TWO, **eras))
    assert [output.step for output in request.outputs] == ["RECO", "GEN", "RECO"]


def test_names_that_fit_no_step_are_one_sentence() -> None:
    found = mistakes(chain({"KeepOutput": True}, OutputDatasets=TWO))
    assert list(found) == ["OutputDatasets"]
    assert "ChainParentageMap" in found["OutputDatasets"]


def test_tiers_alone_will_do() -> None:
    request = read(chain(OutputDatasets=["AODSIM", "DQMIO"], ProcessingVersion=3))
    assert request.output_datasets == (
        "/MinBias/Run2024A-ReReco-v3/AODSIM",
        "/MinBias/Run2024A-ReReco-v3/DQMIO",
    )


def test_datasets_of_one_tier_differ_by_the_names_of_their_filters() -> None:
    names = [f"/MinBias/Run2024A-{name}-ReReco-v1/ALCARECO" for name in ("TkAlMinBias", "SiStripCal")]
    request = read(rereco(OutputDatasets=names))
    assert [output.module for output in request.outputs] == [
        "ALCARECOTkAlMinBiasoutput",
        "ALCARECOSiStripCaloutput",
    ]


def test_a_document_without_output_datasets_can_be_looked_at_but_not_submitted() -> None:
    text = json.dumps(chain({"KeepOutput": True}, OutputDatasets=...))
    with pytest.raises(RequestFileError, match=r"OutputDatasets: missing, .*tiers"):
        read_request(text)
    request = read_request(text, unnamed_outputs=True)
    assert request.output_datasets == (
        "/MinBias/Run2024A-ReReco-v1/UNKNOWN-STEP1",
        "/MinBias/Run2024A-ReReco-v1/UNKNOWN-STEP2",
    )
    (note,) = request.notes
    assert note.endswith("until then it cannot be submitted")


# Pile-up and harvesting


def test_the_pileup_of_all_steps_is_found_in_one_place() -> None:
    other = "/Other/Mixing-v1/GEN-SIM"
    request = read(
        chain({"MCPileup": PILEUP}, {"MCPileup": PILEUP, "DataPileup": other}, DeterministicPileup="true")
    )
    assert request.pileup_datasets == (PILEUP, other)
    gen, reco = steps_of(request)
    assert (gen["mc_pileup"], gen["deterministic_pileup"]) == (PILEUP, True)
    assert (reco["mc_pileup"], reco["data_pileup"]) == (PILEUP, other)
    assert read(chain()).pileup_datasets == ()
    assert "deterministic_pileup" not in steps_of(read(chain(DeterministicPileup=True)))[0]
    assert read(rereco(SecondaryInputDataset=PILEUP)).pileup_datasets == (PILEUP,)


@pytest.mark.parametrize("name", ["MCPileup", "DataPileup"])
@pytest.mark.parametrize("value", ["not a dataset", "/A/B/C?x=1", 5, ["/A/B/C", "../x"]])
def test_pileup_that_is_no_dataset_is_refused(name: str, value: Any) -> None:
    assert list(mistakes(chain(step_2={name: value}))) == [f"Step2.{name}"]


def test_harvesting_is_left_to_others_and_noted() -> None:
    request = read(
        rereco(EnableHarvesting="True", DQMConfigCacheID="abc", DQMUploadUrl="https://dqm.example")
    )
    assert len(request.notes) == 1
    assert "not harvested" in request.notes[0]
    reqmgr2: Any = request.payload_config["reqmgr2"]
    assert reqmgr2["DQMConfigCacheID"] == "abc"
    assert read(rereco(EnableHarvesting=False)).notes == ()


# What is refused


TASKS = {
    "Task1": {"TaskName": "A", "KeepOutput": False, "RequestNumEvents": 5},
    "Task2": {
        "TaskName": "B",
        "InputTask": "A",
        "KeepOutput": "True",
        "TransientOutputModules": ["DQMoutput"],
    },
    "Task3": {"TaskName": "C", "InputTask": "B", "KeepOutput": True},
    "Task4": {"TaskName": "D", "InputTask": "B"},
    "Task5": {"TaskName": "E", "InputTask": "B", "InputFromOutputModule": "DQMoutput"},
}
GPU = '{"GPUMemoryMB": 8, "CUDARuntime": "12.0", "CUDACapabilities": ["7.5"]}'

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    *((rereco(RequestType=kind, Wrong=1), "RequestType", f"{kind} is not supported") for kind in (
        "MonteCarlo", "MonteCarloFromGEN", "ReDigi", "DQMHarvest", "Resubmission", "StoreResults", "PromptReco",
    )),
    (task(TaskChain=5, **TASKS), "TaskChain", "3 requests (Task1+Task2+Task5, Task3, Task4), a"),
    (rereco(SkimName1="Z", SkimInput1="RECOoutput", Skim1ConfigCacheID="x"), "Skim1ConfigCacheID", "skims"),
    (rereco(IncludeParents="True", Memory=-1), "IncludeParents", "parents of the input files"),
    (chain(step_2={"IncludeParents": True}), "Step2.IncludeParents", "parents"),
    (chain({"LheInputFiles": "true", "RequestNumEvents": 0}), "Step1.LheInputFiles", "LHE"),
    (chain(RunNumber=5), "RunNumber", "found 5"),
    (rereco(GlobalTagConnect="frontier://other"), "GlobalTagConnect", "conditions"),
    (rereco(JobExtraMatchRequirements="Arch == 1"), "JobExtraMatchRequirements", "use SiteWhitelist"),
    (rereco(SplittingAlgo="EventAwareLumiByWork"), "SplittingAlgo", "expected one of EventBased"),
    (chain(step_2={"InputDataset": "/A/B/C"}), "Step2.InputDataset", "only the first step"),
    (rereco(Scenario="pp", ConfigCacheID=...), "Scenario", "expected a ConfigCacheID"),
    (
        chain({"RequiresGPU": "required", "GPUParams": GPU}, {"RequiresGPU": "required", "GPUParams": "null"}),
        "Step2.GPUParams",
        "the same as in Step1",
    ),
    (
        rereco(RequiresGPU="required", GPUParams=GPU.replace("}", ', "GPUName": "T4"}')),
        "GPUParams.GPUName",
        "not supported",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "field", "problem"), REFUSED)
def test_what_is_not_supported_is_one_sentence_and_nothing_else(
    document: dict[str, Any], field: str, problem: str
) -> None:
    found = mistakes(document)
    assert list(found) == [field]
    assert problem in found[field]


# Whatever comes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "null", "true", "1", "1e5", "10" * 40, "EventBased", "required", "/A/B-C-v1/D", "GEN", "{}"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["GEN", "RECO", "Step1", "ChildDsets", "1"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
NAMES = st.sampled_from(sorted(KNOWN | {"Step1", "Step2", "Task1", "_id", "x"}))
IN_STEP = st.sampled_from(sorted(STEP_1.keys() | STEP_2.keys() | KNOWN))


@given(
    st.sampled_from([rereco(), chain(), task()]),
    st.dictionaries(NAMES, VALUES, max_size=5),
    st.dictionaries(IN_STEP, VALUES, max_size=4),
    st.booleans(),
)
def test_no_document_however_mangled_gives_anything_but_a_request_or_sentences(
    document: dict[str, Any], top: dict[str, Any], step: dict[str, Any], unnamed: bool
) -> None:
    document = deepcopy(document)
    for place in ("Step1", "Task1"):
        if place in document:
            document[place] |= step
    document |= top
    request, sentences = outcome(json.dumps(document), unnamed)
    assert all("\n" not in sentence for sentence in sentences)
    assert len(set(sentences)) == len(sentences)
    if request:
        assert read_request(request.model_dump_json()) == request
        assert all(name.count("/") == 3 for name in request.pileup_datasets)


def outcome(text: str, unnamed_outputs: bool) -> tuple[Request | None, list[str]]:
    """The request, or what is wrong with it; anything else that is raised goes through."""
    try:
        return read_request(text, unnamed_outputs=unnamed_outputs), []
    except RequestFileError as error:
        return None, [str(mistake) for mistake in error.mistakes]
    except UserError as error:
        return None, [str(error)]


def test_an_extension_goes_on_with_the_numbers_of_what_it_extends() -> None:
    request = read(chain(FirstEvent=1001, FirstLumi="11"))
    assert (request.first_event, request.first_lumi) == (1001, 11)
    request = read(rereco(FirstEvent=1001))
    assert request.first_event == 1, "what is read has its numbers already"
