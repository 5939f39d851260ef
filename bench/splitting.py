"""Splitting a dataset into jobs, and planning a round of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.case import Case
from bench.dataset import snapshot_of
from wms2.core.planning import plan_round
from wms2.core.splitting import split
from wms2.models.plan import Snapshot

SIZES = (10_000, 100_000)


def _split(snapshot: Snapshot) -> dict[str, int]:
    return {"jobs": len(split(snapshot).jobs)}


def _plan(snapshot: Snapshot) -> dict[str, int]:
    plan = plan_round(snapshot)
    return {"jobs": plan.jobs, "work_units": len(plan.work_units)}


def _case(name: str, algorithm: str, params: Mapping[str, Any], run: Any = _split) -> Case:
    def prepare(files: int, _: Path) -> Snapshot:
        return snapshot_of(files, algorithm, params)

    return Case(name, "files", SIZES, prepare, run)


CASES = (
    _case("FileBased", "FileBased", {"files_per_job": 5}),
    _case("EventBased", "EventBased", {"events_per_job": 500}),
    _case("LumiBased", "LumiBased", {"lumis_per_job": 8}),
    _case("EventAwareLumiBased", "EventAwareLumiBased", {"events_per_job": 5000}),
    _case("LumiBased, one job", "LumiBased", {"lumis_per_job": 10**9}),
    _case("EventAwareLumiBased, one job", "EventAwareLumiBased", {"events_per_job": 10**12}),
    _case("LumiBased, whole plan", "LumiBased", {"lumis_per_job": 8}, _plan),
)
