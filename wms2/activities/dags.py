"""Submitting a DAG exactly once, following it, stopping it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.database import DatabaseActivities
from wms2.adapters.condor import Condor, SubmissionRefused
from wms2.core.ledger import produced_unit
from wms2.dagman.dag_files import WORKFLOW_DAG
from wms2.dagman.lock import submission_lock
from wms2.dagman.metrics import read_metrics
from wms2.dagman.outputs import produced_units
from wms2.dagman.progress import explain_failures, read_outcome, read_progress
from wms2.dagman.rescue import complete_rescue
from wms2.dagman.round_folder import ROUND_FILE, RoundFile, read_round
from wms2.db import credit, dags
from wms2.db.session import RecordConflict
from wms2.models.dag import DagIntent, DagStatus, NodeCounts
from wms2.models.messages import DagObservation, DagOrder, FollowOrder, SubmittedDag
from wms2.models.progress import DagOutcome, RoundProgress, UnitFailure

LEFT_THE_QUEUE_SEC = 1.0
ORPHANS_SEC = 60.0
"""How long DAGMans of work units may outlive the outer one before they are removed by themselves."""
LOOK_EVERY_SEC = 2.0
GATHER_SEC = 5.0
FOLLOW_SEC = 6 * 3600.0
CONFLICTS_TOLD = 3


class DagActivities(DatabaseActivities):
    """What is done to DAGs on a submit host."""

    def __init__(self, condor: Condor, engine: Engine) -> None:
        super().__init__(engine)
        self._condor = condor

    @activity.defn
    async def submit_dag(self, order: DagOrder) -> SubmittedDag:
        """Submit this attempt of a round's DAG, exactly once however often it is asked for.

        The intent is recorded first. Under the round's lock the DAG is then looked for everywhere it could be,
        and only one that is nowhere is submitted. A crash at any point leaves what the next call finds.
        """
        planned = read_round(order.folder)
        dag = await self.record(dags.record_dag_intent, _intent(order, planned))
        async with submission_lock(order.folder) as lock:
            cluster = await self._find(order)
            found = cluster is not None
            if cluster is None:
                await self._prepare(order, planned)
                cluster = await self._condor.submit_dag(order.folder / WORKFLOW_DAG, order.dag_id, lock=lock)
        schedd = await self._condor.schedd_name()
        await self.record(dags.record_dag_submitted, order.dag_id, cluster, schedd)
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
        """Before a resubmission: no status of an earlier run, and no credited unit that would run again.

        A unit whose output is on disk skips itself; one whose output was lost there is marked as done.
        """
        (order.folder / f"{WORKFLOW_DAG}.status").unlink(missing_ok=True)
        credited = await self.record(credit.credited_units, order.request, order.round)
        on_disk = {unit.number for unit, _ in produced_units(order.folder, planned)}
        lost = [unit.name for unit in planned.work_units if unit.number in credited - on_disk]
        complete_rescue(order.folder / WORKFLOW_DAG, lost)

    @activity.defn
    async def observe_dag(self, submitted: SubmittedDag) -> DagObservation:
        """One look at a DAG: credit the units that are complete on disk, and tell how far it is.

        It needs no memory of earlier looks. The queue is asked before the disk is read, so a unit that was
        finished when the DAG left the queue is never missed.
        """
        order = submitted.order
        planned = read_round(order.folder)
        queued = await self._condor.dagmans(submitted.cluster, order.dag_id)
        before = await self.record(credit.credited_units, order.request, order.round)
        produced, conflicts = set(before), []
        for unit, output in produced_units(order.folder, planned, before):
            try:
                await self.record(credit.credit_work_unit, order.request, produced_unit(output))
                produced.add(unit.number)
            except (RecordConflict, ValidationError) as error:
                # One unit that cannot be credited keeps no other from it; it counts as not produced.
                conflicts.append(f"{unit.name}: {error}")
        progress = read_progress(order.folder, planned, submitted.cluster, queued, produced)
        await self.record(dags.record_dag_status, order.dag_id, dag_status(progress), _node_counts(progress))
        return DagObservation(
            progress=progress, newly_credited=tuple(sorted(produced - before)), conflicts=tuple(conflicts)
        )

    @activity.defn
    async def follow_dag(self, order: FollowOrder) -> DagObservation:
        """Look at a DAG until there is news: its end, or work units that were credited. Or until it is late.

        What it needs to know is on disk and in the database, so it can die at any moment and start anew.
        """
        until = time.monotonic() + FOLLOW_SEC
        while True:
            seen = await self.observe_dag(order.dag)
            activity.heartbeat(seen.progress.units_done)
            ended = seen.progress.outcome is not DagOutcome.RUNNING
            if seen.progress.units_done > order.units_told and not ended:
                # Others are often about to be finished too: wait a little, and tell of them together.
                until = min(until, time.monotonic() + GATHER_SEC)
            if ended or time.monotonic() >= until:
                return DagObservation(progress=seen.progress, conflicts=seen.conflicts[:CONFLICTS_TOLD])
            await asyncio.sleep(LOOK_EVERY_SEC)

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
        await self._condor.remove_dag(submitted.cluster, dag_id, reason)
        orphans_at = time.monotonic() + ORPHANS_SEC
        while await self._condor.dagmans(submitted.cluster, dag_id):
            if activity.in_activity():
                activity.heartbeat()
            if time.monotonic() > orphans_at:
                await self._condor.remove_orphans(submitted.cluster, dag_id, reason)
                orphans_at += ORPHANS_SEC
            await asyncio.sleep(LEFT_THE_QUEUE_SEC)
        if not (submitted.order.folder / ROUND_FILE).exists():
            await self.record(dags.record_dag_status, dag_id, DagStatus.REMOVED, NodeCounts())
            return None
        return await self.observe_dag(submitted)


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
