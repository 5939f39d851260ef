"""The same inputs give the same jobs as WMCore's own splitters, as `tests/resources/wmcore/record.py` recorded them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.factories import SITES, input_file, reprocessing, snapshot
from wms2.core.splitting import split
from wms2.models.plan import Job

RECORDED = json.loads((Path(__file__).parents[1] / "resources/wmcore/plans.json").read_text())


def jobs_here(case: dict[str, Any]) -> list[Job]:
    params, chosen = dict(case["size"]), {}
    if "Lumi" in case["algorithm"]:
        params |= {"halt_at_file_boundaries": case["halts"], "split_on_run": case["splits_on_run"]}
        chosen = {"run_whitelist": case["runs"], "lumi_mask": case["mask"]}
    request = reprocessing(
        splitting_algo=case["algorithm"], splitting_params=params, time_per_event_sec=0.001, **chosen
    )
    inputs = tuple(
        input_file(number, events, tuple(places), lumis=lumis)
        for number, events, places, lumis in case["files"]
    )
    return split(snapshot(request, inputs=inputs, sites=SITES)).jobs


def described(job: Job, algorithm: str) -> list[Any]:
    """As it is recorded; WMCore counts the events of a file from 0."""
    numbers = sorted(int(part.lfn[-11:-5]) for part in job.files)
    lumis = [[run, lumi] for run, first, last in job.lumis or () for lumi in range(first, last + 1)]
    if algorithm != "EventBased":
        return [numbers, lumis, [0, -1]]
    (part,) = job.files
    first = (part.first_event or 1) - 1
    return [numbers, lumis, [first, first + part.events - 1]]


@pytest.mark.parametrize("algorithm", ["FileBased", "EventBased", "LumiBased", "EventAwareLumiBased"])
def test_jobs_are_those_of_wmcore_one_by_one(algorithm: str) -> None:
    cases = [case for case in RECORDED if case["algorithm"] == algorithm]
    assert len(cases) > 10
    for case in cases:
        assert sorted(described(job, algorithm) for job in jobs_here(case)) == case["jobs"], case
