"""Which submit hosts are used: what their workers say, what the collector says, and above all what operators say.

A worker's announcement says that somebody serves the host; the collector, that the pool takes jobs from its schedd.
Neither changes the word of an operator, which is kept apart and holds when a host vanishes and returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from wms2.models.host import SubmitHost
from wms2.models.plan import CONCURRENT_WORK_UNITS

LEAST_DAGMANS = 1 + CONCURRENT_WORK_UNITS
"""What one round needs."""


def is_silent(host: SubmitHost, now: datetime, silence: timedelta) -> bool:
    return now - host.last_seen_at > silence


def why_unused(host: SubmitHost, now: datetime, silence: timedelta) -> str | None:
    """Why nothing is lent on a host, in words; None for one that is used."""
    why = f": {host.said_because}" if host.said_because else ""
    if host.disabled:
        return f"disabled by {host.said_by or 'an operator'}{why}"
    if host.lost_at is not None and host.last_seen_at <= host.lost_at:
        return f"given up at {_minute(host.lost_at)}, and its worker has not been heard of since"
    if host.left_at is not None:
        return f"its worker was stopped at {_minute(host.left_at)}"
    if is_silent(host, now, silence):
        return f"its worker is silent since {_minute(host.last_seen_at)}"
    if host.schedd_gone_at is not None:
        return (
            f"the collector does not know its schedd {host.schedd_name} since {_minute(host.schedd_gone_at)}"
        )
    if host.max_dagmans < LEAST_DAGMANS:
        return f"it may run {host.max_dagmans} DAGMans, and a round needs {LEAST_DAGMANS}: raise WMS2_MAX_DAGMANS there"
    return None


def ready_hosts(hosts: Iterable[SubmitHost], now: datetime, silence: timedelta) -> dict[str, int]:
    """The hosts that are used, and how many DAGMan processes each may run."""
    return {host.name: host.max_dagmans for host in hosts if why_unused(host, now, silence) is None}


def with_schedds(host: SubmitHost, schedds: Collection[str], now: datetime) -> SubmitHost:
    """The host after the collector named the schedds that it knows."""
    gone_at = None if host.schedd_name in schedds else host.schedd_gone_at or now
    return host.model_copy(update={"schedd_gone_at": gone_at})


def is_vanished(host: SubmitHost, open_rounds: int, now: datetime, silence: timedelta) -> bool:
    """Whether nobody knows the host any more: neither worker nor collector, and no round is open on it."""
    return is_silent(host, now, silence) and host.schedd_gone_at is not None and open_rounds == 0


def is_missed(host: SubmitHost, now: datetime, silence: timedelta) -> bool:
    """Whether operators are to be told that a host is silent: once, and not of one that they gave up themselves."""
    expected = not host.disabled and (host.lost_at is None or host.last_seen_at > host.lost_at)
    return expected and host.silence_told_at is None and is_silent(host, now, silence)


def is_cut_off(host: SubmitHost, now: datetime, silence: timedelta) -> bool:
    """Whether operators are to be told that the pool takes no jobs from a host whose worker is there."""
    gone_at = host.schedd_gone_at
    return (
        not (host.disabled or is_silent(host, now, silence))
        and gone_at is not None
        and now - gone_at > silence
    )


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
