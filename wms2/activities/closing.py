"""The end of a round: what it produced is credited, the rest given up, and what was measured kept for the next.

What it left on the storage of sites is listed, and removed afterwards by the worker of its host.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.alerts import sound
from wms2.activities.database import DatabaseActivities
from wms2.core.file_states import excluded_files, short_in_words
from wms2.core.ledger import discrepancies, produced_unit
from wms2.core.measurement import measured_round, pilot_metrics, pilot_report
from wms2.core.removals import files_to_remove, strange_files
from wms2.core.sizing import events_per_job, next_sizing, sizing_of
from wms2.dagman.failures import gather_failures
from wms2.dagman.outputs import produced_units
from wms2.dagman.progress import read_outcome
from wms2.dagman.removals import SWEEP_FILE, leavings, write_list
from wms2.dagman.round_folder import ROUND_FILE, read_round
from wms2.db import credit, ledger
from wms2.db.crosscheck import cross_check
from wms2.db.dags import dags_of_round, record_dag_status
from wms2.db.failures import file_failures, files_of_unit, record_failures, short_files
from wms2.db.notices import queue_alert
from wms2.db.requests import record_pilot_metrics, request_record
from wms2.models.dag import DagStatus
from wms2.models.ledger import WorkUnitStatus
from wms2.models.merge_output import MergeOutput
from wms2.models.messages import Alert, ClosedRound, RoundOrder
from wms2.models.removal import FileList
from wms2.models.sizing import KnownSizing, MeasuredSizing
from wms2.models.workflow import RoundStatus

log = logging.getLogger(__name__)


class ClosingActivities(DatabaseActivities):
    def __init__(self, engine: Engine, target_job_sec: int) -> None:
        super().__init__(engine)
        self._target_job_sec = target_job_sec

    @activity.defn
    async def close_round(self, order: RoundOrder) -> ClosedRound:
        """Credit what is complete on disk once more, give up the rest with the reason, and close the round.

        The ledger says which work units there are, so a round whose folder was lost can be closed as well. One whose
        submit host is lost is closed anywhere: what is on that host's disk counts for nothing any more.
        """
        outputs = await asyncio.to_thread(_outputs_on_disk, order.folder)
        for output in outputs:
            await self.record(credit.credit_work_unit, order.request, produced_unit(output))
        await self._abandon_the_rest(order)
        units = await self.record(credit.units_of_round, order.request, order.round)
        abandoned = len(units[WorkUnitStatus.ABANDONED])
        status = RoundStatus.CLOSED if abandoned else RoundStatus.COMPLETED
        await self.record(ledger.record_round_status, order.request, order.round, status)
        await self._tell_of_short_files(order)
        await self._list_what_is_left(order, outputs)
        return ClosedRound(
            units_produced=len(units[WorkUnitStatus.PRODUCED]),
            units_abandoned=abandoned,
            sizing=await self._measure(order, outputs),
            discrepancies=discrepancies(await self.record(cross_check, order.request)),
        )

    async def _abandon_the_rest(self, order: RoundOrder) -> None:
        units = await self.record(credit.units_of_round, order.request, order.round)
        if units[WorkUnitStatus.PLANNED]:
            await self._record_failures(order, units[WorkUnitStatus.PRODUCED])
        for number in units[WorkUnitStatus.PLANNED]:
            own = await self.record(files_of_unit, order.request, number)
            known = await self.record(file_failures, order.request, own) if own else []
            reason = order.reason or "not produced"
            await self.record(
                credit.abandon_work_unit, order.request, number, reason, excluded_files(own, known)
            )

    async def _tell_of_short_files(self, order: RoundOrder) -> None:
        """Catalogues and files do differ, so this holds nothing; but somebody should know what is not there."""
        if short := await self.record(short_files, order.request, order.round, limit=None):
            words = short_in_words(order.round, short)
            sound("short_input", order.request, words)
            await self.record(queue_alert, Alert(request=order.request, kind="short_input", message=words))

    async def _record_failures(self, order: RoundOrder, produced: Collection[int]) -> None:
        """Once more, now that nothing runs: nobody may have seen the last DAG end. A lost folder adds nothing."""
        folder, dags = order.folder, await self.record(dags_of_round, order.request, order.round)
        if folder is None:
            for dag in dags:
                await self.record(record_dag_status, dag.intent.dag_id, DagStatus.REMOVED, dag.nodes)
            return
        submitted = [dag for dag in dags if dag.dagman_cluster_id]
        if not submitted or not (folder / ROUND_FILE).exists():
            return
        last, planned = submitted[-1], read_round(folder)
        cluster = last.dagman_cluster_id or 0
        outcome = read_outcome(folder, planned, cluster, [], produced)
        failures = await asyncio.to_thread(gather_failures, folder, planned, cluster, produced, outcome)
        await self.record(record_failures, last.intent.dag_id, failures)

    async def _list_what_is_left(self, order: RoundOrder, outputs: list[MergeOutput]) -> None:
        """`sweep.json`, for the worker of its host: all files on storage that are credited to nobody.

        Once and for all: nothing of the round runs any more. Whatever goes wrong here holds no request.
        """
        folder = order.folder
        if folder is None or not (folder / ROUND_FILE).exists() or (folder / SWEEP_FILE).exists():
            return
        try:
            units = await asyncio.to_thread(leavings, folder, read_round(folder))
            named = {file.lfn for unit in units for file in unit.named}
            credited = {file.lfn for output in outputs for file in output.files}
            credited |= await self.record(credit.credited_files, named)
            if files := files_to_remove(units, credited):
                dags = await self.record(dags_of_round, order.request, order.round)
                schedd = next((dag.schedd_name for dag in reversed(dags) if dag.schedd_name), "")
                listed = FileList(schedd=schedd, files=files)
                await asyncio.to_thread(write_list, folder / SWEEP_FILE, listed)
            if strange := strange_files(units):
                log.warning("%s: %s is no file of its unit and stays on storage", folder, strange[0].lfn)
        except OSError as error:
            sound(
                "left_on_storage", order.request, f"what is left of round {order.round} is not known: {error}"
            )

    async def _measure(self, order: RoundOrder, outputs: list[MergeOutput]) -> MeasuredSizing | None:
        """Record what the round's jobs needed, beside what was predicted; and what follows for the next round."""
        request = (await self.record(request_record, order.request)).request
        rounds = await self.record(ledger.rounds_of, order.request)
        predicted = next((round_.predicted for round_ in rounds if round_.number == order.round), None)
        planned = predicted.sizing if predicted else sizing_of(request, KnownSizing(measured=order.sizing))
        measured = measured_round(outputs, planned.startup_sec)
        if measured is None:
            return None
        await self.record(ledger.record_measurement, order.request, order.round, measured)
        length = planned.events_per_job or events_per_job(request, None)
        sizing = next_sizing(measured, length, order.sizing, self._target_job_sec)
        if report := pilot_report(outputs):
            metrics = pilot_metrics(report, measured, sizing, planned.cores)
            await self.record(record_pilot_metrics, order.request, metrics)
        return sizing


def _outputs_on_disk(folder: Path | None) -> list[MergeOutput]:
    if folder is None or not (folder / ROUND_FILE).exists():
        return []
    return [output for _, output in produced_units(folder, read_round(folder))]
