"""ReqMgr2's names: which field of WMS2 each one is, what it is when left out, and which do not matter here."""

from collections.abc import Mapping
from typing import Any

from wms2.models.reqmgr2_values import Conversion, flag, listed, mapping, number, whole, whole_numbers

GIB = 1024**3
JOB_LENGTH_SEC = 8 * 3600
KINDS: Mapping[str, str] = {"StepChain": "Step", "TaskChain": "Task"}
"""Chains, and what their parts are called."""

# Said once for the whole request.
TOP_FIELDS: Mapping[str, str] = {
    "RequestName": "request_name",
    "Requestor": "requestor",
    "RequestorDN": "requestor_dn",
    "Group": "group",
    "Campaign": "campaign",
    "MergedLFNBase": "merged_lfn_base",
    "UnmergedLFNBase": "unmerged_lfn_base",
    "MaxMergeSize": "merge_target_bytes",
    "SiteWhitelist": "site_whitelist",
    "SiteBlacklist": "site_blacklist",
    "TrustSitelists": "trust_sitelists",
    "TrustPUSitelists": "trust_pu_sitelists",
    "RequestPriority": "priority",
    "Priority": "priority",
}
# What is read or generated: a chain says it in its first step.
FIRST_FIELDS: Mapping[str, str] = {
    "InputDataset": "input_dataset",
    "SecondaryInputDataset": "secondary_input_dataset",
    "PrimaryDataset": "primary_dataset",
    "RequestNumEvents": "total_events",
    "FirstEvent": "first_event",
    "FirstLumi": "first_lumi",
    "FilterEfficiency": "filter_efficiency",
    "RunWhitelist": "run_whitelist",
    "RunBlacklist": "run_blacklist",
    "LumiList": "lumi_mask",
    "BlockWhitelist": "block_whitelist",
    "BlockBlacklist": "block_blacklist",
    "SplittingAlgo": "splitting_algo",
}
# What the outputs are called: that of the last step that is kept.
LAST_FIELDS: Mapping[str, str] = {
    "AcquisitionEra": "acquisition_era",
    "ProcessingString": "processing_string",
    "ProcessingVersion": "processing_version",
}
# One job runs all steps, so it needs the largest.
LARGEST_FIELDS: Mapping[str, str] = {"Memory": "memory_mb", "Multicore": "cores"}
RELEASE_FIELDS: Mapping[str, str] = {
    "CMSSWVersion": "cmssw_version",
    "ScramArch": "scram_arch",
    "GlobalTag": "global_tag",
}
PER_EVENT_FIELDS: Mapping[str, str] = {
    "TimePerEvent": "time_per_event_sec",
    "SizePerEvent": "size_per_event_kb",
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

CONVERSIONS: Mapping[str, Conversion] = {
    **dict.fromkeys(
        ("ScramArch", "SiteWhitelist", "SiteBlacklist", "BlockWhitelist", "BlockBlacklist"), listed
    ),
    **dict.fromkeys(("RunWhitelist", "RunBlacklist"), whole_numbers),
    **dict.fromkeys(("RequestNumEvents", "ProcessingVersion", "Memory", "Multicore", "EventStreams"), whole),
    **dict.fromkeys(("Priority", "RequestPriority", "MaxMergeSize", "MinMergeSize"), whole),
    **dict.fromkeys(("EventsPerJob", "EventsPerLumi", "LumisPerJob", "FilesPerJob"), whole),
    **dict.fromkeys(("FirstEvent", "FirstLumi", "RunNumber", "StepChain", "TaskChain"), whole),
    **dict.fromkeys(("TimePerEvent", "SizePerEvent", "FilterEfficiency"), number),
    **dict.fromkeys(("TrustSitelists", "TrustPUSitelists", "DeterministicPileup", "KeepOutput"), flag),
    **dict.fromkeys(("IncludeParents", "LheInputFiles", "EnableHarvesting"), flag),
    **dict.fromkeys(("LumiList", "GPUParams"), mapping),
}

# May be a mapping from the names of the steps to their values.
PER_STEP = frozenset(
    {*LAST_FIELDS, *LARGEST_FIELDS, *RELEASE_FIELDS, *PER_EVENT_FIELDS, "EventStreams", "RequiresGPU"}
)

SPLITTING: Mapping[str, Mapping[str, str]] = {
    "EventBased": {"EventsPerJob": "events_per_job", "EventsPerLumi": "events_per_lumi"},
    "EventAwareLumiBased": {"EventsPerJob": "events_per_job"},
    "LumiBased": {"LumisPerJob": "lumis_per_job"},
    "FileBased": {"FilesPerJob": "files_per_job"},
}
JOB_SIZES: Mapping[str, int] = {"LumisPerJob": 8, "FilesPerJob": 1}

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

# Goes along with the payload.
METADATA = (
    *("RequestType", "SubRequestType", "PrepID", "RequestString", "ValidStatus"),
    *("DbsUrl", "ConfigCacheUrl", "CouchDBName"),
    *("EnableHarvesting", "DQMConfigCacheID", "DQMHarvestUnit", "DQMUploadUrl", "DQMSequences", "Scenario"),
    *("TransientOutputModules", "IgnoredOutputModules"),
)

# Would change what is computed or where; only this value is supported.
MUST_BE: Mapping[str, tuple[Any, ...]] = {
    "RunNumber": (0, 1),
    "IncludeParents": (False,),
    "LheInputFiles": (False,),
    "GlobalTagConnect": (),
    "OverrideCatalog": (),
    "JobExtraMatchRequirements": (),
}

_STEP_ONLY = {
    *("StepName", "InputStep", "TaskName", "InputTask", "InputFromOutputModule", "KeepOutput"),
    *("TransientOutputModules", "Seeding", "PayloadConfig"),
}
# Who works on it where, how it is subscribed and watched: ReqMgr2's own business, or decided here in another way.
_BOOKKEEPING = {
    *("AllowOpportunistic", "AutoApproveSubscriptionSites", "BlockCloseMaxEvents", "BlockCloseMaxFiles"),
    *("BlockCloseMaxSize", "BlockCloseMaxWaitTime", "ChainParentageMap", "Comments", "ContainerSite"),
    *("CouchURL", "CouchWorkloadDBName", "CustodialGroup", "CustodialSites", "CustodialSubType", "DN"),
    *("DQMUploadProxy", "Dashboard", "DashboardHost", "DashboardPort", "DatasetLifetime"),
    *("DeleteFromSource", "EnableNewStageout", "EventNumber", "GracePeriod", "HardTimeout"),
    *("HarvestingMemory", "InitialPriority", "InputDatasets", "MaxMergeEvents", "MaxRSS", "MaxVSize"),
    *("MaxWaitTime", "NonCustodialGroup", "NonCustodialSites", "NonCustodialSubType"),
    *("OpenRunningTimeout", "OriginalRequestName", "OutputModulesLFNBases", "Override", "ParentageResolved"),
    *("PeriodicHarvestInterval", "PeriodicHarvestSites", "PriorityTransition", "ReqMgr2Only", "ReqMgrURL"),
    *("RequestDate", "RequestNumber", "RequestSizeFiles", "RequestStatus", "RequestTransition"),
    *("RequestWorkflow", "RobustMerge", "Seeding", "SoftTimeout", "SoftwareVersions", "SubscriptionPriority"),
    *("Team", "Teams", "TotalEstimatedJobs", "TotalInputEvents", "TotalInputFiles", "TotalInputLumis"),
    *("TotalTime", "UseSiteListAsLocation", "ValidateStatus", "VoGroup", "VoRole", "WMWorkSpec"),
    *("events_per_job", "events_per_lumi", "files_per_job", "inputMode", "input_events", "input_lumis"),
    *("input_num_files", "lumis_per_job", "max_events_per_lumi", "max_merge_events", "max_merge_size"),
    *("max_wait_time", "min_merge_size", "nskims", "timeStamp", "total_jobs", "wms_backend"),
}
FIELDS: Mapping[str, str] = {
    **TOP_FIELDS,
    **FIRST_FIELDS,
    **LAST_FIELDS,
    **LARGEST_FIELDS,
    **RELEASE_FIELDS,
    **PER_EVENT_FIELDS,
    "RequiresGPU": "requires_gpu",
    "GPUParams": "gpu_params",
}
_SPLITTING_NAMES = {name for names in SPLITTING.values() for name in names}
_EVERYWHERE = {*FIELDS, *_SPLITTING_NAMES, *MUST_BE, *STEP_PARAMETERS, *METADATA}

KNOWN = frozenset(_EVERYWHERE | _BOOKKEEPING | {*KINDS, "OutputDatasets", "PayloadConfig", "MinMergeSize"})
KNOWN_IN_STEP = frozenset(_EVERYWHERE | _STEP_ONLY)
