"""`wms2 replay` and `wms2 history export`, on a real server with workflows that live and that have ended."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import Result
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner

from tests.patience import PATIENCE_SEC
from tests.replay.record import HISTORIES
from tests.workflows.life import Life, living
from wms2.cli.main import app
from wms2.errors import UserError
from wms2.models.actions import Action
from wms2.models.request import RequestStatus


@pytest.fixture
async def open_life(
    real_env: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Life]:
    """A request that waits for a slot."""
    monkeypatch.setenv("WMS2_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WMS2_TEMPORAL_ADDRESS", real_env.client.service_client.config.target_host)
    async with living(real_env) as life:
        life.world.lend_slots = False
        await life.begin()
        await life.until(RequestStatus.QUEUED)
        yield life


async def say(*words: str | Path) -> Result:
    """What a person gives in a shell; the command line has an event loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, app, [str(word) for word in words])


async def abort(life: Life) -> None:
    await life.say(Action.ABORT)
    await life.end()


async def exported(folder: Path, *options: str, files: int = 1) -> dict[str, int]:
    """Export until so many are there: the list of what has ended is a moment behind."""
    async with asyncio.timeout(PATIENCE_SEC):
        while True:
            done = await say("history", "export", "--to", folder, "--json", *options)
            assert done.exit_code == 0, done.output
            if len(list(folder.rglob("*.json"))) >= files:
                counts: dict[str, int] = json.loads(done.stdout)
                return counts
            await asyncio.sleep(0.2)


async def replay_open(count: int) -> Result:
    async with asyncio.timeout(PATIENCE_SEC):
        while True:
            done = await say("replay", "--all-open", "--json")
            if json.loads(done.stdout)["replayed"] >= count:
                return done
            await asyncio.sleep(0.2)


async def test_what_is_open_replays_with_the_code_that_runs_it(open_life: Life) -> None:
    done = await replay_open(1)
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"replayed": 1, "failed": []})
    assert (await open_life.state()).status is RequestStatus.QUEUED


async def test_closed_histories_are_exported_once_and_replay(open_life: Life, tmp_path: Path) -> None:
    await abort(open_life)
    folder = tmp_path / "histories"
    assert await exported(folder) == {"written": 1, "already_there": 0, "gone": 0}
    (path,) = folder.rglob("*.json")
    before = path.stat()
    assert path.name.startswith(f"request-{open_life.name}.")
    assert await exported(folder) == {"written": 0, "already_there": 1, "gone": 0}
    assert path.stat() == before
    done = await say("replay", folder)
    assert (done.exit_code, done.output) == (0, "1 histories replayed, 0 of them do not fit this version.\n")


async def test_an_export_goes_on_where_it_was_cut_off(open_life: Life, tmp_path: Path) -> None:
    await abort(open_life)
    folder = tmp_path / "histories"
    await exported(folder)
    (path,) = folder.rglob("*.json")
    before = json.loads(path.read_text())
    path.rename(path.with_name(f".{path.name}.new"))
    assert (await exported(folder))["written"] == 1
    assert (json.loads(path.read_text()), list(folder.rglob(".*.new"))) == (before, [])


async def test_only_what_ended_since_then_is_exported(open_life: Life, tmp_path: Path) -> None:
    await abort(open_life)
    await exported(tmp_path / "all")
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    assert await exported(tmp_path / "none", "--since", tomorrow, files=0) == {
        "written": 0, "already_there": 0, "gone": 0
    }  # fmt: skip


async def test_a_history_that_this_version_would_not_have_made_is_told_in_a_sentence(
    open_life: Life, tmp_path: Path
) -> None:
    await abort(open_life)
    folder = tmp_path / "histories"
    await exported(folder)
    (path,) = folder.rglob("*.json")
    other = tmp_path / "other.json"
    other.write_text(path.read_text().replace('"next_round"', '"plan_round"'))
    done = await say("replay", path, other)
    assert done.exit_code == 1
    assert f"{other} does not replay: [TMPRL1100] Nondeterminism error: " in done.output
    assert "Failure {" not in done.output
    assert "2 histories replayed, 1 of them do not fit this version." in done.output


NO_HISTORIES = [
    "{]",
    "[]",
    "{}",
    '{"events": 3}',
    '{"events": []}',
    '{"events": [{"eventId": "x"}]}',
    '{"events": [{"news": 1}]}',
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("text", NO_HISTORIES)
async def test_what_is_no_history_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(text)
    assert "holds no history of a workflow" in str((await say("replay", broken)).exception)
    for words in (("replay", tmp_path / "none.json"), ("replay",)):
        assert isinstance((await say(*words)).exception, UserError)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kept", [slice(0, 1), slice(1, None), slice(0, None, 2), slice(None, None, -1)])
async def test_a_history_of_which_parts_are_missing_is_refused_in_a_sentence(
    tmp_path: Path, kept: slice
) -> None:
    whole = json.loads(next(HISTORIES.glob("*.RequestWorkflow.1.json")).read_text())
    torn = tmp_path / "torn.json"
    torn.write_text(json.dumps({"events": whole["events"][kept]}))
    assert "holds no history of a workflow" in str((await say("replay", torn)).exception)
