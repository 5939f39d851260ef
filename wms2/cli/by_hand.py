"""Running a planned round without a request workflow: the same activities, called by a person."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from wms2.activities.dags import DagActivities
from wms2.adapters.condor import Condor
from wms2.adapters.job_credentials import job_credentials_of
from wms2.config import Settings
from wms2.core.ledger import planned_round
from wms2.core.planning import plan_round
from wms2.dagman.lock import submission_lock
from wms2.dagman.round_folder import RoundFile, describe, read_round, read_snapshot
from wms2.db.dags import dags_of_round
from wms2.db.ledger import record_plan, rounds_of
from wms2.db.requests import find_request, insert_request
from wms2.db.session import SILENT, connect, transaction, trouble
from wms2.errors import UserError
from wms2.models.dag import DAG, DagStatus
from wms2.models.messages import DagOrder, SubmittedDag
from wms2.models.plan import RoundPlan


def connect_database(settings: Settings) -> Engine:
    """An engine that answers, or one sentence about the database that does not."""
    engine = connect(settings.needed("database_url"))
    try:
        with engine.connect():
            return engine
    except OperationalError as error:
        raise UserError(trouble(error) or SILENT) from None


class ByHand:
    """A person's hands on DAGs."""

    def __init__(self, settings: Settings) -> None:
        self.engine = connect_database(settings)
        condor, credentials = Condor(settings.condor_environment()), job_credentials_of(settings)
        self.activities = DagActivities(condor, self.engine, credentials=credentials)

    async def start_round(self, folder: Path) -> SubmittedDag:
        """Record the round and submit its DAG; a DAG that is running is found, one that failed is rescued."""
        frozen = read_snapshot(folder)
        plan = plan_round(frozen.snapshot)
        described = describe(plan, frozen.digest)
        if described != read_round(folder):
            raise UserError(
                f"{folder} was planned by another version of WMS2; plan the request into a new folder"
            )
        async with submission_lock(folder):
            self._record(plan, described)
        snapshot = plan.snapshot
        order = DagOrder(
            request=snapshot.request.request_name,
            round=snapshot.round,
            attempt=self._attempt(plan),
            folder=folder,
        )
        return await self.activities.submit_dag(order)

    def _record(self, plan: RoundPlan, described: RoundFile) -> None:
        request = plan.snapshot.request
        with transaction(self.engine) as session:
            known = find_request(session, request.request_name)
            if known is None:
                insert_request(session, request)
            elif known.request != request:
                raise UserError(
                    f"another request named {request.request_name} is recorded already; "
                    "give this one a name of its own and plan it again"
                )
            elif known.status_sequence or not rounds_of(session, request.request_name):
                raise UserError(
                    f"{request.request_name} was submitted, and its workflow runs its rounds; "
                    f"`wms2 request errors {request.request_name}` tells what failed and what can be done"
                )
            record_plan(session, planned_round(plan, described.digest, sum(described.nodes.values())))

    def _attempt(self, plan: RoundPlan) -> int:
        with transaction(self.engine) as session:
            dags = dags_of_round(session, plan.snapshot.request.request_name, plan.snapshot.round)
        if not dags:
            return 1
        last = dags[-1]
        rescue = last.status.is_final and last.status is not DagStatus.COMPLETED
        return last.intent.attempt + 1 if rescue else last.intent.attempt


def submitted(dag: DAG) -> SubmittedDag:
    """A recorded DAG as the activities take it."""
    if dag.dagman_cluster_id is None:
        raise UserError(
            f"{dag.intent.dag_id} is not submitted yet; `wms2 dag run {dag.intent.submit_dir}` submits it"
        )
    order = DagOrder(
        request=dag.intent.request_name,
        round=dag.intent.round,
        attempt=dag.intent.attempt,
        folder=Path(dag.intent.submit_dir),
    )
    return SubmittedDag(order=order, cluster=dag.dagman_cluster_id, intent_at=dag.intent_at, found=True)
