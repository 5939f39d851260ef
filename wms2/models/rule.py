"""Rules of Rucio, which say where data must be, and the replicas that they hold."""

from __future__ import annotations

from datetime import datetime

from wms2.models.base import Adler32, Count, Model, PositiveCount
from wms2.patterns import Lfn


class Replica(Model):
    """A file at a place."""

    lfn: Lfn
    size_bytes: PositiveCount
    adler32: Adler32


class Rule(Model):
    """A rule and how far it is: a lock for each file that it holds at a place."""

    id: str
    name: str
    """Of what it holds: a block or a dataset."""
    account: str = ""
    rse_expression: str
    copies: int = 1
    state: str
    locks_ok: Count = 0
    locks_replicating: Count = 0
    locks_stuck: Count = 0
    error: str | None = None
    expires_at: datetime | None = None
    comment: str | None = None

    @property
    def files(self) -> int:
        """How many locks it has."""
        return self.locks_ok + self.locks_replicating + self.locks_stuck
