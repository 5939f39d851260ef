"""A submit host that comes back after its rounds were closed: what it still runs there counts for nothing and goes."""

import asyncio

import pytest

from tests.integration.rounds import Gate, Round, small_simulation
from tests.patience import PATIENCE_SEC
from wms2.activities.closing import ClosingActivities
from wms2.activities.leftovers import remove_leftovers
from wms2.adapters.condor import Condor
from wms2.config import Settings
from wms2.db.credit import credited_units
from wms2.db.dags import dags_of_round
from wms2.db.session import connect, transaction
from wms2.models.dag import DagStatus
from wms2.models.messages import RoundOrder
from wms2.models.progress import DagOutcome

pytestmark = pytest.mark.pool


async def test_a_closed_round_gets_no_more_credit_and_its_dag_is_removed_and_no_other(
    stack: Settings,
) -> None:
    engine = connect(stack.needed("database_url"))
    late, never, others = Gate(stack), Gate(stack), Gate(stack)
    step = {"faults": late.before("proc_000004", "proc_000005") + never.before("proc_000006", "proc_000007")}
    round_ = Round(stack, small_simulation(stack, "left_over", step=step, total_events=160))
    other = Round(stack, small_simulation(stack, "goes_on", step={"faults": others.before()}))
    dag, other_dag = await round_.start(), await other.start()
    await round_.until(dag, lambda progress: progress.units_done == 2)

    name = round_.request.request_name
    closed = await ClosingActivities(engine, 28800).close_round(
        RoundOrder(request=name, round=0, folder=None, reason="its host is lost")
    )
    assert (closed.units_produced, closed.units_abandoned, closed.discrepancies) == (2, 2, ())
    with transaction(engine) as session:
        assert [known.status for known in dags_of_round(session, name, 0)] == [DagStatus.REMOVED]

    late.open()
    seen = await round_.activities.observe_dag(dag)
    async with asyncio.timeout(PATIENCE_SEC):
        while not seen.conflicts:
            await asyncio.sleep(0.5)
            seen = await round_.activities.observe_dag(dag)
    assert "mg_000002" in seen.conflicts[0]
    assert "was abandoned and cannot be credited" in seen.conflicts[0]

    removed = await remove_leftovers(round_.condor, engine)
    assert dag.order.dag_id in removed
    assert other_dag.order.dag_id not in removed
    async with asyncio.timeout(PATIENCE_SEC):
        while await round_.condor.dagmans(dag.cluster, dag.order.dag_id):
            await asyncio.sleep(0.5)
    with transaction(engine) as session:
        assert credited_units(session, name, 0) == {0, 1}
    others.open()
    assert (await other.finish(other_dag)).outcome is DagOutcome.COMPLETED
    other.assert_every_event_once()
    engine.dispose()


async def test_a_host_whose_database_does_not_answer_removes_nothing_and_starts_all_the_same(
    stack: Settings,
) -> None:
    engine = connect("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    assert await remove_leftovers(Condor(stack.condor_environment()), engine) == []
