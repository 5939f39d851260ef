"""A job as its mode sees it: who it is, what it has to do, and where its files go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

from sandbox import limits, storage
from sandbox.failure import BAD_ENVIRONMENT, Failure
from sandbox.limits import Limits
from sandbox.manifest import SITE, Manifest
from sandbox.report import Report
from sandbox.stageout import StageOut
from sandbox.storage import Storage


@dataclass(frozen=True)
class Job:
    folder: Path
    environment: Mapping[str, str]
    node: str
    cluster: int
    site: str
    manifest: Manifest
    storage: Storage
    stage_out: StageOut
    report: Report
    limits: Limits


def site_and_cluster(environment: Mapping[str, str]) -> tuple[str, int]:
    """Where the job runs and which attempt it is; both are set by the submit file."""
    site, cluster = environment.get("WMS2_SITE", ""), environment.get("WMS2_CLUSTER", "")
    if not SITE.fullmatch(site):
        raise Failure(
            BAD_ENVIRONMENT, f"WMS2_SITE is {site!r}, which is no site: the slot does not say where it is"
        )
    if not cluster.isdigit() or len(cluster) > 18:
        raise Failure(BAD_ENVIRONMENT, f"WMS2_CLUSTER is {cluster!r}, which is no cluster id")
    return site, int(cluster)


def prepare(folder: Path, environment: Mapping[str, str], report: Report, manifest: Manifest) -> Job:
    """Everything a mode needs; the storage is looked up now, not after hours of work."""
    place = storage.load(report.site, environment)
    return Job(
        folder=folder,
        environment=environment,
        node=report.node,
        cluster=report.cluster,
        site=report.site,
        manifest=manifest,
        storage=place,
        stage_out=StageOut(place, report, folder),
        report=report,
        limits=limits.load(environment),
    )
