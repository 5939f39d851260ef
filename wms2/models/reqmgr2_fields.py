"""ReqMgr2's names: which field of WMS2 each one is, what it is when left out, and which do not matter here."""

from collections.abc import Callable, Mapping
from typing import Any

GIB = 1024**3
JOB_LENGTH_SEC = 8 * 3600

# Also what may stand in the first step of a chain; where both have it, the step's holds.
FIELDS: Mapping[str, str] = {
    "RequestName": "request_name",
    "Requestor": "requestor",
    "RequestorDN": "requestor_dn",
    "Group": "group",
    "Campaign": "campaign",
    "AcquisitionEra": "acquisition_era",
    "ProcessingString": "processing_string",
    "ProcessingVersion": "processing_version",
    "InputDataset": "input_dataset",
    "SecondaryInputDataset": "secondary_input_dataset",
    "PrimaryDataset": "primary_dataset",
    "RequestNumEvents": "total_events",
    "FilterEfficiency": "filter_efficiency",
    "RunWhitelist": "run_whitelist",
    "RunBlacklist": "run_blacklist",
    "LumiList": "lumi_mask",
    "BlockWhitelist": "block_whitelist",
    "BlockBlacklist": "block_blacklist",
    "MergedLFNBase": "merged_lfn_base",
    "UnmergedLFNBase": "unmerged_lfn_base",
    "MaxMergeSize": "merge_target_bytes",
    "SplittingAlgo": "splitting_algo",
    "CMSSWVersion": "cmssw_version",
    "ScramArch": "scram_arch",
    "GlobalTag": "global_tag",
    "Memory": "memory_mb",
    "Multicore": "cores",
    "TimePerEvent": "time_per_event_sec",
    "SizePerEvent": "size_per_event_kb",
    "RequiresGPU": "requires_gpu",
    "GPUParams": "gpu_params",
    "SiteWhitelist": "site_whitelist",
    "SiteBlacklist": "site_blacklist",
    "TrustSitelists": "trust_sitelists",
    "Priority": "priority",
    "RequestPriority": "priority",
}

DEFAULTS: Mapping[str, Any] = {
    "TimePerEvent": 12.0,
    "SizePerEvent": 512.0,
    "Memory": 2300,
    "Multicore": 1,
    "RequestPriority": 8000,
    "MinMergeSize": 2 * GIB,
    "MaxMergeSize": 4 * GIB,
}

# What a chain says in its first step.
FIRST_STEP = frozenset(
    {"InputDataset", "PrimaryDataset", "RequestNumEvents", "FilterEfficiency", "SplittingAlgo", "LumiList"}
    | {"RunWhitelist", "RunBlacklist", "BlockWhitelist", "BlockBlacklist"}
    | {"EventsPerJob", "EventsPerLumi", "LumisPerJob", "FilesPerJob"}
)

LISTS = frozenset(
    {"scram_arch", "site_whitelist", "site_blacklist", "run_whitelist", "run_blacklist"}
    | {"block_whitelist", "block_blacklist"}
)
WHOLE_NUMBERS = frozenset(
    {"total_events", "processing_version", "memory_mb", "cores", "priority", "merge_target_bytes"}
)
LARGEST_OF_STEPS = frozenset({"memory_mb", "cores"})
ONE_OF_STEPS = frozenset({"acquisition_era", "processing_string", "processing_version"})

SPLITTING: Mapping[str, Mapping[str, str]] = {
    "EventBased": {"EventsPerJob": "events_per_job", "EventsPerLumi": "events_per_lumi"},
    "EventAwareLumiBased": {"EventsPerJob": "events_per_job"},
    "LumiBased": {"LumisPerJob": "lumis_per_job"},
    "FileBased": {"FilesPerJob": "files_per_job"},
}

