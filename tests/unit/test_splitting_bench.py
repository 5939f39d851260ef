"""The bench runs, at sizes that take no time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.case import Case, measure
from bench.planning import CASES

ROOT = Path(__file__).parents[2]
ALWAYS = {"case", "size", "unit", "cpu_sec", "wall_sec", "prepared_mb", "peak_mb"}
MADE = {
    "LumiBased, whole plan": {"jobs", "work_units"},
    "snapshot, freezing": {"files", "bytes"},
    "snapshot, reading": {"files"},
    "DAG files, writing": {"jobs", "work_units", "files", "bytes", "one_file_cpu_sec", "ratio_to_one_file"},
    "status file, reading": {"nodes"},
}
"""What the cases tell beside the jobs that a splitter makes."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_of_planning_makes_what_it_promises_at_any_size(case: Case, tmp_path: Path) -> None:
    assert case.sizes == (10_000, 100_000)
    made = MADE.get(case.name, {"jobs"})
    for size in (1, 30):
        result = measure(case, size, tmp_path)
        assert result.keys() == ALWAYS | made
        assert all(result[count] >= 1 for count in made - {"one_file_cpu_sec", "ratio_to_one_file"})
        assert result["cpu_sec"] >= 0
        assert result["peak_mb"] >= result["prepared_mb"] > 0


@pytest.mark.parametrize("name", ["snapshot, reading", "DAG files, writing", "status file, reading"])
def test_the_bench_works_on_as_much_as_it_says(name: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == name)
    counted = {"snapshot, reading": "files", "DAG files, writing": "jobs", "status file, reading": "nodes"}
    assert measure(case, 130, tmp_path)[counted[name]] == 130
    assert list(tmp_path.iterdir()) == []


def test_the_bench_prints_one_json_object_with_every_case() -> None:
    command = [sys.executable, "-m", "bench", "planning", "--sizes", "10", "--json"]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    measured = json.loads(answer.stdout)["planning"]
    assert [result["case"] for result in measured] == [case.name for case in CASES]


def test_the_bench_prints_a_table_with_a_line_for_each_case(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "planning", "--sizes", "10", "--folder", str(tmp_path)]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    title, heads, *lines = answer.stdout.strip().splitlines()
    assert title == "planning"
    assert " ".join(heads.split()) == "case size CPU s wall s input MB peak MB growth made"
    assert len(lines) == len(CASES)


def test_a_subject_that_does_not_exist_is_named_with_those_that_do() -> None:
    command = [sys.executable, "-m", "bench", "cooking"]
    answer = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "no subject cooking; known are planning" in answer.stderr


def test_planning_is_measured_without_the_memory_that_other_subjects_need() -> None:
    look = "import sys; from bench.subjects import cases_of; cases_of('planning'); print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert "wms2.core.planning" in answer.stdout.split()
    assert {"sqlalchemy", "temporalio", "typer"}.isdisjoint(answer.stdout.split())
