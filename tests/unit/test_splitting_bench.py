"""The bench runs, at sizes that take no time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.case import Case, measure
from bench.subjects import SUBJECTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("case", SUBJECTS["planning"], ids=lambda case: case.name)
def test_every_case_of_planning_makes_jobs_at_any_size(case: Case) -> None:
    assert case.sizes == (10_000, 100_000)
    for size in (1, 30):
        result = measure(case, size)
        assert result["jobs"] >= 1
        assert result["cpu_sec"] >= 0
        assert result["peak_mb"] >= result["prepared_mb"] > 0


def test_the_bench_prints_one_json_object_with_every_case() -> None:
    command = [sys.executable, "-m", "bench", "planning", "--sizes", "10", "--json"]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    measured = json.loads(answer.stdout)["planning"]
    assert [result["case"] for result in measured] == [case.name for case in SUBJECTS["planning"]]


def test_a_subject_that_does_not_exist_is_named_with_those_that_do() -> None:
    command = [sys.executable, "-m", "bench", "cooking"]
    answer = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "no subject cooking; known are planning" in answer.stderr
