"""Submitting a DAG exactly once, following it, stopping it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence, Set
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.alerts import sound
from wms2.activities.credentials import hand_out_credentials
from wms2.activities.database import DatabaseActivities
from wms2.activities.held import HeldDagmans
from wms2.activities.rounds import settle_priority
from wms2.activities.standings import Standings
from wms2.activities.watch import Watch, until_the_next_look
from wms2.adapters.condor import Condor, CondorUnavailable, DagmanAd, SubmissionRefused
from wms2.adapters.job_credentials import JobCredentials
from wms2.adapters.queue import Queue
from wms2.core.bans import remaining
from wms2.core.failures import causes_in_words, failure_page, same_failure
from wms2.core.ledger import produced_unit
from wms2.core.rounds import in_the_tail, tail_priority
from wms2.dagman.dag_files import WORKFLOW_DAG
from wms2.dagman.failures import first_ends, gather_failures
from wms2.dagman.include import allowed_sites, base_priority, leave_out_sites, set_priorities
from wms2.dagman.lock import submission_lock
from wms2.dagman.metrics import read_metrics
from wms2.dagman.outputs import produced_units
from wms2.dagman.progress import (
    explain_failures,
    mark_removal,
    read_outcome,
    read_progress,
    removed_by_wms2,
    sum_up,
)
from wms2.dagman.rescue import complete_rescue
from wms2.dagman.round_folder import ROUND_FILE, RoundFile, RoundUnit, read_round
from wms2.dagman.throttle import set_idle_jobs
from wms2.db import credit, dags
from wms2.db.admission import record_slot
from wms2.db.failures import record_failures
from wms2.db.notices import queue_alert
from wms2.db.session import RecordConflict
from wms2.db.sites import avoided_sites
from wms2.errors import UserError
from wms2.models.dag import DagIntent, DagStatus, NodeCounts
from wms2.models.failure import DagFailures
from wms2.models.messages import Alert, DagObservation, DagOrder, FollowOrder, SubmittedDag
from wms2.models.progress import DagOutcome, RoundProgress, Sighting, UnitFailure
from wms2.temporal.heartbeats import Pulse

R = TypeVar("R")

log = logging.getLogger(__name__)

LEFT_THE_QUEUE_SEC = 1.0
ORPHANS_SEC = 60.0
"""How long DAGMans of work units may outlive the outer one before they are removed by themselves."""
GATHER_SEC = 1.0
"""Together with the look before it, short enough for files to be protected within seconds of a work unit's end."""
FOLLOW_SEC = 6 * 3600.0
CONFLICTS_TOLD = 3
SIGN_OF_LIFE_SEC = 10.0
"""A third of the time after which a follower counts as dead. So late may it learn that nobody needs it any more."""
SAME_FAILURES = 5
"""So many first nodes that fail for good with the same code, and none that succeeds, end a DAG."""


