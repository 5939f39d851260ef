"""A request: what was asked, in the one form that all of WMS2 works with."""

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from wms2.models.base import (
    Count,
    EventNumber,
    Flag,
    Fraction,
    LumiNumber,
    Model,
    PositiveCount,
    PositiveNumber,
    RunNumber,
)
from wms2.models.job_attributes import JobAttributeName, JobAttributeValue
from wms2.models.payload import PayloadDocument
from wms2.models.pileup import pileup_of
from wms2.models.policy import FailureHandler, FailureRule, OnUnclassified
from wms2.models.request_rules import refuse_contradictions
from wms2.models.splitting import PARAMS, FileBased, SplittingAlgo, SplittingParams
from wms2.patterns import (
    BlockName,
    CmsswVersion,
    Dataset,
    DistinguishedName,
    Era,
    GlobalTag,
    GpuVersion,
    LfnBase,
    MailAddress,
    OutputDatasetName,
    PrimaryDataset,
    ProcessingString,
    RequestName,
    RseExpression,
    Run,
    ScramArch,
    SiteName,
    Tier,
    Word,
)


class RequestStatus(StrEnum):
    NEW = "new"
    SUBMITTED = "submitted"
    QUEUED = "queued"
    PILOT_RUNNING = "pilot_running"
    PLANNING = "planning"
    ACTIVE = "active"
    PARTIAL = "partial"
    HELD = "held"
    STOPPING = "stopping"
    RESUBMITTING = "resubmitting"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def is_final(self) -> bool:
        return self in (RequestStatus.COMPLETED, RequestStatus.FAILED, RequestStatus.ABORTED)


class CleanupPolicy(StrEnum):
    """What becomes of the outputs of a request that a restart replaced."""

    KEEP_UNTIL_REPLACED = "keep_until_replaced"
    IMMEDIATE_CLEANUP = "immediate_cleanup"
    GRACE_PERIOD = "grace_period"


class Completion(StrEnum):
    """When a simulation is done: enough events were written, or enough event numbers were planned."""

    PRODUCED = "produced"
    OFFSET = "offset"


class Output(Model):
    """A dataset that the request makes: what one output module of one step writes."""

    module: Word = Field(description="the output module that writes it")
    tier: Tier = Field(description="the data tier, such as GEN-SIM")
    step: Word = Field(description="the payload step that holds the module")
    dataset: OutputDatasetName = Field(description="the dataset's name /Primary/Era-Processing-v1/TIER")
    destinations: tuple[RseExpression, ...] = Field(
        (),
        max_length=10,
        description="where it shall be, in Rucio's expressions; empty follows the subscriptions",
    )
    retention_days: Annotated[int, Field(strict=True, ge=1, le=36_500)] | None = Field(
        None, description="for how long it is kept there; empty for good"
    )


class GpuParams(Model):
    gpu_memory_mb: PositiveCount = Field(description="GPU memory in MB")
    cuda_runtime: GpuVersion = Field(description="version of the CUDA runtime, such as 11.2")
    cuda_capabilities: tuple[GpuVersion, ...] = Field(min_length=1, description="versions such as 7.5")


Priority = Annotated[int, Field(strict=True, ge=0, le=10**9)]


class ProductionStep(Model):
    """A part of the sample that goes first. What follows the last one runs with the request's own priority."""

    fraction: Fraction = Field(description="the part of the sample that is to be there, such as 0.1")
    priority: Priority = Field(description="its priority, above the request's own")


def _in_order(lumis: tuple[int, int]) -> tuple[int, int]:
    if lumis[0] > lumis[1]:
        raise ValueError("expected the first lumi section not to be above the last")
    return lumis


LumiSpan = Annotated[tuple[LumiNumber, LumiNumber], AfterValidator(_in_order)]
LumiMask = dict[Run, tuple[LumiSpan, ...]]
Sites = tuple[SiteName, ...]
Runs = tuple[RunNumber, ...]
Blocks = tuple[BlockName, ...]


def _nobody(value: Any) -> Any:
    return () if value == "none" else value


Notify = Annotated[tuple[MailAddress, ...] | None, BeforeValidator(_nobody)]
"""Empty for nobody; None for the addresses that the contacts file has for the requestor."""


