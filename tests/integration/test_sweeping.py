"""What a closed round left on the storage of sites is removed there, and nothing that is credited: on the real pool."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.rounds import Round, small_simulation
from tests.patience import PATIENCE_SEC
from wms2.activities.closing import ClosingActivities
from wms2.activities.sweeping import Sweeper
from wms2.config import Settings
from wms2.dagman.removals import LEFT_FILE, SWEEP_FILE, read_list, rounds_to_sweep
from wms2.db.credit import credited_files
from wms2.db.requests import insert_request
from wms2.db.session import transaction
from wms2.db.story import request_story
from wms2.local.demo import merged_paths
from wms2.local.sites import storage_folder
from wms2.models.messages import ClosedRound, RoundOrder
from wms2.models.plan import PilotPlan
from wms2.models.progress import DagOutcome
from wms2.models.removal import FileList, LeftFile

pytestmark = pytest.mark.pool

ABANDONED, UNCREDITED = "mg_000001", "mg_000002"


def on_storage(round_: Round) -> set[Path]:
    """All that is there of its request, whatever it is."""
    found = (round_.settings.home / "storage").rglob(f"*{round_.request.digest8}_*")
    return {path for path in found if not path.is_dir()}


class LeavingRound(Round):
    """A round of three work units whose cleanups all fail: one is produced, and two are given up.

    The second has a job that fails for good beside one that staged out; the third lost the record of its merge.
    """

    def __init__(self, settings: Settings, name: str) -> None:
        faults = [{"node": "proc_000002", "exit_code": 8501}]
        request = small_simulation(settings, name, step={"faults": faults})
        super().__init__(settings, request, limits={"held_sec": 1})

    async def leave(self) -> ClosedRound:
        """Run it to its end and close it."""
        submit = self.folder / "cleanup.sub"
        good = submit.read_text()
        submit.write_text(f"hold = true\n{good}")
        dag = await self.start()
        async with asyncio.timeout(PATIENCE_SEC):
            while await self.condor.dagmans(dag.cluster, dag.order.dag_id):
                await asyncio.sleep(0.5)
        submit.write_text(good)
        (self.folder / UNCREDITED / "merge_output.json").unlink()
        return await self.close()

    async def close(self) -> ClosedRound:
        order = RoundOrder(request=self.request.request_name, round=0, folder=self.folder, reason="given up")
        return await ClosingActivities(self.by_hand.engine, 3600).close_round(order)

    def sweeper(self, **changes: Any) -> Sweeper:
        return Sweeper(self.condor, self.by_hand.engine, self.settings.home / "submit", **changes)

    async def sweep(self) -> tuple[LeftFile, ...]:
        """As the worker does it, without its rests."""
        sweeper = self.sweeper(try_again_sec=0.0)
        async with asyncio.timeout(PATIENCE_SEC):
            while not await sweeper.sweep(self.folder):
                await asyncio.sleep(0.5)
        return read_list(self.folder / LEFT_FILE).files

    def listed(self) -> set[Path]:
        return self._paths(read_list(self.folder / SWEEP_FILE).files)

    def _paths(self, files: Iterable[LeftFile]) -> set[Path]:
        return {Path(f"{storage_folder(self.settings.home, file.site)}{file.lfn}") for file in files}


async def test_when_a_round_is_closed_storage_holds_exactly_its_credited_files_and_nothing_else_of_it(
    stack: Settings,
) -> None:
    round_ = LeavingRound(stack, "swept")
    closed = await round_.leave()
    assert (closed.units_produced, closed.units_abandoned, closed.discrepancies) == (1, 2, ())
    credited = set(merged_paths(stack.home, round_.folder))
    before = on_storage(round_)
    unmerged = {path for path in before if "unmerged" in path.parts}
    assert len(unmerged) == 5, "the jobs of three units, but for one that failed"
    assert before - unmerged - credited, "what was merged and is credited to nobody"
    assert credited < before
    assert round_.listed() == before - credited

    assert await round_.sweep() == ()
    assert on_storage(round_) == credited
    with transaction(round_.by_hand.engine) as session:
        lfns = [f"/store{str(path).partition('/store')[2]}" for path in credited]
        assert credited_files(session, [*lfns, "/store/other"]) == set(lfns)


async def test_what_an_evicted_job_had_staged_out_is_removed_though_no_report_came_back_from_it(
    stack: Settings,
) -> None:
    request = small_simulation(
        stack, "evicted", total_events=100, merge_target_bytes=10**6, step={"seconds_per_event": 0.15},
        splitting_params={"events_per_job": 100, "events_per_lumi": 10},
    )  # fmt: skip
    round_ = Round(stack, request, pilot=PilotPlan(first_events=10, time_budget_sec=3600, tolerance=1e-9))
    dag = await round_.start()
    async with asyncio.timeout(PATIENCE_SEC):
        # A pilot stages out portion by portion, so there is a long moment in which it is half done.
        while not (staged := on_storage(round_)):
            await asyncio.sleep(0.1)
    subprocess.run(
        ["condor_vacate_job", "-fast", "-constraint", f'CMS_RequestName == "{request.request_name}"'],
        env=stack.condor_environment(), capture_output=True, check=True,
    )  # fmt: skip
    assert (await round_.finish(dag)).outcome is DagOutcome.COMPLETED
    assert len(round_.attempts("proc_000000")) == 2
    assert not list(
        round_.folder.glob(f"mg_000000/proc_000000.{round_.attempts('proc_000000')[0]}.report.json")
    )
    assert not [path for path in staged if path.exists()]
    assert on_storage(round_) == set(merged_paths(stack.home, round_.folder))


async def test_a_credited_file_stays_even_when_a_cleanup_lists_it(stack: Settings) -> None:
    round_ = LeavingRound(stack, "listed")
    await round_.leave()
    (round_.folder / SWEEP_FILE).unlink()
    credited, unit = set(merged_paths(stack.home, round_.folder)), round_.folder / "mg_000000"
    output = json.loads((unit / "merge_output.json").read_text())
    listing = json.loads((unit / "removals.json").read_text())
    listing["files"] += [
        {"lfn": file["lfn"], "site": output["site"], "reason": "a mistake"} for file in output["files"]
    ]
    (unit / "removals.json").write_text(json.dumps(listing))
    # Lost on disk, they are still credited in the database.
    (unit / "merge_output.json").unlink()
    await round_.close()
    assert await round_.sweep() == ()
    assert on_storage(round_) == credited


async def test_what_cannot_be_removed_is_tried_again_then_listed_and_told_and_holds_nothing(
    stack: Settings,
) -> None:
    round_ = LeavingRound(stack, "stuck")
    await round_.leave()
    stuck = next(path for path in sorted(round_.listed()) if "unmerged" in path.parts)
    stuck.unlink()
    stuck.mkdir()
    (stuck / "in_the_way").touch()
    (left,) = await round_.sweep()
    assert str(stuck).endswith(left.lfn)
    assert "cannot be removed" in left.reason
    assert {folder.name for folder in round_.folder.glob("sweep_2_*")} == {"sweep_2_000"}
    with transaction(round_.by_hand.engine) as session:
        story = request_story(session, round_.request.request_name)
    told = next(event for event in story if "left_on_storage" in event.what)
    assert f"1 at {left.site}" in told.why
    assert str(round_.folder / LEFT_FILE) in told.why


async def test_a_job_that_removes_files_is_submitted_once_however_often_its_round_is_looked_at(
    stack: Settings,
) -> None:
    round_ = LeavingRound(stack, "once")
    await round_.leave()
    async with asyncio.timeout(PATIENCE_SEC):
        # Two workers at once, as when one is started before the other has ended.
        while not all(await asyncio.gather(*(round_.sweeper().sweep(round_.folder) for _ in range(2)))):
            await asyncio.sleep(0.5)
    for log in round_.folder.glob("sweep_1_*/cleanup.log"):
        assert log.read_text().count("Job submitted from host") == 1
    again = await round_.close()
    assert (again.units_produced, again.units_abandoned) == (1, 2)
    assert read_list(round_.folder / LEFT_FILE).files == ()


async def test_a_round_whose_folder_or_host_is_lost_leaves_nothing_to_work_off(stack: Settings) -> None:
    round_ = Round(stack, small_simulation(stack, "folderless", total_events=20))
    await round_.run()
    gone = round_.folder.with_name("gone")
    round_.folder.rename(gone)
    closing = ClosingActivities(round_.by_hand.engine, 3600)
    for folder in (round_.folder, None):
        order = RoundOrder(request=round_.request.request_name, round=0, folder=folder, reason="lost")
        assert (await closing.close_round(order)).units_produced == 1
    assert not round_.folder.exists()
    assert not (gone / SWEEP_FILE).exists()


def planned(settings: Settings, name: str, listed: FileList | None = None) -> Round:
    """A round that is recorded, and has left something."""
    round_ = Round(settings, small_simulation(settings, name, total_events=20))
    with transaction(round_.by_hand.engine) as session:
        insert_request(session, round_.request)
    (round_.folder / SWEEP_FILE).write_text(listed.model_dump_json() if listed else "torn")
    return round_


async def test_what_nobody_could_work_off_for_a_month_is_told_of(stack: Settings, tmp_path: Path) -> None:
    mine = stack.model_copy(update={"home": tmp_path})
    left = LeftFile(lfn="/store/unmerged/a.root", site="T1_US_FNAL", reason="no permission")
    elsewhere = FileList(schedd="another", files=(left,))
    torn, old, new = (
        planned(mine, name, listed)
        for name, listed in (("a_torn", None), ("b_old", elsewhere), ("c_new", elsewhere))
    )
    month_ago = time.time() - 31 * 86400
    os.utime(old.folder / SWEEP_FILE, (month_ago, month_ago))
    sweeper = Sweeper(old.condor, old.by_hand.engine, tmp_path / "submit")
    sweeping = asyncio.create_task(sweeper.keep_sweeping())
    async with asyncio.timeout(PATIENCE_SEC):
        while not (old.folder / LEFT_FILE).exists():
            await asyncio.sleep(0.1)
    assert not sweeping.done()
    sweeping.cancel()
    assert read_list(old.folder / LEFT_FILE) == elsewhere
    with transaction(old.by_hand.engine) as session:
        story = request_story(session, old.request.request_name)
    assert any("1 at T1_US_FNAL; no permission" in event.why for event in story)
    assert not await sweeper.sweep(new.folder), "the worker of its own host looks after it"
    assert rounds_to_sweep(tmp_path / "submit") == [torn.folder, new.folder]
