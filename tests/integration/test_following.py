"""Many DAGs followed at once: one question to the schedd, one statement for the database."""

import asyncio
import re
import subprocess
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.integration.publishing import begin, made_request
from tests.integration.rounds import Gate, Round, small_simulation
from tests.patience import PATIENCE_SEC
from wms2.activities.standings import Standings
from wms2.adapters.condor import Condor
from wms2.adapters.queue import Queue
from wms2.config import Settings
from wms2.db.dags import dag_by_id, record_dag_intent, record_dag_status, record_dag_submitted
from wms2.db.session import transaction
from wms2.models.dag import DagIntent, DagStatus, NodeCounts


def running_dag(engine: Engine, request: str) -> str:
    begin(engine, made_request(request), 1)
    intent = DagIntent(
        dag_id=f"{request}:0:1", request_name=request, round=0, attempt=1, dag_file_path="/f/workflow.dag",
        submit_dir="/f", total_nodes=100, total_edges=0, node_counts={},
    )  # fmt: skip
    with transaction(engine) as session:
        record_dag_intent(session, intent)
        record_dag_submitted(session, intent.dag_id, 7, "schedd")
        record_dag_status(session, intent.dag_id, DagStatus.RUNNING, NodeCounts())
    return intent.dag_id


def counts(engine: Engine, dag_id: str) -> NodeCounts:
    with transaction(engine) as session:
        return dag_by_id(session, dag_id).nodes


async def test_what_followers_record_at_the_same_time_is_recorded_together(engine: Engine) -> None:
    names = [running_dag(engine, name) for name in ("one", "two", "three")]
    standings = Standings(engine)
    told = {name: NodeCounts(done=10 + k, running=k) for k, name in enumerate(names)}
    await asyncio.gather(*(standings.put(name, nodes) for name, nodes in told.items()))
    assert {name: counts(engine, name) for name in names} == told
    await standings.put(names[0], NodeCounts(done=50))
    assert counts(engine, names[0]).done == 50
    assert counts(engine, names[1]) == told[names[1]]


async def test_late_news_of_a_dag_that_has_ended_change_nothing(engine: Engine) -> None:
    (name,) = [running_dag(engine, "ended")]
    with transaction(engine) as session:
        record_dag_status(session, name, DagStatus.COMPLETED, NodeCounts(done=100))
    await Standings(engine).put(name, NodeCounts(done=99, running=1))
    assert counts(engine, name) == NodeCounts(done=100)


@pytest.mark.pool
async def test_a_dag_is_never_looked_for_in_a_queue_from_before_its_submission(stack: Settings) -> None:
    gate = Gate(stack)
    round_ = Round(stack, small_simulation(stack, "queue", step={"faults": gate.before()}))
    queue = Queue(Condor(stack.condor_environment()))
    await queue.dagmans(1, "nobody:0:1", since=time.monotonic())
    dag = await round_.start()
    submitted = time.monotonic()
    seen = await queue.dagmans(dag.cluster, dag.order.dag_id, since=submitted)
    assert [ad.tag for ad in seen if ad.node is None] == [dag.order.dag_id]
    assert await queue.dagmans(dag.cluster, "another:0:1", since=submitted) == []
    running = await round_.until(dag, lambda progress: progress.units_running == 3)
    assert running.nodes_total == 15
    gate.open()
    await round_.finish(dag)
    assert await queue.dagmans(dag.cluster, dag.order.dag_id, since=time.monotonic()) == []


@pytest.mark.pool
@pytest.mark.parametrize("said", ['"mine"', "1.5", "undefined", "-1"])
async def test_a_job_of_somebody_else_that_says_it_belongs_to_a_dag_disturbs_no_follower(
    stack: Settings, tmp_path: Path, said: str
) -> None:
    job = tmp_path / "job.sub"
    job.write_text(
        "universe = scheduler\nexecutable = /bin/true\nhold = true\n"
        f'+DAGManJobId = {said}\n+WMS2_DagId = "no; DAG\'s id"\nqueue\n'
    )
    submitted = _run(stack, "condor_submit", str(job))
    (cluster,) = re.findall(r"submitted to cluster (\d+)", submitted)
    try:
        assert (
            await Queue(Condor(stack.condor_environment())).dagmans(1, "nobody:0:1", time.monotonic()) == []
        )
    finally:
        _run(stack, "condor_rm", cluster)


def _run(stack: Settings, *command: str) -> str:
    done = subprocess.run(
        command,
        env=stack.condor_environment(),
        check=True,
        timeout=PATIENCE_SEC,
        text=True,
        capture_output=True,
    )
    return done.stdout