class DagActivities(DatabaseActivities):
    """What is done to DAGs on a submit host."""

    def __init__(
        self,
        condor: Condor,
        engine: Engine,
        same_failures: int = SAME_FAILURES,
        credentials: JobCredentials | None = None,
    ) -> None:
        super().__init__(engine)
        self._condor = condor
        self._queue = Queue(condor)
        self._standings = Standings(engine)
        self._same_failures = same_failures
        self._credentials = credentials

    @activity.defn
    async def submit_dag(self, order: DagOrder) -> SubmittedDag:
        """Submit this attempt of a round's DAG, exactly once however often it is asked for.

        The intent is recorded first. Under the round's lock the DAG is then looked for everywhere it could be,
        and only one that is nowhere is submitted. A crash at any point leaves what the next call finds.
        """
        planned = read_round(order.folder)
        if order.idle_jobs is not None:
            # It runs by a slot of admission, and not by hand.
            await self.record(record_slot, order.request, order.round, order.idle_jobs)
        dag = await self.record(dags.record_dag_intent, _intent(order, planned))
        async with submission_lock(order.folder) as lock:
            cluster = await self._find(order)
            found = cluster is not None
            if cluster is None:
                hand_out_credentials(self._credentials, order.folder)
                await self._prepare(order, planned)
                cluster = await self._condor.submit_dag(order.folder / WORKFLOW_DAG, order.dag_id, lock=lock)
        schedd = await self._condor.schedd_name()
        if await self.record(dags.record_dag_submitted, order.dag_id, cluster, schedd):
            log.info("%s is in the queue of %s as %s", order.dag_id, schedd, cluster)
        return SubmittedDag(order=order, cluster=cluster, intent_at=dag.intent_at, found=found)

    async def _find(self, order: DagOrder) -> int | None:
        """The cluster of this attempt, if it was ever queued: known, queued, in the history, or only on disk.

        Times are this host's own, never the database's: their clocks may differ.
        """
        recorded = await self.record(dags.dags_of_round, order.request, order.round)
        known = {dag.intent.dag_id: dag.dagman_cluster_id for dag in recorded}
        if cluster := known.get(order.dag_id):
            return cluster
        queued = await self._condor.queued_attempts(order.request, order.round)
        if cluster := queued.pop(order.dag_id, None):
            return cluster
        if queued:
            raise SubmissionRefused(
                f"{min(queued)} is still in the queue; {order.dag_id} has to wait for its end"
            )
        planned_at = (order.folder / ROUND_FILE).stat().st_mtime
        if cluster := await self._condor.find_finished(order.dag_id, planned_at):
            return cluster
        metrics = read_metrics(order.folder / f"{WORKFLOW_DAG}.metrics")
        # The run of no other attempt, so it can only be this one's.
        return metrics.dagman_id if metrics and metrics.dagman_id not in known.values() else None

    async def _prepare(self, order: DagOrder, planned: RoundFile) -> None:
        """No status of an earlier run, no credited unit that would run again, and what the slot allows.

        A unit whose output is on disk skips itself; one whose output was lost there is marked as done.
        """
        (order.folder / f"{WORKFLOW_DAG}.status").unlink(missing_ok=True)
        credited = await self.record(credit.credited_units, order.request, order.round)
        on_disk = {unit.number for unit, _ in produced_units(order.folder, planned)}
        lost = [unit.name for unit in planned.work_units if unit.number in credited - on_disk]
        complete_rescue(order.folder / WORKFLOW_DAG, lost)
        if order.idle_jobs is not None:
            set_idle_jobs(order.folder, order.idle_jobs)
        if order.attempt > 1:
            await self._keep_away(order)

    async def _keep_away(self, order: DagOrder) -> None:
        """From the sites that were banned or closed since the round was planned, by whomever."""
        avoided = await self.record(avoided_sites, order.request)
        if not remaining(allowed_sites(order.folder), avoided):
            raise UserError(
                f"no site is left for round {order.round}, all of its sites are banned or closed; lift a ban with "
                "`wms2 site unban`, or open a site with `wms2 site enable`, and release the request"
            )
        leave_out_sites(order.folder, avoided)

    @activity.defn
    async def observe_dag(self, submitted: SubmittedDag) -> DagObservation:
        """One whole look at a DAG, without any memory of earlier ones."""
        watch = Watch(submitted, read_round(submitted.order.folder))
        watch.shows_news(await self._queued(watch))
        return await self._look(watch)

    async def _queued(self, watch: Watch) -> list[DagmanAd]:
        dag = watch.dag
        return await self._queue.dagmans(dag.cluster, dag.order.dag_id, watch.queue_since())

    async def _look(self, watch: Watch) -> DagObservation:
        """Credit the units that are complete on disk, and tell how far the DAG is.

        The queue was asked before the disk is read, so a unit that was finished when the DAG left the queue is never
        missed. The first look and the last one read what every unit left, whatever DAGMan has written of it.
        """
        order, planned = watch.dag.order, watch.planned
        if watch.done is None or not watch.queued:
            credited = await self.record(credit.credited_units, order.request, order.round)
            watch.done = sum_up(planned, credited)
        new, conflicts = await self._credit(order, planned, watch.candidates, watch.done.numbers)
        if new:
            watch.done = sum_up(planned, watch.done.numbers | new)
        progress = read_progress(
            order.folder, planned, watch.dag.cluster, watch.queued, watch.done, watch.lost, watch.counts
        )
        await self._record_standing(watch, dag_status(progress), _node_counts(progress))
        return DagObservation(progress=progress, conflicts=conflicts)

    async def _credit(
        self, order: DagOrder, planned: RoundFile, candidates: Sequence[RoundUnit], credited: Set[int]
    ) -> tuple[set[int], tuple[str, ...]]:
        """The units that are credited only now, and why others that are complete on disk cannot be."""
        new, conflicts = set(), []
        missing = [unit for unit in candidates if unit.number not in credited]
        for unit, output in produced_units(order.folder, planned, missing):
            try:
                await self.record(credit.credit_work_unit, order.request, produced_unit(output))
                new.add(unit.number)
            except (RecordConflict, ValidationError) as error:
                # One unit that cannot be credited keeps no other from it; it counts as not produced.
                conflicts.append(f"{unit.name}: {error}")
        return new, tuple(conflicts)

    async def _record_standing(self, watch: Watch, status: DagStatus, nodes: NodeCounts) -> None:
        """Only what is new; of a DAG that goes on running, together with others."""
        before, watch.recorded = watch.recorded, (status, nodes)
        if before == watch.recorded:
            return
        dag_id = watch.dag.order.dag_id
        if before and before[0] is status is DagStatus.RUNNING:
            await self._standings.put(dag_id, nodes)
        else:
            await self.record(dags.record_dag_status, dag_id, status, nodes)

    @activity.defn
    async def follow_dag(self, order: FollowOrder) -> DagObservation:
        """Look at a DAG until there is news: its end, or work units that were credited. Or until it is late.

        It looks when a glance shows that something changed. What it needs to know is on disk and in the database, so
        it can die at any moment and start anew.
        """
        until = time.monotonic() + FOLLOW_SEC
        watch = Watch(order.dag, read_round(order.dag.order.folder))
        held, pulse = HeldDagmans(self._condor, order.dag, self._report), Pulse(SIGN_OF_LIFE_SEC)
        seen: DagObservation | None = None
        while True:
            pulse.beat()
            if watch.shows_news(await self._queued(watch)) or seen is None:
                looked_at = time.monotonic()
                seen = await self._look(watch)
                if seen.progress.outcome is not DagOutcome.RUNNING:
                    return await self._with_failures(order.dag, seen)
                watch.hurried = watch.hurried or await self.hurry(order.dag.order, seen.progress)
                if seen.progress.units_done > order.units_told:
                    # Others are often about to be finished too: wait a little, and tell of them together. What the
                    # look took counts, as it waits for other DAGs: files are to be protected within seconds.
                    until = min(until, looked_at + GATHER_SEC)
            if seen.progress.dagmans_held:
                await held.look()
            await self.watch_failures(watch, seen.progress)
            if time.monotonic() >= until:
                return DagObservation(progress=seen.progress, conflicts=seen.conflicts[:CONFLICTS_TOLD])
            await asyncio.sleep(min(until_the_next_look(), until - time.monotonic()))

    async def _report(self, alert: Alert) -> None:
        sound(alert.kind, alert.request, alert.message)
        await self.record(queue_alert, alert)

    async def _with_failures(self, submitted: SubmittedDag, seen: DagObservation) -> DagObservation:
        """What was seen of a DAG that has ended, and why units have no output."""
        failures = await self.record_failures(submitted, seen.progress.outcome)
        summary = failures.summary
        return DagObservation(
            progress=seen.progress,
            conflicts=seen.conflicts[:CONFLICTS_TOLD],
            causes=causes_in_words(summary),
            page=failure_page(summary, failures.nodes, failures.files),
            units_waiting=summary.units_waiting,
            units_judged=summary.units_judged,
        )

    @activity.defn
    async def review_dag(self, submitted: SubmittedDag) -> DagObservation:
        """Look again at a DAG that has ended: verdicts of people may say something else of its failures now."""
        return await self._with_failures(submitted, await self.observe_dag(submitted))

    async def record_failures(self, submitted: SubmittedDag, outcome: DagOutcome) -> DagFailures:
        """Keep what failed in a DAG, however often it is asked for."""
        order = submitted.order
        produced = await self.record(credit.credited_units, order.request, order.round)
        planned = read_round(order.folder)
        failures = await _with_signs_of_life(
            asyncio.to_thread(gather_failures, order.folder, planned, submitted.cluster, produced, outcome)
        )
        await _with_signs_of_life(self.record(record_failures, order.dag_id, failures))
        return failures

    async def watch_failures(self, watch: Watch, progress: RoundProgress) -> None:
        """Of a DAG that runs: keep what failed so far, and end the DAG when its first nodes all fail alike."""
        submitted, failures = watch.dag, watch.failures
        if failures.is_time_to_record(progress.units_failed):
            begun = time.monotonic()
            await self.record_failures(submitted, DagOutcome.RUNNING)
            failures.recorded(progress.units_failed, time.monotonic() - begun)
        if failures.is_time_to_look() and await self._fails_alike(watch, progress):
            folder = submitted.order.folder
            await self._remove(submitted, removed_by_wms2(folder, submitted.cluster))

    async def _fails_alike(self, watch: Watch, progress: RoundProgress) -> bool:
        """Whether the DAG is to be ended. The decision is noted first: whoever comes after a crash carries it out."""
        folder, cluster = watch.dag.order.folder, watch.dag.cluster
        if removed_by_wms2(folder, cluster):
            return True
        if progress.units_done:
            watch.failures.healthy = True
            return False
        succeeded, failed = await asyncio.to_thread(
            first_ends, folder, watch.planned, cluster, self._same_failures
        )
        watch.failures.healthy = succeeded > 0 or len(failed) > 1
        code = same_failure(succeeded, failed, self._same_failures)
        if code is None:
            return False
        reason = f"the first {failed.total()} nodes all failed for good with exit code {code}"
        mark_removal(folder, cluster, reason)
        return True

    async def hurry(self, order: DagOrder, progress: RoundProgress) -> bool:
        """Whether the round is in its last tenth: then its jobs have a higher priority, queued ones and later ones."""
        done, total = progress.units_done, progress.units_total
        if not in_the_tail(done, total) or progress.outcome is not DagOutcome.RUNNING:
            return False
        base = base_priority(order.folder, read_round(order.folder).priority)
        priority = tail_priority(base, done, total)
        set_priorities(order.folder, base, priority)
        # Also when the file has it already: whoever wrote it may have died before this.
        await settle_priority(self._condor, order.request, order.round, order.folder)
        return True

    @activity.defn
    async def look_for_dag(self, submitted: SubmittedDag) -> Sighting:
        """Whether a DAG is still in the queue, as far as the schedd of this host says."""
        try:
            queued = await self._condor.dagmans(submitted.cluster, submitted.order.dag_id)
        except CondorUnavailable as error:
            activity.logger.warning("%s", error)
            return Sighting.NO_SCHEDD
        return Sighting.QUEUED if queued else Sighting.GONE

    @activity.defn
    async def explain_dag(self, submitted: SubmittedDag) -> list[UnitFailure]:
        """Why work units have no output, each with the nodes that gave up."""
        order = submitted.order
        planned = read_round(order.folder)
        queued = await self._condor.dagmans(submitted.cluster, order.dag_id)
        produced = await self.record(credit.credited_units, order.request, order.round)
        outcome = read_outcome(order.folder, planned, submitted.cluster, queued, produced)
        return explain_failures(order.folder, planned, produced, outcome)

    @activity.defn
    async def stop_dag(self, submitted: SubmittedDag, reason: str) -> DagObservation | None:
        """Remove a DAG, wait until it has left the queue with its rescue file written, and credit what is done.

        None for a DAG whose folder is lost: it is removed, and there is nothing to look at.
        """
        dag_id = submitted.order.dag_id
        await self.record(dags.record_dag_stop, dag_id, reason)
        await self._remove(submitted, reason)
        if not (submitted.order.folder / ROUND_FILE).exists():
            await self.record(dags.record_dag_status, dag_id, DagStatus.REMOVED, NodeCounts())
            return None
        return await self._with_failures(submitted, await self.observe_dag(submitted))

    async def _remove(self, submitted: SubmittedDag, reason: str) -> None:
        """Remove a DAG, and wait until all of it has left the queue."""
        dag_id = submitted.order.dag_id
        await self._condor.remove_dag(submitted.cluster, dag_id, reason)
        orphans_at = time.monotonic() + ORPHANS_SEC
        while await self._condor.dagmans(submitted.cluster, dag_id):
            if activity.in_activity():
                activity.heartbeat()
            if time.monotonic() > orphans_at:
                await self._condor.remove_orphans(submitted.cluster, dag_id, reason)
                orphans_at += ORPHANS_SEC
            await asyncio.sleep(LEFT_THE_QUEUE_SEC)


