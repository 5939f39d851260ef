"""When a site is kept away from a request's jobs, and when from everybody's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

SITES_FAULT = frozenset({"infrastructure", "data"})
"""Categories of failures that speak against the site where they happened."""
WMS2S_FAULT = frozenset({"credential"})
"""Rules for failures of those that do not: a credential that is over fails the jobs of all sites."""
BAN = timedelta(days=7)


class BanPolicy(NamedTuple):
    """When a site is bad, and for how long that counts."""

    failure_ratio: float = 0.5
    """A site that fails a larger part of what ran there is bad."""
    least_failures: int = 3
    """One unlucky job is no bad site."""
    requests_for_all: int = 3
    """A site that so many requests are kept away from is banned for all."""
    length: timedelta = BAN


USUAL = BanPolicy()


class SiteTally(NamedTuple):
    """The attempts that ended at a site, and how many of them failed by its fault."""

    site: str
    attempts: int
    failures: int

    def __str__(self) -> str:
        return f"{self.failures} of {self.attempts} attempts failed at {self.site}"


def speaks_against_site(category: str, rule: str) -> bool:
    """Whether a failure is counted as the fault of the site where it happened."""
    return category in SITES_FAULT and rule not in WMS2S_FAULT


def bad_sites(tallies: Iterable[SiteTally], policy: BanPolicy = USUAL) -> list[SiteTally]:
    """The sites that failed too much of what ran there, and often enough to mean something; by name."""
    return sorted(
        tally
        for tally in tallies
        if tally.failures >= policy.least_failures and tally.failures > policy.failure_ratio * tally.attempts
    )


def remaining(sites: Iterable[str], banned: Iterable[str]) -> tuple[str, ...]:
    """The sites that are left, in their order. Names are compared whole."""
    away = set(banned)
    return tuple(site for site in sites if site not in away)


def is_for_all(requests: Sequence[str], policy: BanPolicy = USUAL) -> bool:
    """Whether so many requests are kept away from a site that it is the site's fault and not theirs."""
    return len(set(requests)) >= policy.requests_for_all
