"""Writers that die, and writers that meet."""

import fcntl
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.unit.dying_writer import plan
from wms2.dagman import placing
from wms2.dagman.placing import partial_name
from wms2.dagman.round_folder import write_round

ROOT = Path(__file__).parents[2]
STEPS = [
    ("_place_snapshot", 1),
    ("_write_files", 1),
    ("_write_programs", 1),
    ("_write_unit", 1),
    ("group_dag", 3),
    ("_write_unit", 5),
    ("flush_file_system", 1),
]


def writer(folder: Path, step: str, call: int, deed: str) -> list[str]:
    return [sys.executable, "-m", "tests.unit.dying_writer", str(folder), step, str(call), deed]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("step", "call"), STEPS)
def test_a_writer_that_is_killed_leaves_nothing_to_submit_and_nothing_for_ever(
    tmp_path: Path, step: str, call: int
) -> None:
    folder = tmp_path / "rounds/round_00"
    died = subprocess.run(writer(folder, step, call, "kill"), cwd=ROOT, check=False)
    assert died.returncode == -signal.SIGKILL
    assert not folder.exists()
    assert list(folder.parent.iterdir())
    write_round(plan(), folder)
    assert list(folder.parent.iterdir()) == [folder]
    write_round(plan(), tmp_path / "untroubled")
    assert contents(folder) == contents(tmp_path / "untroubled")


def test_a_writer_never_touches_what_a_living_one_has_written_and_finds_its_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = tmp_path / "round_00", Event()

    def telling_flock(handle: int, operation: int) -> None:
        asked.set()
        lock(handle, operation)

    lock = fcntl.flock
    monkeypatch.setattr(placing.fcntl, "flock", telling_flock)
    command = writer(folder, "_write_unit", 3, "wait")
    with (
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as first,
        ThreadPoolExecutor() as pool,
    ):
        assert first.stdout is not None
        assert first.stdout.readline() == "waiting\n"
        before = contents(tmp_path)
        second = pool.submit(write_round, plan(), folder)
        assert asked.wait(60)
        assert contents(tmp_path) == before
        first.communicate("go on\n")
        assert second.result(60).round == 0
    assert first.returncode == 0
    assert list(tmp_path.iterdir()) == [folder]


def test_a_partial_name_is_one_writers_at_a_time_and_gone_afterwards(tmp_path: Path) -> None:
    """Each writer adds a line to what all write: none is lost, so no two wrote at once."""
    final = tmp_path / "final"
    final.write_text("")

    def add_line(number: int) -> None:
        with partial_name(final) as partial:
            assert not partial.exists()
            partial.write_text(final.read_text() + f"{number}\n")
            partial.rename(final)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(add_line, range(200)))
    assert sorted(map(int, final.read_text().split())) == list(range(200))
    assert list(tmp_path.iterdir()) == [final]


def test_what_a_writer_leaves_when_it_fails_is_removed(tmp_path: Path) -> None:
    def fail() -> None:
        with partial_name(tmp_path / "final") as partial:
            (partial / "deeper").mkdir(parents=True)
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        fail()
    assert list(tmp_path.iterdir()) == []