class Request(Model):
    """Field by field described in docs/request-format.md."""

    request_name: RequestName = Field(description="a unique name")
    requestor: Word = Field(description="the user name of who asks")
    requestor_dn: DistinguishedName | None = Field(None, description="the subject of their certificate")
    group: Word | None = Field(None, description="the group they ask for")
    campaign: Word = Field(description="the campaign it belongs to")

    acquisition_era: Era = Field(description="the era, such as Run2024A")
    processing_string: ProcessingString = Field(description="the processing, such as Demo_v3")
    processing_version: Annotated[int, Field(strict=True, ge=1, le=999_999)] = Field(
        1, description="a number from 1"
    )

    input_dataset: Dataset | None = Field(None, description="the dataset to read; none for a simulation")
    secondary_input_dataset: Dataset | None = Field(None, description="pile-up that all steps may read")
    primary_dataset: PrimaryDataset | None = Field(None, description="simulation: the primary dataset's name")
    total_events: PositiveCount | None = Field(None, description="simulation: how many events")
    first_event: EventNumber = Field(1, description="simulation: the number of its first event")
    first_lumi: LumiNumber = Field(1, description="simulation: the number of its first lumi section")
    filter_efficiency: Fraction = Field(1.0, description="the part of the events that pass the filters")
    run_whitelist: Runs = Field((), description="runs to process; empty for all")
    run_blacklist: Runs = Field((), description="runs to leave out")
    lumi_mask: LumiMask = Field({}, description="lumi sections to process, a list of [first, last] per run")
    block_whitelist: Blocks = Field((), description="blocks to process; empty for all")
    block_blacklist: Blocks = Field((), description="blocks to leave out")
    prefetch: RseExpression | None = Field(
        None, description="where the input shall be before the first job, in Rucio's expressions"
    )

    outputs: tuple[Output, ...] = Field(min_length=1, max_length=50, description="the datasets it makes")
    merged_lfn_base: LfnBase = Field(
        default_factory=lambda known: "/store/data" if known["input_dataset"] else "/store/mc",
        description="folder of the merged files",
    )
    unmerged_lfn_base: LfnBase = Field("/store/unmerged", description="folder of files not yet merged")
    merge_target_bytes: Annotated[int, Field(strict=True, ge=1000, le=10**12)] = Field(
        4_000_000_000, description="the size a merged file should have"
    )
    merge_copy_fraction: Fraction = Field(
        0.75, description="a file at least this part of the target is copied instead of merged"
    )
    cleanup_policy: CleanupPolicy = Field(
        CleanupPolicy.KEEP_UNTIL_REPLACED, description="what a restart does to older outputs"
    )
    cleanup_grace_days: Annotated[int, Field(strict=True, ge=1, le=3650)] = Field(
        30, description="how long grace_period keeps outputs that were replaced"
    )

    splitting_algo: SplittingAlgo = Field(description="how the work is cut into jobs")
    splitting_params: SplittingParams = Field({}, validate_default=True, description="see below")

    cmssw_version: CmsswVersion | None = Field(None, description="the release; cmsRun steps need it")
    scram_arch: tuple[ScramArch, ...] = Field((), description="the architectures; cmsRun steps need one")
    global_tag: GlobalTag | None = Field(None, description="the conditions")
    payload_config: PayloadDocument = Field(description="what the jobs run, a mapping with steps")

    memory_mb: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        2048, description="memory of a job in MB"
    )
    cores: Annotated[int, Field(strict=True, ge=1, le=256)] = Field(1, description="cores of a job")
    time_per_event_sec: PositiveNumber = Field(1.0, description="seconds an event takes")
    size_per_event_kb: PositiveNumber = Field(1.5, description="output of an event in kB")
    requires_gpu: Flag = Field(False, description="whether jobs need a GPU")
    gpu_params: GpuParams | None = Field(None, description="what the GPU must be able to do")
    job_attributes: dict[JobAttributeName, JobAttributeValue] = Field(
        {}, description="more ClassAd attributes of the jobs"
    )

    site_whitelist: Sites = Field((), description="sites that may run it; empty for all")
    site_blacklist: Sites = Field((), description="sites that must not run it")
    trust_sitelists: Flag = Field(False, description="run at the listed sites wherever the input is")
    trust_pu_sitelists: Flag = Field(False, description="run at the listed sites wherever the pile-up is")

    priority: Priority = Field(100_000, description="a higher number goes first")
    production_steps: tuple[ProductionStep, ...] = Field(
        (),
        max_length=20,
        description="parts of the sample that go first: the fraction of it, and its priority",
    )
    urgent: Flag = Field(False, description="no pilot: the given estimates are used")
    completion: Completion = Field(Completion.PRODUCED, description="when a simulation is done")
    error_hold_threshold: Fraction = Field(
        0.2, description="part of failed work units that holds the request"
    )
    error_max_rescue_attempts: Annotated[int, Field(strict=True, ge=0, le=100)] = Field(
        3, description="rescues of a round before the request is held"
    )
    failure_rules: tuple[FailureRule, ...] = Field(
        (), max_length=200, description="what failures mean, where it is not as usual"
    )
    failure_handlers: tuple[FailureHandler, ...] = Field(
        (), max_length=50, description="what to do about some exit codes before a node is tried again"
    )
    on_unclassified: OnUnclassified = Field(
        OnUnclassified.RETRY, description="retry what no rule knows, or wait for a verdict"
    )
    notify: Notify = Field(
        None, max_length=20, description="mail addresses to tell of it instead of its requestor's, or none"
    )
    previous_version_request: RequestName | None = Field(None, description="the request this one replaces")

    @field_validator("splitting_params", mode="before")
    @classmethod
    def _params_of_the_algorithm(cls, value: Any, info: ValidationInfo) -> Any:
        algo = info.data.get("splitting_algo")
        # A wrong algorithm is a mistake of its own; what its parameters should be is then unknown.
        return FileBased() if algo is None else PARAMS[algo].model_validate(value)

    @model_validator(mode="after")
    def _without_contradictions(self) -> Self:
        refuse_contradictions(self.model_dump(mode="json"), self.model_fields_set)
        return self

    @property
    def is_simulation(self) -> bool:
        return self.input_dataset is None

    @property
    def pileup_datasets(self) -> tuple[str, ...]:
        """All that the steps mix in, sorted."""
        named = {name for _, _, name in pileup_of(self.payload_config)}
        return tuple(
            sorted(named | ({self.secondary_input_dataset} if self.secondary_input_dataset else set()))
        )

    @property
    def reads_catalogues(self) -> bool:
        """Whether DBS and Rucio are asked when it is planned."""
        return not self.is_simulation or bool(self.pileup_datasets)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the ReqMgr2 document it came from asks for and WMS2 leaves to others, a sentence each."""
        origin = self.payload_config.get("reqmgr2")
        notes = origin.get("notes") if isinstance(origin, dict) else None
        return tuple(note for note in notes if isinstance(note, str)) if isinstance(notes, list) else ()

    @property
    def output_datasets(self) -> tuple[str, ...]:
        return tuple(output.dataset for output in self.outputs)

    @property
    def digest8(self) -> str:
        """Eight hex digits that begin the names of the request's files."""
        return hashlib.sha256(self.request_name.encode()).hexdigest()[:8]

    @property
    def files_per_job(self) -> int:
        return self._splitting_number("files_per_job")

    @property
    def events_per_job(self) -> int:
        return self._splitting_number("events_per_job")

    @property
    def events_per_lumi(self) -> int:
        return self._splitting_number("events_per_lumi")

    @property
    def lumis_per_job(self) -> int:
        return self._splitting_number("lumis_per_job")

    def _splitting_number(self, name: str) -> int:
        number = getattr(self.splitting_params, name, None)
        if not isinstance(number, int):
            raise ValueError(f"{self.splitting_algo} splitting has no {name}")
        return number


class StatusTransition(Model):
    """One change of a request's status, as the record keeps it."""

    sequence: Count
    from_status: RequestStatus | None
    """None for the first one."""
    to_status: RequestStatus
    at: datetime
    actor: str
    reason: str


class RequestRecord(Model):
    """A request as the database knows it."""

    id: UUID
    request_no: PositiveCount
    request: Request
    priority: int
    status: RequestStatus
    status_sequence: Count
    status_reason: str
    status_transitions: tuple[StatusTransition, ...]
    superseded_by_request: RequestName | None
    created_at: datetime
    updated_at: datetime


class RequestSummary(Model):
    """A line of a listing. Its name was checked before it was recorded: a page has a thousand of them."""

    request_name: str
    requestor: str
    campaign: str
    priority: int
    urgent: bool
    status: RequestStatus
    status_reason: str
    created_at: datetime
    updated_at: datetime


class StatusCount(Model):
    """The requests of one status."""

    requests: Count
    oldest_since: datetime
    """When the record of the one that was changed longest ago was changed."""
