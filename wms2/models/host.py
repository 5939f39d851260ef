"""Submit hosts: what their workers say, what the collector says, and what operators say."""

from __future__ import annotations

from datetime import datetime

from wms2.models.base import Count, Flag, Model, PositiveCount
from wms2.patterns import HostName


class HostReport(Model):
    """A submit host that is ready for work, as its worker announces it."""

    host: HostName
    schedd_name: str
    submit_root: str
    dagmans: PositiveCount
    """How many DAGMan processes it may run."""
    version: str


class SubmitHost(Model):
    """A submit host that is known, and the word of operators on it, which outlives that it is."""

    name: HostName
    schedd_name: str
    submit_root: str
    max_dagmans: PositiveCount
    version: str
    first_seen_at: datetime
    last_seen_at: datetime
    """When its worker last announced it."""
    schedd_gone_at: datetime | None = None
    """Since when the collector does not know its schedd; None while it does."""
    silence_told_at: datetime | None = None
    """When operators were told that it is silent; None while it is not."""
    left_at: datetime | None = None
    """When its worker said that it stops; None once it is announced again."""
    disabled: Flag = False
    lost_at: datetime | None = None
    """When an operator gave it up: it must be seen again before it is used."""
    said_by: str | None = None
    said_because: str | None = None
    said_at: datetime | None = None


class KnownHost(SubmitHost):
    """The same, for whoever looks at hosts."""

    open_rounds: Count
    unused_because: str | None
    """Why nothing is lent on it; None for one that is used."""


class GivenUp(Model):
    """What came of giving up a host: the requests that were told, and what those said that refused."""

    host: str
    held: tuple[str, ...]
    refused: tuple[str, ...]


class HostSurvey(Model):
    """What became of the submit hosts that were known."""

    ready: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    """Newly so."""
    cut_off: tuple[str, ...] = ()
    """Newly so: their workers are there, and the collector has long not known their schedds."""
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"ready: {', '.join(self.ready) or 'none'}"]
        words += [f"silent: {', '.join(self.silent)}"] if self.silent else []
        words += [f"not in the pool: {', '.join(self.cut_off)}"] if self.cut_off else []
        words += [f"vanished: {', '.join(self.removed)}"] if self.removed else []
        return "; ".join(words)
