import errno
import hashlib
import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from pydantic import ValidationError

from tests.factories import SITES, input_file, reprocessing, simulation, snapshot
from wms2.core.planning import plan_round
from wms2.dagman.round_folder import SNAPSHOT_FILE, read_snapshot, write_round
from wms2.dagman.snapshot_file import freeze, read_frozen
from wms2.errors import UserError
from wms2.models.plan import InputFile, Snapshot

BLOCK = "/MinBias/Run2024A-v1/RAW#12ab"
FILES = tuple(
    input_file(
        number, locations=SITES[: number % 4], lumis=((1, number + 1, number + 3), (2, 1, 1)), block=BLOCK
    )
    for number in range(20)
)
ATTEMPTED = (input_file(50), input_file(51))


def with_files(files: tuple[InputFile, ...] = FILES) -> Snapshot:
    return snapshot(reprocessing(), inputs=files, attempted=ATTEMPTED)


def test_a_frozen_snapshot_comes_back_as_it_was_with_the_digest_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "round_00.snapshot.jsonl"
    for whole in (with_files(), snapshot()):
        frozen = freeze(whole, path)
        assert frozen.snapshot == whole
        assert read_frozen(path) == frozen
        assert frozen.digest == hashlib.sha256(path.read_bytes()).hexdigest()
        path.unlink()


def test_a_snapshot_is_frozen_with_a_line_for_each_file_that_names_its_list(tmp_path: Path) -> None:
    freeze(with_files(), tmp_path / "s")
    header, *lines = [json.loads(line) for line in (tmp_path / "s").read_text().splitlines()]
    assert header["files"] == {"inputs": 20, "attempted": 2}
    assert header["snapshot"]["request"]["request_name"] == "reprocessing"
    assert not {"inputs", "attempted"} & set(header["snapshot"])
    listed = [*(("inputs", file.lfn) for file in FILES), *(("attempted", file.lfn) for file in ATTEMPTED)]
    assert [(name, file["lfn"]) for name, file in lines] == listed


def test_the_order_of_the_input_changes_neither_the_digest_nor_the_plan(tmp_path: Path) -> None:
    shuffled = list(FILES)
    random.Random(7).shuffle(shuffled)
    one, other = with_files(), with_files(tuple(shuffled))
    assert freeze(one, tmp_path / "one").digest == freeze(other, tmp_path / "other").digest
    assert plan_round(one) == plan_round(other)


def test_a_file_that_is_listed_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="1 input files are listed more than once, for example /store"):
        with_files((*FILES, FILES[3]))
    with pytest.raises(ValidationError, match="1 input files are listed more than once, for example /store"):
        with_files((*FILES, ATTEMPTED[0]))


def test_where_a_snapshot_is_frozen_already_that_one_holds(tmp_path: Path) -> None:
    first = freeze(snapshot(), tmp_path / "s")
    before = (tmp_path / "s").read_bytes()
    assert freeze(snapshot(simulation(total_events=500)), tmp_path / "s") == first
    assert (tmp_path / "s").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "s"]


def test_of_many_that_freeze_at_once_one_wins_and_all_hear_of_it(tmp_path: Path) -> None:
    start = Barrier(8)

    def freeze_mine(number: int) -> str:
        mine = snapshot(simulation(total_events=100 * number))
        start.wait(60)
        return freeze(mine, tmp_path / "s").digest

    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(freeze_mine, range(1, 9)))
    frozen = read_frozen(tmp_path / "s")
    assert frozen is not None
    assert digests == {frozen.digest}
    assert list(tmp_path.iterdir()) == [tmp_path / "s"]


def test_nothing_frozen_is_no_snapshot(tmp_path: Path) -> None:
    assert read_frozen(tmp_path / "s") is None


@pytest.mark.parametrize(
    "cut", ["no header", "half a header", "half a line", "a line less", "a line more", "empty"]
)
def test_a_damaged_snapshot_is_refused_in_one_sentence(tmp_path: Path, cut: str) -> None:
    freeze(with_files(), tmp_path / "s")
    header, *lines = (tmp_path / "s").read_text().splitlines(keepends=True)
    damaged = {
        "no header": lines,
        "half a header": [header[:200]],
        "half a line": [header, *lines[:-1], lines[-1][:20]],
        "a line less": [header, *lines[:-1]],
        "a line more": [header, *lines, lines[0].replace("000000.root", "999999.root")],
        "empty": [],
    }[cut]
    (tmp_path / "s").write_text("".join(damaged))
    with pytest.raises(UserError, match=r"s cannot be read, or is no snapshot .* plan again$"):
        read_frozen(tmp_path / "s")


def test_the_folder_of_a_round_has_the_frozen_file_itself(tmp_path: Path) -> None:
    frozen = freeze(with_files(), tmp_path / "round_00.snapshot.jsonl")
    described = write_round(plan_round(frozen.snapshot), tmp_path / "round_00", frozen)
    inside = tmp_path / "round_00" / SNAPSHOT_FILE
    assert inside.samefile(frozen.path)
    assert described.digest == frozen.digest
    assert read_snapshot(tmp_path / "round_00").snapshot == frozen.snapshot


def test_where_no_link_is_possible_the_folder_of_a_round_has_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    frozen = freeze(with_files(), tmp_path / "s")
    monkeypatch.setattr("wms2.dagman.round_folder.os.link", refuse)
    write_round(plan_round(frozen.snapshot), tmp_path / "round", frozen)
    assert read_snapshot(tmp_path / "round").digest == frozen.digest


def test_a_round_is_the_same_whether_its_snapshot_was_frozen_before_or_not(tmp_path: Path) -> None:
    frozen = freeze(with_files(), tmp_path / "s")
    plan = plan_round(frozen.snapshot)
    assert write_round(plan, tmp_path / "one", frozen) == write_round(plan, tmp_path / "two")
    assert (tmp_path / "two" / SNAPSHOT_FILE).read_bytes() == frozen.path.read_bytes()


def test_a_changed_or_missing_snapshot_is_refused_in_one_sentence(tmp_path: Path) -> None:
    write_round(plan_round(with_files()), tmp_path / "round")
    inside = tmp_path / "round" / SNAPSHOT_FILE
    inside.write_text(inside.read_text().replace('"events":100', '"events":101', 1))
    with pytest.raises(UserError, match="is not what the round was planned from; plan the round again"):
        read_snapshot(tmp_path / "round")
    inside.unlink()
    with pytest.raises(UserError, match="is missing; plan the round again"):
        read_snapshot(tmp_path / "round")