async def _with_signs_of_life(work: Coroutine[Any, Any, R]) -> R:
    """The result of work that may take longer than a follower may be silent."""
    task = asyncio.create_task(work)
    while not task.done():
        if activity.in_activity():
            activity.heartbeat()
        await asyncio.wait([task], timeout=SIGN_OF_LIFE_SEC)
    return await task


def dag_status(progress: RoundProgress) -> DagStatus:
    """The status that the record keeps for how a DAG stands."""
    if progress.outcome is DagOutcome.PARTIAL and progress.units_done == 0:
        return DagStatus.FAILED
    return {
        DagOutcome.RUNNING: DagStatus.RUNNING,
        DagOutcome.COMPLETED: DagStatus.COMPLETED,
        DagOutcome.PARTIAL: DagStatus.PARTIAL,
        DagOutcome.ABORTED: DagStatus.FAILED,
        DagOutcome.STOPPED: DagStatus.STOPPED,
        DagOutcome.VANISHED: DagStatus.REMOVED,
    }[progress.outcome]


def _node_counts(progress: RoundProgress) -> NodeCounts:
    return NodeCounts(
        idle=progress.jobs_idle,
        running=progress.jobs_running,
        held=progress.jobs_held,
        done=progress.nodes_done,
        failed=progress.nodes_failed,
    )


def _intent(order: DagOrder, planned: RoundFile) -> DagIntent:
    earlier = order.model_copy(update={"attempt": order.attempt - 1})
    return DagIntent(
        dag_id=order.dag_id,
        request_name=order.request,
        round=order.round,
        attempt=order.attempt,
        dag_file_path=str(Path(order.folder) / WORKFLOW_DAG),
        submit_dir=str(order.folder),
        total_nodes=sum(planned.nodes.values()),
        total_edges=planned.edges,
        node_counts=dict(planned.nodes),
        parent_dag_id=earlier.dag_id if order.attempt > 1 else None,
    )
