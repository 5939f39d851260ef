"""From the credit of a work unit to the announced dataset: a real PostgreSQL, the stand-in DBS and Rucio."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest
from sqlalchemy.orm import Session
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.factories import reprocessing
from tests.integration.output_life import LOOK_SEC, living
from tests.integration.output_world import World
from tests.integration.publishing import (
    LIMITS,
    SITE,
    TAPE,
    begin,
    dataset_of,
    made_request,
    produce,
    produced_unit,
)
from tests.integration.test_database import input_file, planned_files
from tests.patience import PATIENCE_SEC
from tests.stand_in import stand_in_rucio
from wms2.activities.inputs import COMMENT as INPUT_COMMENT
from wms2.activities.outputs import OutputActivities
from wms2.adapters.rucio import Rucio
from wms2.config import Settings
from wms2.core.blocks import BlockLimits, Load
from wms2.db import blocks, credit, ledger, outputs, requests
from wms2.db.session import RecordConflict, transaction
from wms2.errors import Refused
from wms2.models.messages import OutputAnnounced, OutputOrder
from wms2.models.output import OutputBlock, OutputBlockStatus, OutputFileStatus, OutputStatus
from wms2.models.request import RequestStatus
from wms2.models.rule import Replica
from wms2.workflows.output_dataset import OutputDatasetWorkflow

DATASET = dataset_of("simulation")
NOWHERE = "T2_XX_Nowhere"


async def test_what_is_credited_is_protected_at_once_registered_with_its_block_and_in_the_end_announced(
    world: World,
) -> None:
    order = begin(world.engine, made_request(), 4)
    produce(world.engine, "simulation", 0, 1)
    protected = await world.publisher.protect(order)
    assert (protected.files, protected.blocks_due) == (2, False)
    assert world.status() is OutputStatus.SOURCE_PROTECTED
    (block,) = world.blocks()
    (rule,) = await world.rucio.rules_of(block.block_name)
    assert (rule.id, rule.rse_expression, rule.locks_ok) == (block.source_rule_id, SITE, 2)
    assert await world.dbs.block_files(block.block_name) == []
    produce(world.engine, "simulation", 2, 3)
    protected = await world.publisher.protect(order)
    assert (protected.files, protected.blocks_due) == (2, True), "the first block is full"
    assert (await world.publisher.register(order, finishing=False)).files == 3
    assert [block.status for block in world.blocks()] == [OutputBlockStatus.CLOSED, OutputBlockStatus.OPEN]
    announced = await world.publisher.publish(order)
    assert announced == OutputAnnounced(dataset=DATASET, files=4, events=400)
    assert world.file_statuses() == {OutputFileStatus.REGISTERED: 4}
    await world.assert_published("simulation", 4)


async def test_publishing_twice_tells_nobody_twice(world: World) -> None:
    order = begin(world.engine, made_request(), 4)
    produce(world.engine, "simulation", 0, 1, 2, 3)
    first = await world.publisher.publish(order)
    changes = world.changes("dbs"), world.changes("rucio")
    assert await world.publisher.publish(order) == first
    assert (world.changes("dbs")[:-1], world.changes("rucio")) == changes, "only the announcement is repeated"
    await world.assert_published("simulation", 4)


async def test_several_at_once_publish_each_file_once(world: World) -> None:
    order = begin(world.engine, made_request(), 7)
    produce(world.engine, "simulation", *range(7))
    protected = await asyncio.gather(*(world.publisher.protect(order) for _ in range(4)))
    assert sum(one.files for one in protected) == 7
    registered = await asyncio.gather(*(world.publisher.register(order) for _ in range(4)))
    assert sum(one.files for one in registered) == 7
    await world.publisher.publish(order)
    await world.assert_published("simulation", 7)


async def test_files_of_different_sites_are_never_in_one_block(world: World) -> None:
    order = begin(world.engine, made_request(), 4)
    produce(world.engine, "simulation", 0, 2)
    produce(world.engine, "simulation", 1, 3, site="T1_US_FNAL")
    await world.publisher.publish(order)
    made = [(block.source_site, block.source_rse, block.files) for block in world.blocks()]
    assert made == [(SITE, SITE, 2), ("T1_US_FNAL", "T1_US_FNAL_Disk", 2)]


async def test_a_closed_block_never_takes_files(world: World) -> None:
    order = begin(world.engine, made_request(), 3)
    produce(world.engine, "simulation", 0)
    await world.publisher.protect(order)
    await world.publisher.register(order, finishing=True)
    produce(world.engine, "simulation", 1, 2)
    await world.publisher.publish(order)
    assert [block.files for block in world.blocks()] == [1, 2]
    await world.assert_published("simulation", 3)


async def test_a_block_that_was_open_for_long_enough_is_closed(world: World) -> None:
    order = begin(world.engine, made_request(), 2)
    produce(world.engine, "simulation", 0)
    patient = world.publisher_with(BlockLimits(Load(100, 10**9, 100), age=timedelta(hours=1)))
    protected = await patient.protect(order)
    assert (protected.blocks_due, round(protected.next_due_sec or 0, -2)) == (False, 3600)
    assert (await patient.register(order, finishing=False)).blocks == 0
    hasty = world.publisher_with(BlockLimits(Load(100, 10**9, 100), age=timedelta(0)))
    assert (await hasty.protect(order)).blocks_due
    assert (await hasty.register(order, finishing=False)).blocks == 1


@pytest.mark.parametrize("kind", ["cut", "cut_after", "cut_body", "exists", "status", "token"])
async def test_whatever_call_breaks_trying_again_gives_the_same(world: World, kind: str) -> None:
    place, broke = 0, True
    while broke:
        name = f"broken_{kind}_{place}"
        order = begin(world.engine, made_request(name), 2)
        produce(world.engine, name, 0, 1)
        world.control("POST", "trouble", {"kind": kind, "after": place, "path": "^/(dbs|rucio/(?!auth))"})
        await world.publisher.insist(order)
        broke = not world.control("GET", "trouble")
        world.control("DELETE", "trouble")
        await world.assert_published(name, 2)
        place += 1
    assert place > 8


async def test_a_publisher_killed_between_any_two_calls_is_followed_by_one_who_ends_it_exactly(
    world: World, database_url: str
) -> None:
    names = await world.killed(database_url, f"{world.url}/rucio", "published")
    assert len(names) > 20
    for name in names:
        await world.assert_published(name, 4)


async def test_who_brings_blocks_elsewhere_and_is_killed_between_any_two_calls_is_followed_by_one_who_ends_it(
    world: World, database_url: str
) -> None:
    names = await world.killed(database_url, f"{world.url}/rucio", "placed")
    assert len(names) > 40
    for name in names:
        await world.assert_placed(name, 4)


async def test_destinations_are_asked_for_once_a_block_and_the_source_is_let_go_when_all_hold_it(
    world: World,
) -> None:
    request = made_request(destinations=[TAPE, "T2_DE_DESY|T2_CH_CERN"], retention_days=90)
    order = begin(world.engine, request, 4)
    produce(world.engine, "simulation", *range(4))
    await world.publisher.protect(order)
    await world.publisher.register(order)
    assert world.status() is OutputStatus.TRANSFERS_REQUESTED
    for block in world.blocks():
        assert len(block.transfer_rule_ids) == 2
        assert len(await world.rucio.rules_of(block.block_name)) == 3
        await world.publisher.register(order)
        assert len(await world.rucio.rules_of(block.block_name)) == 3
    first, second = world.blocks()
    assert await world.publisher.place(order) == (await world.publisher.place(order))
    assert world.status() is OutputStatus.TRANSFERRING
    for rule in (*first.transfer_rule_ids, second.transfer_rule_ids[0]):
        world.control("POST", f"rucio/rules/{rule}/finish")
    world.control("POST", f"rucio/rules/{second.transfer_rule_ids[1]}/stick", {"error": "no space left"})
    placed = await world.publisher.place(order)
    assert (placed.waiting, placed.complete) == (1, False)
    assert "no space left" in placed.trouble
    source = await world.rucio.rule(first.source_rule_id or "")
    assert source is not None
    assert source.expires_at is not None, "deleted: Rucio lets it end an hour later"
    other = await world.rucio.rule(second.source_rule_id or "")
    assert other is not None
    assert other.expires_at is None
    world.control("POST", f"rucio/rules/{second.transfer_rule_ids[1]}/finish")
    assert (await world.publisher.place(order)).complete
    assert world.status() is OutputStatus.SOURCE_RELEASED
    assert await world.publisher.announce(order) == OutputAnnounced(dataset=DATASET, files=4, events=400)


async def test_rules_of_subscriptions_are_followed_and_none_is_added(world: World) -> None:
    order = begin(world.engine, made_request(), 2)
    produce(world.engine, "simulation", 0, 1)
    patient = world.publisher_with(wait=timedelta(hours=1))
    await patient.protect(order)
    await patient.register(order)
    assert (await patient.place(order)).waiting == 1, "somebody may still want it"
    theirs = await world.rucio.add_rule(DATASET, TAPE, comment="as a subscription would")
    assert (await patient.place(order)).waiting == 1
    world.control("POST", f"rucio/rules/{theirs}/finish")
    assert (await patient.place(order)).complete
    assert world.status() is OutputStatus.SOURCE_RELEASED
    assert len(await world.rucio.rules_of(DATASET)) == 1


async def test_rucio_is_asked_for_a_block_every_five_minutes_however_often_others_are_full(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = begin(world.engine, made_request(destinations=[TAPE]), 7)
    produce(world.engine, "simulation", *range(4))
    await world.publisher.protect(order)
    await world.publisher.register(order, finishing=False)
    assert (await world.publisher.place(order, finishing=False)).waiting == 1
    produce(world.engine, "simulation", 4, 5, 6)
    await world.publisher.protect(order)
    await world.publisher.register(order, finishing=False)
    first, second, _ = world.blocks()
    world.control("DELETE", "calls")
    assert (await world.publisher.place(order, finishing=False)).waiting == 2
    asked = [call["path"] for call in world.control("GET", "calls?service=rucio&path=rules$")]
    assert [quote_plus(block.block_name) in "".join(asked) for block in (first, second)] == [False, True]
    monkeypatch.setattr("wms2.activities.outputs.LOOK_EVERY_SEC", 0.0)
    world.control("POST", f"rucio/rules/{first.transfer_rule_ids[0]}/finish")
    assert (await world.publisher.place(order, finishing=False)).waiting == 1


async def test_what_was_made_at_one_of_its_destinations_stays_there(world: World) -> None:
    order = begin(world.engine, made_request(destinations=[SITE, TAPE], retention_days=30), 1)
    produce(world.engine, "simulation", 0)
    await world.publisher.protect(order)
    await world.publisher.register(order)
    (block,) = world.blocks()
    here, there = block.transfer_rule_ids
    assert here == block.source_rule_id
    assert (await world.publisher.place(order)).waiting == 1, "it is not on tape yet"
    world.control("POST", f"rucio/rules/{there}/finish")
    assert (await world.publisher.place(order)).complete
    rules = {rule.id: rule for rule in await world.rucio.rules_of(block.block_name)}
    assert not world.blocks()[0].source_released
    for rule_id in (here, there):
        ends_at = rules[rule_id].expires_at
        assert ends_at is not None
        assert ends_at - datetime.now(UTC) > timedelta(days=29)


@pytest.mark.parametrize("days", [1, 5])
async def test_an_output_that_is_kept_for_a_short_time_is_announced_all_the_same(
    world: World, days: int
) -> None:
    order = begin(world.engine, made_request(destinations=[TAPE], retention_days=days), 1)
    produce(world.engine, "simulation", 0)
    await world.publisher.protect(order)
    await world.publisher.register(order)
    (rule,) = world.blocks()[0].transfer_rule_ids
    world.control("POST", f"rucio/rules/{rule}/finish")
    assert (await world.publisher.place(order)).complete
    assert world.status() is OutputStatus.SOURCE_RELEASED


async def test_a_rule_for_a_destination_that_somebody_deletes_too_early_is_asked_for_again(
    world: World,
) -> None:
    order = begin(world.engine, made_request(destinations=[TAPE], retention_days=30), 1)
    produce(world.engine, "simulation", 0)
    await world.publisher.protect(order)
    await world.publisher.register(order)
    (block,) = world.blocks()
    (rule,) = block.transfer_rule_ids
    world.control("POST", f"rucio/rules/{rule}/finish")
    await world.rucio.delete_rule(rule)
    assert (await world.publisher.place(order)).waiting == 1, "it would be nowhere in an hour"
    (_, wanted) = sorted(await world.rucio.rules_of(block.block_name), key=lambda rule: rule.comment or "")
    assert world.blocks()[0].transfer_rule_ids == (wanted.id,)
    assert wanted.expires_at is not None
    assert wanted.expires_at - datetime.now(UTC) > timedelta(days=29)
    world.control("POST", f"rucio/rules/{wanted.id}/finish")
    assert (await world.publisher.place(order)).complete


async def test_a_rule_that_fetches_the_input_of_a_request_is_no_place_to_stay(world: World) -> None:
    order = begin(world.engine, made_request(), 1)
    produce(world.engine, "simulation", 0)
    patient = world.publisher_with(wait=timedelta(hours=1))
    await patient.protect(order)
    await patient.register(order)
    fetched = await world.rucio.add_rule(DATASET, TAPE, comment=INPUT_COMMENT)
    world.control("POST", f"rucio/rules/{fetched}/finish")
    assert (await patient.place(order)).waiting == 1, "it is let go with that request"


async def kept_for_a_reader(world: World, monkeypatch: pytest.MonkeyPatch) -> OutputBlock:
    """A block that is on tape and announced while another request waits to read it."""
    monkeypatch.setattr("wms2.activities.outputs.LOOK_EVERY_SEC", 0.0)
    order = begin(world.engine, made_request(destinations=[TAPE]), 1)
    with transaction(world.engine) as session:
        waiting = reprocessing(request_name="reader", input_dataset=DATASET)
        requests.insert_request(session, waiting, RequestStatus.NEW)
    produce(world.engine, "simulation", 0)
    await world.publisher.protect(order)
    await world.publisher.register(order)
    (rule,) = world.blocks()[0].transfer_rule_ids
    world.control("POST", f"rucio/rules/{rule}/finish")
    assert (await world.publisher.place(order)).complete
    await world.publisher.announce(order)
    (block,) = world.blocks()
    return block


def end_the_reader(world: World) -> None:
    with transaction(world.engine) as session:
        assert requests.record_status(session, "reader", RequestStatus.COMPLETED, 1, "wms2")


async def test_what_another_request_reads_is_kept_where_it_was_made_until_that_one_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = await kept_for_a_reader(world, monkeypatch)
    for _ in range(2):
        rule = await world.rucio.rule(block.source_rule_id or "")
        assert rule is not None
        assert rule.expires_at is None, "from a tape no job could read it"
        assert await world.publisher.release() == 0
    end_the_reader(world)
    assert await world.publisher.release() == 1
    assert await world.publisher.release() == 0
    assert world.blocks()[0].source_released
    rule = await world.rucio.rule(block.source_rule_id or "")
    assert rule is not None
    assert rule.expires_at is not None
    assert world.status() is OutputStatus.ANNOUNCED


async def test_what_was_kept_for_a_reader_and_is_nowhere_else_any_more_stays_where_it_was_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = await kept_for_a_reader(world, monkeypatch)
    await world.rucio.delete_rule(block.transfer_rule_ids[0])
    end_the_reader(world)
    assert await world.publisher.release() == 1
    assert await world.publisher.release() == 0
    assert not world.blocks()[0].source_released
    rule = await world.rucio.rule(block.source_rule_id or "")
    assert rule is not None
    assert rule.expires_at is None
    assert world.blocks()[0].transfer_rule_ids == block.transfer_rule_ids, "it is not sent there again"


async def test_a_rule_on_a_dataset_is_ok_too_early_for_a_block_that_came_later(world: World) -> None:
    order = begin(world.engine, made_request(), 7)
    patient = world.publisher_with(wait=timedelta(hours=1))
    produce(world.engine, "simulation", 0, 1, 2, site="T1_US_FNAL")
    await patient.protect(order)
    theirs = await world.rucio.add_rule(DATASET, TAPE, comment="as a subscription would")
    world.control("POST", f"rucio/rules/{theirs}/finish")
    produce(world.engine, "simulation", 3, 4, 5, 6)
    await patient.protect(order)
    assert (await patient.register(order, finishing=False)).files == 3, "the other two blocks are open"
    assert (await patient.place(order)).waiting == 1, "its three locks are for files of another block"
    world.run_daemons()
    world.control("POST", f"rucio/rules/{theirs}/finish")
    assert (await patient.place(order)).waiting == 0


async def test_a_rule_on_a_dataset_counts_for_a_block_only_with_locks_of_its_own_files_whoever_else_has_some(
    world: World,
) -> None:
    theirs = [Replica(lfn=f"/store/mc/theirs/{n}.root", size_bytes=1, adler32="00000001") for n in range(100)]
    await world.rucio.add_block(DATASET, f"{DATASET}#theirs")
    await world.rucio.add_files(f"{DATASET}#theirs", TAPE, theirs)
    rule = await world.rucio.add_rule(DATASET, TAPE, comment="as a subscription would")
    order = begin(world.engine, made_request(), 1)
    produce(world.engine, "simulation", 0)
    patient = world.publisher_with(wait=timedelta(hours=1))
    await patient.protect(order)
    await patient.register(order)
    found = await world.rucio.rule(rule)
    assert found is not None
    assert (found.state, found.locks_ok) == ("OK", 100), "Rucio has not looked at the new block"
    assert (await patient.place(order)).waiting == 1
    world.run_daemons()
    assert (await patient.place(order)).complete
    assert world.status() is OutputStatus.SOURCE_RELEASED


async def test_the_locks_of_a_rule_on_a_dataset_are_looked_at_some_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    block_of_files = blocks.block_of_files

    def noted(session: Session, lfns: Sequence[str]) -> dict[str, str]:
        asked.append(len(lfns))
        return block_of_files(session, lfns)

    monkeypatch.setattr(blocks, "block_of_files", noted)
    monkeypatch.setattr("wms2.activities.outputs.FILES_AT_ONCE", 2)
    order = begin(world.engine, made_request(), 7)
    produce(world.engine, "simulation", *range(7))
    patient = world.publisher_with(wait=timedelta(hours=1))
    await patient.protect(order)
    await patient.register(order)
    rule = await world.rucio.add_rule(DATASET, TAPE, comment="as a subscription would")
    world.control("POST", f"rucio/rules/{rule}/finish")
    assert (await patient.place(order)).complete
    assert asked == [2, 2, 2, 1]
    assert world.status() is OutputStatus.SOURCE_RELEASED


async def test_what_nobody_wants_elsewhere_stays_where_it_was_made_for_as_long_as_it_is_to_be_kept(
    world: World,
) -> None:
    order = begin(world.engine, made_request(retention_days=30), 1)
    produce(world.engine, "simulation", 0)
    await world.publisher.publish(order)
    (block,) = world.blocks()
    assert not block.source_released
    rule = await world.rucio.rule(block.source_rule_id or "")
    assert rule is not None
    assert rule.expires_at is not None


async def test_a_block_that_is_refused_does_not_keep_the_others_back(world: World) -> None:
    order = begin(world.engine, made_request(), 7)
    produce(world.engine, "simulation", *range(7))
    await world.publisher.protect(order)
    trouble = {"kind": "status", "status": 400, "path": "^/dbs/bulkblocks", "method": "POST"}
    world.control("POST", "trouble", trouble)
    with pytest.raises(Refused):
        await world.publisher.register(order)
    in_dbs = [len(await world.dbs.block_files(block.block_name)) for block in world.blocks()]
    assert in_dbs == [0, 3, 1]
    await world.publisher.publish(order)
    await world.assert_published("simulation", 7)


async def test_files_at_a_site_that_rucio_does_not_take_keep_no_others_from_being_protected(
    world: World,
) -> None:
    order = begin(world.engine, made_request(), 6)
    produce(world.engine, "simulation", 0, 1, 2, 3, site=NOWHERE)
    produce(world.engine, "simulation", 4, 5)
    with pytest.raises(ApplicationError, match=f"Rucio knows no disk of {NOWHERE}") as failed:
        await world.publisher.protect(order)
    assert failed.value.type == "NotFound"
    (done,) = failed.value.details
    assert done.files == 2
    assert world.file_statuses() == {OutputFileStatus.PENDING: 4, OutputFileStatus.PROTECTED: 2}
    world.control("PUT", f"rucio/rses/{NOWHERE}")
    assert (await world.publisher.protect(order)).files == 4


async def test_news_of_other_sites_are_acted_on_while_one_waits_for_a_person(
    world: World, settings: Settings
) -> None:
    async with living(world, settings, "simulation") as life:
        await life.hear(0, site=NOWHERE)
        async with asyncio.timeout(PATIENCE_SEC):
            while not (state := await life.workflow.query(OutputDatasetWorkflow.state)).problem:
                await asyncio.sleep(LOOK_SEC)
        again_at = state.setbacks["protect"].again_at
        await life.hear(1)
        await life.until(lambda: world.file_statuses()[OutputFileStatus.PROTECTED] == 1)
        assert datetime.now(UTC) < again_at
        world.control("PUT", f"rucio/rses/{NOWHERE}")
        await life.workflow.signal("retry")
        await life.until(lambda: world.file_statuses()[OutputFileStatus.PROTECTED] == 2)
        await life.workflow.signal("freeze")
        await life.workflow.result()


@pytest.mark.parametrize("destinations", [[], [TAPE], [SITE]])
async def test_a_source_rule_that_somebody_deletes_too_early_is_made_again(
    world: World, destinations: list[str]
) -> None:
    order = begin(world.engine, made_request(destinations=destinations), 1)
    produce(world.engine, "simulation", 0)
    await world.publisher.protect(order)
    await world.publisher.register(order)
    (block,) = world.blocks()
    await world.rucio.delete_rule(block.source_rule_id or "")
    assert (await world.publisher.place(order)).waiting == 1, "it would be nowhere in an hour"
    (again,) = [r for r in await world.rucio.rules_of(block.block_name) if r.rse_expression == SITE]
    assert again.expires_at is None
    assert world.blocks()[0].source_rule_id == again.id
    for rule in block.transfer_rule_ids:
        world.control("POST", f"rucio/rules/{rule}/finish")
    assert (await world.publisher.place(order)).complete


async def test_a_cancelled_step_leaves_no_call_in_flight(world: World) -> None:
    order = begin(world.engine, made_request(), 1)
    produce(world.engine, "simulation", 0)
    started, go_on = asyncio.Event(), asyncio.Event()

    class SlowRucio(Rucio):
        async def add_rule(self, *args: Any, **kwargs: Any) -> str:
            started.set()
            await go_on.wait()
            return await world.rucio.add_rule(*args, **kwargs)

    async with stand_in_rucio(world.url) as rucio:
        rucio.__class__ = SlowRucio
        activities = OutputActivities(world.engine, world.dbs, rucio, LIMITS, timedelta(0))
        running = asyncio.ensure_future(ActivityEnvironment().run(activities.protect_outputs, order))
        await started.wait()
        running.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert world.file_statuses() == {OutputFileStatus.PROTECTED: 1}
    assert world.blocks()[0].source_rule_id is not None


async def test_many_work_units_are_put_into_blocks_some_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "UNITS_AT_ONCE", 1)
    order = begin(world.engine, made_request(), 5)
    produce(world.engine, "simulation", *range(5))
    assert (await world.publisher.protect(order)).files == 5
    assert [block.files for block in world.blocks()] == [3, 2]


async def test_files_are_the_children_of_what_was_read(world: World) -> None:
    request = reprocessing()
    order = OutputOrder(request="reprocessing", dataset=request.outputs[0].dataset)
    unit = produced_unit("reprocessing", 0)
    read = [input_file(0), input_file(1)]
    parents = tuple(file.lfn for file in read)
    made = {"parents": parents, "dataset": order.dataset}
    files = tuple(file.model_copy(update=made) for file in unit.files)
    with transaction(world.engine) as session:
        requests.insert_request(session, request)
        ledger.record_input_files(session, "reprocessing", read)
        ledger.record_plan(session, planned_files(1, [0, 1]))
        credit.credit_work_unit(session, "reprocessing", unit.model_copy(update={"files": files}))
    await world.publisher.protect(order)
    with pytest.raises(Refused, match="parent"):
        await world.publisher.register(order)
    content = {
        "dataset": {"dataset": request.input_dataset},
        "block": {"block_name": f"{request.input_dataset}#1", "origin_site_name": "T1_US_FNAL"},
        "files": [{"logical_file_name": name, "file_size": 1, "event_count": 100} for name in parents],
    }
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(f"{world.url}/dbs/bulkblocks", json=content)).raise_for_status()
    assert (await world.publisher.register(order)).files == 1
    assert await world.dbs.dataset_parents(order.dataset) == [request.input_dataset]


async def test_a_dataset_without_files_has_nothing_to_announce(world: World) -> None:
    order = begin(world.engine, made_request(), 1)
    assert await world.publisher.publish(order) == OutputAnnounced(dataset=DATASET, files=0, events=0)


async def test_what_is_announced_or_invalidated_does_not_go_back(world: World) -> None:
    begin(world.engine, made_request(), 1)
    produce(world.engine, "simulation", 0)

    def record(wanted: OutputStatus) -> bool:
        with transaction(world.engine) as session:
            return outputs.record_output_status(session, "simulation", DATASET, wanted)

    assert record(OutputStatus.ANNOUNCED)
    assert not record(OutputStatus.ANNOUNCED)
    with pytest.raises(RecordConflict, match="is announced and cannot become transferring"):
        record(OutputStatus.TRANSFERRING)
    assert record(OutputStatus.INVALIDATED)
    with pytest.raises(RecordConflict, match="is invalidated and cannot become announced"):
        record(OutputStatus.ANNOUNCED)
    with pytest.raises(RecordConflict, match="has produced nothing"), transaction(world.engine) as session:
        outputs.record_output_status(session, "simulation", "/No/Such-x-v1/RAW", OutputStatus.ANNOUNCED)
