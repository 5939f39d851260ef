"""The priority of a round that runs, on the real pool."""

import pytest

from tests.integration.rounds import Gate, Round, small_simulation
from wms2.activities.rounds import RoundActivities
from wms2.config import Settings
from wms2.core.rounds import TAIL_RAISE
from wms2.dagman.include import ROUND_INCLUDE
from wms2.models.messages import RankOrder
from wms2.models.progress import DagOutcome

pytestmark = pytest.mark.pool


async def test_jobs_get_a_lower_priority_too_those_in_the_queue_and_those_to_come_and_the_last_stay_above_it(
    stack: Settings,
) -> None:
    gate = Gate(stack)
    step = {"faults": gate.before("proc_000000", "proc_000001")}
    request = small_simulation(stack, "rank", total_events=40, priority=7000, step=step)
    round_ = Round(stack, request, priority=7000)
    dag = await round_.start()
    progress = await round_.until(dag, lambda _: round_.has_begun("proc_000000"))

    order = RankOrder(request=request.request_name, round=0, folder=round_.folder, priority=7)
    ranks = RoundActivities(round_.condor)
    await ranks.rank_round(order)
    last_of_ten = progress.model_copy(update={"units_total": 10, "units_done": 9})
    assert await round_.activities.hurry(dag.order, last_of_ten)
    await ranks.rank_round(order.model_copy(update={"priority": 5}))
    gate.open()
    assert (await round_.finish(dag)).outcome is DagOutcome.COMPLETED
    priorities = round_.priorities()
    assert priorities["landing"] == 7000
    assert priorities["proc_000000"] == priorities["merge"] == priorities["cleanup"] == 5 + TAIL_RAISE


async def test_a_round_whose_folder_is_lost_is_not_ranked(stack: Settings) -> None:
    round_ = Round(stack, small_simulation(stack, "lost_rank", total_events=40))
    before = (round_.folder / ROUND_INCLUDE).read_text()
    order = RankOrder(request=round_.request.request_name, round=0, folder=round_.folder / "gone", priority=7)
    await RoundActivities(round_.condor).rank_round(order)
    assert not order.folder.exists()
    assert (round_.folder / ROUND_INCLUDE).read_text() == before
