"""Outputs on a real Rucio: what it answers, the adapter, the whole output workflow, undo, and publishers that die.

The server is shared, so each test has names of its own. The first one wants a server without subscriptions.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import Engine

from tests.block_life import (
    assert_each_step_twice_is_as_good_as_once,
    assert_life_goes_on_wherever_it_is_cut,
    assert_many_at_once_live_one_life,
    replicas,
)
from tests.factories import reprocessing
from tests.integration.output_life import living
from tests.integration.output_world import World
from tests.integration.publishing import (
    SITE,
    TAPE,
    Publisher,
    begin,
    dataset_of,
    made_request,
    produce,
)
from tests.patience import POOL_LIMIT_SEC
from tests.real_rucio import ROOT, RealRucio
from tests.rucio_calls import differences
from tests.stand_in import rucio_at
from wms2.activities.inputs import InputActivities
from wms2.adapters.connect import connect_rucio
from wms2.adapters.dbs import Dbs
from wms2.config import Settings
from wms2.db.requests import insert_request
from wms2.db.session import transaction
from wms2.errors import BrokenRequest, Refused
from wms2.local.rucio import ACCOUNT, PASSWORD
from wms2.models.messages import OutputAnnounced
from wms2.models.output import OutputBlock, OutputBlockStatus, OutputStatus
from wms2.models.undo import Undone

# The first one may have to install Rucio.
pytestmark = [pytest.mark.timeout(2 * POOL_LIMIT_SEC), pytest.mark.xdist_group("real_rucio")]

DISKS = "T2_DE_DESY|T2_CH_CERN"
A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class RealWorld(World):
    """The stand-in DBS, and a real Rucio."""

    real: RealRucio

    def run_daemons(self) -> None:
        self.real.judge()

    async def end_transfers(self, block: OutputBlock, state: str = "A", files: int | None = None) -> None:
        """The files of a block that are being copied are there now, or some of them."""
        places = await self.rucio.file_places([block.block_name])
        rses = {rse for states in places.values() for rse, there in states.items() if there == "COPYING"}
        for rse in rses:
            copying = [lfn for lfn, states in sorted(places.items()) if states.get(rse) == "COPYING"]
            self.real.end_transfers(rse, copying[:files], state)

    async def rules(self, block: OutputBlock) -> dict[str, str]:
        """Where the rules on a block are, and how each of them is: an hour before its end it counts as deleted."""
        soon = datetime.now(UTC) + A_DAY
        return {
            rule.rse_expression: "DELETED" if rule.expires_at and rule.expires_at < soon else rule.state
            for rule in await self.rucio.rules_of(block.block_name)
        }


@pytest.fixture
async def world(engine: Engine, services_url: str, real_rucio: RealRucio) -> AsyncIterator[RealWorld]:
    configured = Settings(rucio_url=real_rucio.url, rucio_account=ACCOUNT, rucio_password=PASSWORD)
    async with Dbs(f"{services_url}/dbs") as dbs, connect_rucio(configured) as rucio:
        yield RealWorld(engine, services_url, dbs, rucio, Publisher(engine, dbs, rucio), real_rucio)


# The server and the adapter -----------------------------------------------------------------------------


def test_the_stand_in_and_a_real_rucio_answer_the_same(real_rucio: RealRucio) -> None:
    with real_rucio.client() as client:
        assert differences(client, ROOT) == []


async def test_each_call_made_twice_is_as_good_as_once(world: RealWorld) -> None:
    await assert_each_step_twice_is_as_good_as_once(world.rucio, "/Twice/Run2024A-Test-v1/GEN-SIM")


async def test_a_block_lives_the_same_life_wherever_the_line_goes_dead_after_rucio_acted(
    real_rucio: RealRucio,
) -> None:
    await assert_life_goes_on_wherever_it_is_cut(real_rucio.url, rucio_at, "/Cut/Run2024A-Test-v1/GEN-SIM")


async def test_many_who_do_the_same_at_the_same_time_leave_what_one_would_leave(
    real_rucio: RealRucio,
) -> None:
    await assert_many_at_once_live_one_life(
        partial(rucio_at, real_rucio.url), "/AtOnce/Run2024A-Test-v1/GEN-SIM"
    )


async def test_files_are_found_where_they_are_before_any_daemon_has_counted_them(world: RealWorld) -> None:
    dataset = "/Found/Run2024A-Test-v1/RAW"
    block, unprotected, nobodys = (f"{dataset}#{number}" for number in (1, 2, 3))
    for name in (block, unprotected):
        await world.rucio.add_block(dataset, name)
        await world.rucio.add_files(name, SITE, replicas(2, f"found{name[-1]}"))
    await world.rucio.add_files(block, "T2_CH_CERN", replicas(1, "found1"))
    await world.rucio.add_rule(block, SITE, comment="input")
    await world.rucio.add_rule(block, TAPE, comment="input")
    found = await world.rucio.block_sites([block, unprotected, nobodys])
    assert found == {block: (SITE,), unprotected: (SITE,), nobodys: ()}
    assert await world.rucio.dataset_sites([dataset]) == {dataset: (SITE,)}


async def test_what_rucio_refuses_is_a_refusal_and_what_it_has_not_is_nothing(world: RealWorld) -> None:
    dataset = "/Refused/Run2024A-Test-v1/GEN-SIM"
    block, files = f"{dataset}#1", replicas(2, "refused")
    await world.rucio.add_block(dataset, block)
    await world.rucio.add_files(block, SITE, files)
    other = [file.model_copy(update={"adler32": "00000001"}) for file in files]
    with pytest.raises(Refused):
        await world.rucio.add_files(block, SITE, other)
    with pytest.raises(BrokenRequest):
        await world.rucio.add_rule(block, "T2_XX_Nowhere", comment="nowhere")
    assert await world.rucio.rules_of(f"{dataset}#2") == []
    assert await world.rucio.rule("0" * 32) is None
    await world.rucio.delete_rule("0" * 32)
    assert await world.rucio.rses("T2_XX_Nowhere") == []
    assert await world.rucio.disk_rse("T1_US_FNAL") == "T1_US_FNAL_Disk"
    assert await world.rucio.disk_rse(SITE) == SITE


async def test_a_rule_that_was_deleted_is_brought_back_for_as_long_as_it_is_wanted(world: RealWorld) -> None:
    dataset = "/Revived/Run2024A-Test-v1/GEN-SIM"
    block = f"{dataset}#1"
    await world.rucio.add_block(dataset, block)
    first = await world.rucio.add_rule(block, SITE, comment="source", lifetime_sec=86400)
    await world.rucio.delete_rule(first)
    assert await world.rucio.add_rule(block, SITE, comment="source") == first
    (rule,) = await world.rucio.rules_of(block)
    assert rule.expires_at is None
    await world.rucio.set_rule_lifetime(first, 7200)
    (rule,) = await world.rucio.rules_of(block)
    assert rule.expires_at is not None


# The output workflow ------------------------------------------------------------------------------------


async def test_work_units_are_protected_registered_brought_to_their_places_announced_and_taken_back(
    world: RealWorld, settings: Settings
) -> None:
    async with living(world, settings, "whole", destinations=[TAPE, DISKS], retention_days=90) as life:
        await life.hear(0, 1)
        await life.until_it_is(OutputStatus.SOURCE_PROTECTED)
        (block,) = life.blocks()
        assert list((await world.rucio.file_places([block.block_name])).values()) == [{SITE: "AVAILABLE"}] * 2
        (rule,) = await world.rucio.rules_of(block.block_name)
        assert (rule.id, rule.rse_expression, rule.account) == (block.source_rule_id, SITE, ACCOUNT)
        assert (rule.state, rule.locks_ok, rule.expires_at) == ("OK", 2, None)
        assert await world.dbs.block_files(block.block_name) == []

        await life.hear(2, 3)
        await life.workflow.signal("finish")
        await life.until_it_is(OutputStatus.TRANSFERRING)
        first, second = life.blocks()
        for block in (first, second):
            assert await world.rules(block) == {SITE: "OK", TAPE: "REPLICATING", DISKS: "REPLICATING"}
            assert len(await world.dbs.block_files(block.block_name)) == block.files
            with pytest.raises(Refused, match="closed"):
                await world.rucio.add_files(block.block_name, SITE, replicas(1, "late"))
        # The file that came to the first block after its rule was made.
        world.run_daemons()
        locks = [rule.locks_ok for rule in await world.rucio.rules_of(first.block_name) if rule.locks_ok]
        assert locks == [first.files] == [3]

        await world.end_transfers(first)
        await life.workflow.signal("retry")
        await life.until(lambda: life.blocks()[0].source_released)
        assert await world.rules(first) == {SITE: "DELETED", TAPE: "OK", DISKS: "OK"}
        assert (await world.rules(second))[SITE] == "OK", "it is nowhere else yet"
        await world.end_transfers(second)
        await life.workflow.signal("retry")

        dataset = life.order.dataset
        assert await life.workflow.result() == OutputAnnounced(dataset=dataset, files=4, events=400)
        assert await world.dbs.dataset_access(dataset) == "VALID"
        assert await world.rules(second) == {SITE: "DELETED", TAPE: "OK", DISKS: "OK"}
        assert {block.status for block in life.blocks()} == {OutputBlockStatus.ARCHIVED}
        assert world.status("whole") is OutputStatus.ANNOUNCED

        assert await life.take_back() == Undone(datasets=1, blocks=2, rules=6, files=4)
        assert await world.dbs.dataset_access(dataset) == "INVALID"
        for block in (first, second):
            assert set((await world.rules(block)).values()) == {"DELETED"}


async def test_what_is_on_its_way_and_stuck_is_told_and_taken_back(
    world: RealWorld, settings: Settings
) -> None:
    async with living(world, settings, "underway", destinations=[TAPE]) as life:
        await life.hear(0, 1, 2, 3)
        await life.workflow.signal("finish")
        await life.until_it_is(OutputStatus.TRANSFERRING)
        first, second = life.blocks()
        await world.end_transfers(first, state="U", files=1)
        await life.workflow.signal("retry")
        assert f"the rule for {TAPE} is stuck with 1 files" in await life.trouble()
        await life.workflow.signal("freeze")
        assert await life.workflow.result() is None
        assert await world.rules(first) == {SITE: "OK", TAPE: "STUCK"}

        assert await life.take_back() == Undone(datasets=1, blocks=2, rules=4, files=4)
        assert await world.dbs.dataset_access(life.order.dataset) == "INVALID"
        for block in (first, second):
            assert set((await world.rules(block)).values()) == {"DELETED"}
        assert world.status("underway") is OutputStatus.INVALIDATED


async def test_the_rules_of_a_subscription_are_followed_and_none_is_added(world: RealWorld) -> None:
    dataset = dataset_of("subscribed")
    subscription = {
        "filter": {"scope": ["cms"], "pattern": dataset, "did_type": ["CONTAINER"]},
        "replication_rules": [{"copies": 1, "rse_expression": TAPE, "activity": "Production Output"}],
        "comments": "all of it on tape",
        "lifetime": None,
        "retroactive": False,
        "dry_run": False,
        "priority": 3,
    }
    with world.real.client() as client:
        client.post(f"subscriptions/{ROOT}/tape", json={"options": subscription}).raise_for_status()
    order = begin(world.engine, made_request("subscribed"), 4)
    produce(world.engine, "subscribed", *range(4))
    patient = world.publisher_with(wait=A_DAY)
    await patient.protect(order)
    world.real.run_daemon("transmogrifier")
    (theirs,) = await world.rucio.rules_of(dataset)
    assert (theirs.rse_expression, theirs.account) == (TAPE, ROOT)
    await patient.register(order)
    assert (await patient.place(order)).waiting == 2
    for block in world.blocks("subscribed"):
        await world.end_transfers(block)
    placed = await patient.place(order)
    assert (placed.waiting, placed.complete) == (0, True)
    assert world.status("subscribed") is OutputStatus.SOURCE_RELEASED
    assert len(await world.rucio.rules_of(dataset)) == 1
    for block in world.blocks("subscribed"):
        assert await world.rules(block) == {SITE: "DELETED"}


async def test_an_input_is_fetched_by_one_rule_awaited_and_let_go_with_the_last_who_wants_it(
    world: RealWorld,
) -> None:
    dataset = "/Fetched/Run2024A-v1/RAW"
    block, files = f"{dataset}#1", replicas(3, "fetched")
    await world.rucio.add_block(dataset, block)
    await world.rucio.add_files(block, SITE, files)
    inputs = InputActivities(world.engine, world.rucio, 24)
    for name in ("first_reader", "second_reader"):
        with transaction(world.engine) as session:
            wanted = reprocessing(request_name=name, input_dataset=dataset, prefetch=DISKS)
            insert_request(session, wanted)
        for _ in range(2):
            progress = (await inputs.fetch_input(name)).progress
        assert (progress.files_there, progress.is_there) == (0, False)
        assert progress.files == 3
    places = await world.rucio.file_places([block])
    (rse,) = {rse for states in places.values() for rse, there in states.items() if there == "COPYING"}
    world.real.end_transfers(rse, [file.lfn for file in files], "A")
    for name in ("first_reader", "second_reader"):
        assert (await inputs.fetch_input(name)).progress.is_there
    (rule,) = await world.rucio.rules_of(dataset)
    assert (rule.rse_expression, rule.expires_at) == (DISKS, None)
    await inputs.release_input("first_reader")
    assert (await world.rucio.rules_of(dataset)) == [rule], "the other one still reads it"
    await inputs.release_input("second_reader")
    (rule,) = await world.rucio.rules_of(dataset)
    assert rule.expires_at is not None
    assert rule.expires_at < datetime.now(UTC) + A_DAY


async def test_what_was_made_at_its_destination_stays_there_under_one_rule(world: RealWorld) -> None:
    order = begin(world.engine, made_request("athome", destinations=[SITE], retention_days=2), 2)
    produce(world.engine, "athome", 0, 1)
    await world.publisher.publish(order)
    (block,) = world.blocks("athome")
    (rule,) = await world.rucio.rules_of(block.block_name)
    assert (block.source_released, block.transfer_rule_ids) == (False, (rule.id,))
    assert rule.expires_at is not None
    assert A_DAY < rule.expires_at - datetime.now(UTC) < 2 * A_DAY
    assert world.status("athome") is OutputStatus.ANNOUNCED


async def test_a_publisher_killed_between_two_calls_is_followed_by_one_who_ends_it_exactly(
    world: RealWorld, database_url: str
) -> None:
    names = await world.killed(database_url, world.real.url, "published", every=10)
    assert len(names) > 4
    world.run_daemons()
    for name in names:
        await world.assert_in_place(name, 4)
