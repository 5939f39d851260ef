"""Removing what closed rounds left on the storage of sites, by jobs that run there.

A loop beside the queues of a submit host does it, and no activity: a site may be away for days, and no request waits
for that. What it needs to know is on disk and in the queue, so it can die at any moment and start anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from sqlalchemy import Engine

from wms2.activities.alerts import sound
from wms2.activities.credentials import hand_out_credentials
from wms2.activities.database import DatabaseActivities
from wms2.adapters.condor import Condor
from wms2.adapters.job_credentials import JobCredentials
from wms2.core.removals import left_in_words
from wms2.dagman.lock import submission_lock
from wms2.dagman.removals import (
    CLEANUP_SUBMIT,
    LEFT_FILE,
    SWEEP_FILE,
    SweepJob,
    read_list,
    rounds_to_sweep,
    sweep_jobs,
    write_list,
)
from wms2.dagman.round_folder import RoundFile, read_round
from wms2.db.notices import queue_alert
from wms2.models.messages import Alert
from wms2.models.removal import FileList, LeftFile

log = logging.getLogger(__name__)

LOOK_EVERY_SEC = 60.0
TRIES = 2
"""As many as the cleanup of a work unit has."""
TRY_AGAIN_SEC = 6 * 3600.0
"""Nothing waits for it, and a storage that is down now may be up by then."""
GIVE_UP_SEC = 30 * 86400.0
"""For a round whose jobs cannot even be submitted. Those that are submitted end by themselves long before."""


class Sweeper(DatabaseActivities):
    """Works off the lists of what rounds on this host left on storage."""

    def __init__(
        self,
        condor: Condor,
        engine: Engine,
        submit_root: Path,
        credentials: JobCredentials | None = None,
        try_again_sec: float = TRY_AGAIN_SEC,
    ) -> None:
        super().__init__(engine)
        self._condor = condor
        self._submit_root = submit_root
        self._credentials = credentials
        self._try_again_sec = try_again_sec

    async def keep_sweeping(self) -> None:
        """Until it is cancelled."""
        while True:
            for folder in await self._rounds():
                try:
                    await self.sweep(folder)
                except Exception as error:
                    # Whatever it was: neither other rounds nor the worker must suffer.
                    log.warning("%s: what it left on storage is not removed yet: %s", folder, error)
            await asyncio.sleep(LOOK_EVERY_SEC)

    async def _rounds(self) -> list[Path]:
        """Those that left something; none while their disk does not answer."""
        try:
            return await asyncio.to_thread(rounds_to_sweep, self._submit_root)
        except OSError as error:
            log.warning("what rounds left on storage was not looked for: %s", error)
            return []

    async def sweep(self, folder: Path) -> bool:
        """Do what can be done now to remove what a round left, and say whether that is over."""
        path = folder / SWEEP_FILE
        planned, listed = read_round(folder), read_list(path)
        late = path.stat().st_mtime + GIVE_UP_SEC < time.time()
        left = listed.files if late else await self._work_off(folder, planned, listed)
        if left is None:
            return False
        log.info("%s: of %d files that it left on storage %d are there", folder, len(listed.files), len(left))
        await self._tell(folder, planned, listed.model_copy(update={"files": left}))
        return True

    async def _work_off(
        self, folder: Path, planned: RoundFile, listed: FileList
    ) -> tuple[LeftFile, ...] | None:
        """What is left when all was tried; None before that, and where another host looks after the round."""
        if listed.schedd != await self._condor.schedd_name():
            return None
        left = listed.files
        async with submission_lock(folder) as lock:
            for number in range(1, TRIES + 1):
                jobs = await asyncio.to_thread(sweep_jobs, folder, number, left)
                if not await self._have_ended(folder, planned, jobs, lock):
                    return None
                left = tuple(file for job in jobs for file in job.left())
                if left and number < TRIES and not self._has_rested(jobs):
                    return None
        return left

    async def _have_ended(
        self, folder: Path, planned: RoundFile, jobs: Sequence[SweepJob], lock: int
    ) -> bool:
        """Whether all jobs are over; those that never were in the queue are submitted now."""
        if all(job.has_reported for job in jobs):
            return True
        queued = await self._condor.queued_sweeps(planned.request, planned.round)
        tags = {f"{planned.request}:{planned.round}:{job.folder.name}": job for job in jobs}
        missing = {tag: job for tag, job in tags.items() if tag not in queued and not job.was_submitted}
        if missing:
            hand_out_credentials(self._credentials, folder)
        for tag, job in missing.items():
            await self._condor.submit_sweep(job.folder, f"../{CLEANUP_SUBMIT}", tag, lock=lock)
        return not missing and not queued & tags.keys()

    def _has_rested(self, jobs: Iterable[SweepJob]) -> bool:
        return max(job.ended_at for job in jobs) + self._try_again_sec <= time.time()

    async def _tell(self, folder: Path, planned: RoundFile, left: FileList) -> None:
        """People first: with `left.json` in its place nobody looks at the round again."""
        if left.files:
            words = f"{left_in_words(planned.round, left.files)}; {folder / LEFT_FILE} names them"
            sound("left_on_storage", planned.request, words)
            alert = Alert(request=planned.request, kind="left_on_storage", message=words)
            await self.record(queue_alert, alert)
        await asyncio.to_thread(write_list, folder / LEFT_FILE, left)
