"""What a request that failed has registered: for whoever takes it back."""

from __future__ import annotations

from datetime import datetime

from wms2.models.base import Count, Model
from wms2.models.output import OutputStatus
from wms2.patterns import RequestName

INVALIDATION = "invalidation"
"""Its name in the audit trail."""


class RegisteredFile(Model):
    lfn: str
    events: Count
    size_bytes: Count


class RegisteredBlock(Model):
    name: str
    site: str
    in_dbs: bool = False
    """Recorded as registered. A call that was cut off may have registered a closed block all the same."""
    rules: tuple[str, ...] = ()
    """Of Rucio, as far as they are left: what protects it, and what brings it elsewhere."""
    files: tuple[RegisteredFile, ...]


class RegisteredDataset(Model):
    name: str
    status: OutputStatus
    blocks: tuple[RegisteredBlock, ...]
    not_registered: tuple[RegisteredFile, ...] = ()
    """Made, and not recorded as registered. A call that was cut off may have registered them all the same."""


class InvalidationManifest(Model):
    """`invalidation.json` in the request's folder."""

    version: int = 1
    request: RequestName
    actor: str
    reason: str
    datasets: tuple[RegisteredDataset, ...]

    @property
    def counts(self) -> dict[str, int]:
        blocks = [block for dataset in self.datasets for block in dataset.blocks]
        return {
            "datasets": len(self.datasets),
            "blocks": len(blocks),
            "files": sum(len(block.files) for block in blocks),
        }


class WrittenManifest(Model):
    """Where it is, and what it lists in numbers."""

    path: str
    host: str
    datasets: Count
    blocks: Count
    files: Count
    at: datetime
