"""How the attempts of a DAG ended, site by site."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from wms2.core.bans import SiteTally, speaks_against_site
from wms2.dagman.posts import STOPPED, attempt_post, attempts_by_node
from wms2.dagman.round_folder import RoundFile


def tally_sites(folder: Path, planned: RoundFile, cluster: int) -> list[SiteTally]:
    """All attempts of the DAG that ran as `cluster`; those of earlier runs have lower numbers.

    What somebody removed speaks neither for a site nor against it.
    """
    attempts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for unit in planned.work_units:
        for node, clusters in attempts_by_node(folder / unit.name).items():
            for number in clusters:
                post = attempt_post(folder / unit.name, node, number) if number > cluster else None
                if post is None or post.site is None or post.category == STOPPED:
                    continue
                attempts[post.site] += 1
                failures[post.site] += speaks_against_site(post.category, post.rule)
    return [SiteTally(site, count, failures[site]) for site, count in sorted(attempts.items())]
