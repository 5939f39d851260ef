"""What a request produces: one entry per dataset, its blocks, and the files in them."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from wms2.models.base import Adler32, Count, Lumi, Model, PositiveCount
from wms2.patterns import BlockName, Lfn, OutputDatasetName, RequestName, SiteName


class OutputStatus(StrEnum):
    """How far the dataset is: as far as the block that is furthest behind."""

    PENDING = "pending"
    SOURCE_PROTECTED = "source_protected"
    DBS_REGISTERED = "dbs_registered"
    TRANSFERS_REQUESTED = "transfers_requested"
    TRANSFERRING = "transferring"
    TRANSFERRED = "transferred"
    SOURCE_RELEASED = "source_released"
    ANNOUNCED = "announced"
    INVALIDATED = "invalidated"
    FAILED = "failed"


class OutputStanding(StrEnum):
    """Whether people should use it."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    """A later version of its request has replaced it."""
    INVALIDATED = "invalidated"


class OutputBlockStatus(StrEnum):
    OPEN = "open"
    """It takes files."""
    CLOSED = "closed"
    """It takes no more, ever."""
    ARCHIVED = "archived"
    """In DBS, and where it should be: nothing is left to do for it."""
    INVALIDATED = "invalidated"


class OutputFileStatus(StrEnum):
    PENDING = "pending"
    PROTECTED = "protected"
    """Known to Rucio, in its block, under the rule that holds it at its site."""
    REGISTERED = "registered"
    """Its block is in DBS."""
    INVALIDATED = "invalidated"


class OutputDataset(Model):
    """A dataset on its way to its readers."""

    id: UUID
    request_name: RequestName
    dataset_name: OutputDatasetName
    status: OutputStatus
    transfer_destinations: tuple[str, ...]
    announced_at: datetime | None
    standing: OutputStanding
    cleanup_at: datetime | None
    """When a dataset that was replaced is taken back."""
    invalidated_at: datetime | None
    invalidation_reason: str | None
    created_at: datetime
    updated_at: datetime


class OutputBlock(Model):
    """Files of one dataset at one site; it opens, fills and closes once."""

    id: UUID
    dataset_name: OutputDatasetName
    block_name: BlockName
    number: Count
    source_site: SiteName
    source_rse: str | None
    status: OutputBlockStatus
    files: Count
    events: Count
    size_bytes: Count
    lumis: Count
    dbs_registered_at: datetime | None
    source_rule_id: str | None
    transfer_rule_ids: tuple[str, ...]
    transfers_complete_at: datetime | None
    last_transfer_check: datetime | None
    source_released: bool
    dbs_invalidated: bool
    rucio_rules_deleted: bool
    created_at: datetime
    closed_at: datetime | None


class ProducedFile(Model):
    """A merged file as its work unit hands it over."""

    lfn: Lfn
    dataset: OutputDatasetName
    size_bytes: PositiveCount
    events: Count
    adler32: Adler32
    lumis: tuple[Lumi, ...] = ()
    parents: tuple[Lfn, ...] = ()


class OutputFile(Model):
    """A produced file as the database knows it."""

    file: ProducedFile
    work_unit: Count
    site: SiteName
    block_name: BlockName | None
    status: OutputFileStatus