# ReqMgr2's own sizes of a job, from the seconds an event takes.
JOB_SIZES: Mapping[str, Callable[[Any], int]] = {
    "EventsPerJob": lambda seconds: max(1, int(JOB_LENGTH_SEC / seconds)) if _is_number(seconds) else 1,
    "LumisPerJob": lambda _seconds: 8,
    "FilesPerJob": lambda _seconds: 1,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


GPU: Mapping[str, str] = {
    "GPUMemoryMB": "gpu_memory_mb",
    "CUDARuntime": "cuda_runtime",
    "CUDACapabilities": "cuda_capabilities",
}
GPU_USE: Mapping[str, bool] = {"forbidden": False, "optional": False, "required": True}

# How the parameters of a payload step are called in the sandbox.
STEP_PARAMETERS: Mapping[str, str] = {
    "ConfigCacheID": "config_cache_id",
    "CMSSWVersion": "cmssw_version",
    "GlobalTag": "global_tag",
    "Memory": "memory_mb",
    "Multicore": "cores",
    "EventStreams": "event_streams",
    "MCPileup": "mc_pileup",
    "DataPileup": "data_pileup",
    "DeterministicPileup": "deterministic_pileup",
}
STEP_LINKS: Mapping[str, str] = {"InputStep": "input_step", "InputFromOutputModule": "input_module"}

# Not supported in any other way; refused rather than overlooked.
MUST_BE: Mapping[str, Any] = {
    "FirstEvent": 1,
    "FirstLumi": 1,
    "IncludeParents": False,
    "LheInputFiles": False,
}

# Goes along with the payload.
METADATA = ("RequestType", "SubRequestType", "PrepID", "RequestString", "ConfigCacheUrl", "CouchDBName")

_STEP_ONLY = {
    "StepName",
    "InputStep",
    "InputFromOutputModule",
    "KeepOutput",
    "TransientOutputModules",
    "Seeding",
}
_ASSIGNMENT = {
    *("AllowOpportunistic", "AutoApproveSubscriptionSites", "BlockCloseMaxEvents", "BlockCloseMaxFiles"),
    *("BlockCloseMaxSize", "BlockCloseMaxWaitTime", "ChainParentageMap", "Comments", "ContainerSite"),
    *("CouchURL", "CouchWorkloadDBName", "CustodialGroup", "CustodialSites", "CustodialSubType", "DN"),
    *("Dashboard", "DashboardHost", "DashboardPort", "DatasetLifetime", "DbsUrl", "DeleteFromSource"),
    *("DQMConfigCacheID", "DQMHarvestUnit", "DQMSequences", "DQMUploadProxy", "DQMUploadUrl"),
    *("EnableHarvesting", "EnableNewStageout", "EventNumber", "GlobalTagConnect", "GracePeriod"),
    *("HardTimeout", "InitialPriority", "InputDatasets", "MaxMergeEvents", "MaxRSS", "MaxVSize"),
    *("MaxWaitTime", "NonCustodialGroup", "NonCustodialSites", "NonCustodialSubType"),
    *("OpenRunningTimeout", "OutputModulesLFNBases", "Override", "ParentageResolved"),
    *("PeriodicHarvestInterval", "PeriodicHarvestSites", "PriorityTransition", "ReqMgr2Only"),
    *("ReqMgrURL", "RequestDate", "RequestSizeFiles", "RequestStatus", "RequestTransition"),
    *("RequestWorkflow", "RobustMerge", "SoftTimeout", "SoftwareVersions", "SubscriptionPriority"),
    *("Team", "TotalEstimatedJobs", "TotalInputEvents", "TotalInputFiles", "TotalInputLumis", "TotalTime"),
    *("TransientOutputModules", "TrustPUSitelists", "UnmergedLFNBase", "UseSiteListAsLocation"),
    *("ValidateStatus", "VoGroup", "VoRole", "WMWorkSpec", "timeStamp"),
}
_SPLITTING_NAMES = {name for names in SPLITTING.values() for name in names}
_EVERYWHERE = {*FIELDS, *_SPLITTING_NAMES, *MUST_BE, *STEP_PARAMETERS, *METADATA}

KNOWN = frozenset(
    _EVERYWHERE | _ASSIGNMENT | {"StepChain", "OutputDatasets", "PayloadConfig", "MinMergeSize"}
)
KNOWN_IN_STEP = frozenset(_EVERYWHERE | _STEP_ONLY)
