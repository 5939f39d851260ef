"""What DBS and Rucio were told of outputs is taken back, from whatever state they are in."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.integration.output_life import LOOK_SEC, living
from tests.integration.output_world import World
from tests.integration.publishing import (
    SITE,
    TAPE,
    Publisher,
    begin,
    dataset_of,
    made_request,
    produce,
    produced_unit,
)
from tests.patience import PATIENCE_SEC
from tests.stand_in import stand_in_rucio
from wms2.activities.cleanups import CleanupActivities
from wms2.activities.undo import UndoActivities
from wms2.adapters.rucio import Rucio
from wms2.config import Settings
from wms2.db import undo
from wms2.db.credit import credit_work_unit
from wms2.db.invalidation import invalidation_manifest
from wms2.db.output_list import list_outputs
from wms2.db.requests import insert_request
from wms2.db.session import RecordConflict, transaction
from wms2.db.session import connect as connect_database
from wms2.errors import Refused, Unavailable
from wms2.models.audit import Action
from wms2.models.invalidation import RegisteredBlock
from wms2.models.messages import OutputOrder
from wms2.models.output import OutputBlockStatus, OutputFileStatus, OutputStanding, OutputStatus
from wms2.models.request import CleanupPolicy
from wms2.models.rule import Rule
from wms2.models.undo import Undone, UndoOrder
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect
from wms2.temporal.ids import undo_id

ORDER = UndoOrder(request="simulation", actor="operator", reason="wrong conditions", action_id="deed")
STEPS = ["protect", "register", "place", "finish", "place", "announce"]
"""Each brings the dataset one state further."""


async def go(world: World, order: OutputOrder, steps: int) -> None:
    for step in STEPS[:steps]:
        if step == "finish":
            for block in world.blocks():
                for rule in block.transfer_rule_ids:
                    world.control("POST", f"rucio/rules/{rule}/finish")
        else:
            await getattr(world.publisher, step)(order)


async def take_back(world: World, order: UndoOrder = ORDER) -> Undone:
    return await ActivityEnvironment().run(
        UndoActivities(world.engine, world.dbs, world.rucio).undo_outputs, order
    )


async def living_rules(world: World, request: str = "simulation") -> int:
    """Rules that do not end by themselves."""
    rules = [rule for block in world.blocks(request) for rule in await world.rucio.rules_of(block.block_name)]
    return sum(rule.expires_at is None for rule in rules)


def manifest(world: World) -> tuple[RegisteredBlock, ...]:
    """The blocks on the list of what to invalidate."""
    told = Action(action_id="deed", actor="operator", action="fail", request_name="simulation")
    with transaction(world.engine) as session:
        (dataset,) = invalidation_manifest(session, told).datasets
    return dataset.blocks


@pytest.mark.parametrize(
    ("destinations", "steps", "state", "access"),
    [
        ([TAPE], 0, OutputStatus.PENDING, None),
        ([TAPE], 1, OutputStatus.SOURCE_PROTECTED, None),
        ([], 2, OutputStatus.DBS_REGISTERED, "INVALID"),
        ([TAPE], 2, OutputStatus.TRANSFERS_REQUESTED, "INVALID"),
        ([TAPE], 3, OutputStatus.TRANSFERRING, "INVALID"),
        ([SITE], 3, OutputStatus.TRANSFERRED, "INVALID"),
        ([TAPE], 5, OutputStatus.SOURCE_RELEASED, "INVALID"),
        ([TAPE], 6, OutputStatus.ANNOUNCED, "INVALID"),
    ],
)
async def test_whatever_was_told_is_taken_back_and_again_changes_nothing(
    world: World, destinations: list[str], steps: int, state: OutputStatus, access: str | None
) -> None:
    order = begin(world.engine, made_request(destinations=destinations), 4)
    produce(world.engine, "simulation", *range(4))
    await go(world, order, steps)
    assert world.status() is state
    listed = manifest(world)
    assert {block.in_dbs for block in listed} <= {access == "INVALID"}
    assert sum(len(block.rules) for block in listed) == await living_rules(world)

    undone = await take_back(world)

    assert (undone.datasets, undone.files) == (1, 4)
    assert await world.dbs.dataset_access(order.dataset) == access
    assert await living_rules(world) == 0
    assert world.file_statuses() == {OutputFileStatus.INVALIDATED: 4}
    assert {block.status for block in world.blocks()} <= {OutputBlockStatus.INVALIDATED}
    with transaction(world.engine) as session:
        (found,) = list_outputs(session, "simulation")
    assert (found.status, found.standing) == (OutputStatus.INVALIDATED, OutputStanding.INVALIDATED)
    assert found.invalidation_reason == "wrong conditions"
    assert await take_back(world) == Undone()


async def test_a_dataset_that_stays_where_it_was_made_loses_its_source_rule(world: World) -> None:
    order = begin(world.engine, made_request(), 2)
    produce(world.engine, "simulation", 0, 1)
    await world.publisher.publish(order)
    assert await living_rules(world) == 1
    assert (await take_back(world)).rules == 1
    assert await living_rules(world) == 0


async def test_a_rule_and_a_block_that_a_cut_off_call_left_without_a_record_are_taken_back_too(
    world: World,
) -> None:
    order = begin(world.engine, made_request(), 2)
    produce(world.engine, "simulation", 0, 1)
    world.control("POST", "trouble", {"kind": "cut_after", "path": "/rules/$", "method": "POST"})
    with pytest.raises(ApplicationError, match="does not answer"):
        await world.publisher.protect(order)
    (block,) = world.blocks()
    assert (block.source_rule_id, await living_rules(world)) == (None, 1)
    await take_back(world)
    assert await living_rules(world) == 0


async def test_whatever_call_breaks_in_between_the_next_try_ends_it(world: World) -> None:
    place, broke = 0, True
    while broke:
        name = f"undone_{place}"
        order = begin(world.engine, made_request(name, destinations=[TAPE]), 2)
        produce(world.engine, name, 0, 1)
        await world.publisher.protect(order)
        await world.publisher.register(order)
        world.control(
            "POST", "trouble", {"kind": "cut_after", "after": place, "path": "^/(dbs|rucio/(?!auth))"}
        )
        wanted = ORDER.model_copy(update={"request": name, "action_id": name})
        try:
            await take_back(world, wanted)
        except Unavailable:
            await take_back(world, wanted)
        broke = not world.control("GET", "trouble")
        world.control("DELETE", "trouble")
        assert await living_rules(world, name) == 0
        assert await world.dbs.dataset_access(order.dataset) == "INVALID"
        place += 1
    assert place > 3


async def test_what_a_publisher_killed_between_any_two_calls_has_told_is_taken_back(
    world: World, database_url: str
) -> None:
    names = await world.killed(database_url, f"{world.url}/rucio", "given up")
    assert len(names) > 40
    for name in names:
        await world.assert_taken_back(name)


async def test_who_takes_back_and_is_killed_between_any_two_calls_is_followed_by_one_who_ends_it(
    world: World, database_url: str
) -> None:
    names = await world.killed(database_url, f"{world.url}/rucio", "taken back")
    assert len(names) > 10
    for name in names:
        await world.assert_taken_back(name)


async def extend(world: World) -> str:
    """Another request makes a file for the dataset of the first one, and announces it; the name of the file."""
    dataset = dataset_of("simulation")
    other = made_request("extension").model_copy(
        update={"outputs": made_request().outputs, "primary_dataset": "simulation"}
    )
    begin(world.engine, other, 1)
    unit = produced_unit("extension", 0)
    files = tuple(file.model_copy(update={"dataset": dataset}) for file in unit.files)
    with transaction(world.engine) as session:
        credit_work_unit(session, "extension", unit.model_copy(update={"files": files}))
    await world.publisher.publish(OutputOrder(request="extension", dataset=dataset))
    return files[0].lfn


async def test_of_a_dataset_that_others_have_files_in_only_the_own_files_go(world: World) -> None:
    order = begin(world.engine, made_request(), 1)
    produce(world.engine, "simulation", 0)
    await world.publisher.publish(order)
    lfn = await extend(world)

    await take_back(world)

    assert await world.dbs.dataset_access(order.dataset) == "VALID"
    assert list(await world.dbs.events_of_files(order.dataset)) == [lfn]


async def test_files_that_were_taken_back_stay_so_when_a_later_request_makes_their_dataset_valid(
    world: World,
) -> None:
    order = begin(world.engine, made_request(), 4)
    produce(world.engine, "simulation", *range(4))
    await world.publisher.publish(order)
    await take_back(world)

    lfn = await extend(world)

    assert await world.dbs.dataset_access(order.dataset) == "VALID"
    assert list(await world.dbs.events_of_files(order.dataset)) == [lfn]


@pytest.mark.parametrize("step", ["register", "place"])
async def test_who_was_given_up_for_dead_tells_nobody_of_blocks_that_were_taken_back_meanwhile(
    world: World, step: str
) -> None:
    order = begin(world.engine, made_request(destinations=[TAPE]), 4)
    produce(world.engine, "simulation", *range(4))
    await world.publisher.protect(order)
    if step == "place":
        await world.publisher.register(order)

    class Slow(Rucio):
        """While the first call for a block is under way, all is taken back."""

        async def close_block(self, block: str) -> None:
            await take_back(world)
            await super().close_block(block)

        async def rules_of(self, name: str) -> list[Rule]:
            if "#" in name:
                await take_back(world)
            return await super().rules_of(name)

    async with stand_in_rucio(world.url) as rucio:
        rucio.__class__ = Slow
        given_up = Publisher(world.engine, world.dbs, rucio)
        with pytest.raises(RecordConflict, match="was taken back"):
            await (given_up.register(order) if step == "register" else given_up.place(order))
    first, second = world.blocks()
    assert await world.dbs.block_files(second.block_name) == [] or step == "place"
    assert [r for r in await world.rucio.rules_of(second.block_name) if r.expires_at is None] == []
    assert first.status is OutputBlockStatus.INVALIDATED
    if step == "place":
        assert await living_rules(world) == 0


async def test_who_goes_on_with_taking_back_does_not_begin_again_with_the_first_block(world: World) -> None:
    order = begin(world.engine, made_request(), 4)
    produce(world.engine, "simulation", *range(4))
    await world.publisher.publish(order)
    files = [await world.dbs.block_files(block.block_name) for block in world.blocks()]
    assert [len(names) for names in files] == [3, 1]
    world.control(
        "POST", "trouble", {"kind": "cut_after", "after": 3, "path": "^/dbs/files", "method": "PUT"}
    )
    with pytest.raises(Unavailable):
        await take_back(world)
    before = len(world.changes("dbs", "/dbs/files"))

    assert (await take_back(world)).blocks == 1

    assert len(world.changes("dbs", "/dbs/files")) - before == 1


async def test_a_rule_that_somebody_has_locked_keeps_nothing_else_from_being_taken_back(world: World) -> None:
    order = begin(world.engine, made_request(), 4)
    produce(world.engine, "simulation", *range(4))
    await world.publisher.publish(order)
    locked, _ = world.blocks()
    refusal = {
        "kind": "status",
        "status": 403,
        "method": "DELETE",
        "path": f"/rules/{locked.source_rule_id}$",
    }
    world.control("POST", "trouble", refusal)

    with pytest.raises(Refused):
        await take_back(world)

    assert [block.status for block in world.blocks()] == [
        OutputBlockStatus.ARCHIVED,
        OutputBlockStatus.INVALIDATED,
    ]
    assert await world.dbs.events_of_files(order.dataset) == {}
    assert await living_rules(world) == 1
    assert (await take_back(world)).blocks == 1
    await world.assert_taken_back("simulation")


def restarted(world: World, policy: CleanupPolicy) -> OutputOrder:
    """A request that was replaced by its next version, which is complete; its files are announced."""
    first = made_request().model_copy(update={"cleanup_policy": policy, "cleanup_grace_days": 7})
    order = begin(world.engine, first, 1)
    produce(world.engine, "simulation", 0)
    second = made_request("simulation_v2").model_copy(update={"previous_version_request": "simulation"})
    with transaction(world.engine) as session:
        insert_request(session, second)
    return order


@pytest.mark.parametrize("policy", CleanupPolicy)
async def test_outputs_that_were_replaced_are_superseded_and_then_their_policy_says_what_follows(
    world: World, policy: CleanupPolicy
) -> None:
    order = restarted(world, policy)
    await world.publisher.publish(order)
    with transaction(world.engine) as session:
        again = undo.supersede_outputs(session, "simulation_v2")
        assert again is (policy is not CleanupPolicy.KEEP_UNTIL_REPLACED)
        assert not undo.supersede_outputs(session, "simulation_v2"), "once"
    with transaction(world.engine) as session:
        (found,) = list_outputs(session, "simulation")
        due = [order.request for order in undo.due_cleanups(session)]
    assert found.standing is OutputStanding.SUPERSEDED
    days = (found.cleanup_at - datetime.now(UTC)).days if found.cleanup_at else None
    expected = {"keep_until_replaced": None, "immediate_cleanup": -1, "grace_period": 6}
    assert days == expected[policy]
    assert due == (["simulation"] if policy is CleanupPolicy.IMMEDIATE_CLEANUP else [])


async def test_a_version_that_is_complete_replaces_all_before_it_also_those_that_never_were(
    world: World,
) -> None:
    await world.publisher.publish(restarted(world, CleanupPolicy.IMMEDIATE_CLEANUP))
    third = made_request("simulation_v3").model_copy(update={"previous_version_request": "simulation_v2"})
    with transaction(world.engine) as session:
        insert_request(session, third)
        assert undo.supersede_outputs(session, "simulation_v3")
        assert [order.request for order in undo.due_cleanups(session)] == ["simulation"]


async def test_what_is_due_is_begun_once_as_a_workflow_of_its_own(world: World, settings: Settings) -> None:
    order = restarted(world, CleanupPolicy.IMMEDIATE_CLEANUP)
    await world.publisher.publish(order)
    client = await connect(settings)
    await bootstrap(client, settings)
    activities = CleanupActivities(world.engine, client)
    await ActivityEnvironment().run(activities.supersede_outputs, "simulation_v2")
    begun = await client.get_workflow_handle(undo_id("simulation", None)).describe()
    assert begun.workflow_type == "UndoWorkflow"
    assert await ActivityEnvironment().run(activities.start_cleanups) == 1, "not done yet, and begun already"
    again = await client.get_workflow_handle(undo_id("simulation", None)).describe()
    assert again.run_id == begun.run_id


def test_people_look_at_outputs_and_take_back_only_what_has_ended(wms2: Any, settings: Settings) -> None:
    engine = connect_database(settings.needed("database_url"))
    begin(engine, made_request(), 2)
    produce(engine, "simulation", 0, 1)
    (listed,) = wms2("output", "list", "--json").json()
    assert (listed["dataset"], listed["files"], listed["status"]) == (dataset_of("simulation"), 2, "pending")
    assert wms2("output", "list", "--standing", "superseded", "--json").json() == []
    (shown,) = wms2("output", "show", "simulation", "--json").json()
    assert shown["blocks"] == []
    assert "pending, active" in wms2("output", "show", "simulation").stdout
    assert wms2("output", "show", "nobody").code == 2
    unknown = wms2("output", "list", "--request", "nobody")
    assert (unknown.code, "there is no request named nobody" in unknown.stderr) == (2, True)
    other = wms2("output", "show", "simulation", "--dataset", "/A/B-c-v1/D")
    makes = f"simulation makes no dataset /A/B-c-v1/D; it makes {dataset_of('simulation')}"
    assert (other.code, makes in other.stderr) == (2, True)
    refused = wms2("output", "invalidate", "simulation", "--yes")
    assert (refused.code, "may still make files" in refused.stderr) == (2, True)
    engine.dispose()


async def until_shown(wms2: Any, what: str) -> None:
    """Until `wms2 output show` says so."""
    async with asyncio.timeout(PATIENCE_SEC):
        while what not in (await asyncio.to_thread(wms2, "output", "show", "simulation")).stdout:
            await asyncio.sleep(LOOK_SEC)


async def test_people_are_told_why_an_output_does_not_get_on_or_is_not_taken_back(
    world: World, settings: Settings, wms2: Any
) -> None:
    nobody = {"kind": "status", "service": "dbs", "times": 1000}
    busy = {"kind": "status", "service": "rucio", "method": "POST", "status": 429, "retry_after": 5}
    async with living(world, settings, "simulation") as life:
        world.control("POST", "trouble", {**busy, "path": "/rules/$"})
        await life.hear(0)
        await until_shown(wms2, "/rules/ with 429; tried 1 times in vain, the next time at")
        await life.until_it_is(OutputStatus.SOURCE_PROTECTED)
        world.control("POST", "trouble", {**nobody, "method": "POST", "status": 400})
        await life.hear(1)
        await life.workflow.signal("finish")
        refusal = "register: DBS refused POST /dbs/bulkblocks with 400: Bad Request"
        await until_shown(wms2, f"{refusal}; tried 1 times in vain, the next time at")
        world.control("DELETE", "trouble")
        await life.workflow.signal("retry")
        await life.until_it_is(OutputStatus.TRANSFERRING)
        (found,) = (await asyncio.to_thread(wms2, "output", "show", "simulation", "--json")).json()
        assert found["problems"] == []
        await life.workflow.signal("freeze")
        await life.workflow.result()

        world.control("POST", "trouble", {**nobody, "method": "PUT", "status": 403})
        await life.begin_to_take_back()
        await until_shown(wms2, "undo: DBS refused PUT /dbs/datasets with 403")
    told = (await asyncio.to_thread(wms2, "output", "show", "simulation")).stderr
    assert "no worker answers, so nobody knows whether it gets on" in told
