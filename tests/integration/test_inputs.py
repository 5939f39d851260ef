"""Inputs that are fetched and let go: rules in the stand-in Rucio, and the record of who wants them."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from tests.factories import reprocessing
from tests.stand_in import bulk_block, calls_seen, control, make_trouble, services, stand_in_rucio
from wms2.activities.database import DatabaseActivities
from wms2.activities.inputs import COMMENT, InputActivities
from wms2.adapters.rucio import Rucio
from wms2.adapters.service import Service
from wms2.db.inputs import held_inputs, input_progress
from wms2.db.requests import insert_request, record_status
from wms2.db.session import transaction
from wms2.errors import NotFound, Unavailable
from wms2.models.input_rule import InputProgress
from wms2.models.request import RequestStatus
from wms2.models.rule import Rule

DATASET, PLACE = "/MinBias/Run2024A-v1/RAW", "T2_CH_CERN|T2_US_Purdue"


class World:
    """A dataset of two blocks at a site, and requests that read it."""

    def __init__(self, url: str, engine: Engine, rucio: Rucio) -> None:
        self.url, self.engine, self.rucio = url, engine, rucio
        self.activities = InputActivities(engine, rucio, 24)
        for number in (1, 2):
            self.make_block(number)

    def make_block(self, number: int) -> str:
        lfns = [f"/store/data/Run2024A/{number}/{name}.root" for name in "abc"]
        block = bulk_block(DATASET, number, lfns)
        httpx.post(f"{self.url}/dbs/bulkblocks", json=block, trust_env=False).raise_for_status()
        return f"{DATASET}#{number}"

    def want(self, name: str, **fields: Any) -> str:
        with transaction(self.engine) as session:
            insert_request(
                session, reprocessing(request_name=name, input_dataset=DATASET, prefetch=PLACE, **fields)
            )
        return name

    async def fetch(self, name: str) -> InputProgress:
        return (await self.activities.fetch_input(name)).progress

    async def rules(self, name: str = DATASET) -> list[Rule]:
        return await self.rucio.rules_of(name)

    def held(self, name: str) -> list[str]:
        with transaction(self.engine) as session:
            return [held.name for held in held_inputs(session, name)]


@pytest.fixture
async def world(engine: Engine, tmp_path: Path) -> AsyncIterator[World]:
    with services(tmp_path) as url:
        async with stand_in_rucio(url) as rucio:
            yield World(url, engine, rucio)


async def test_an_input_is_fetched_by_one_rule_and_released_once(world: World) -> None:
    name = world.want("one")
    first = await world.fetch(name)
    assert (first.files_there, first.files, first.is_there) == (0, 6, False)
    (rule,) = await world.rules()
    assert (rule.rse_expression, rule.comment, rule.expires_at) == (PLACE, COMMENT, None)
    control(world.url, "POST", "rucio/daemons")
    there = await world.fetch(name)
    assert (there.files_there, there.is_there) == (6, True)
    assert str(there) == f"6 of 6 files at {PLACE}"
    assert [rule.id for rule in await world.rules()] == [rule.id]
    assert await world.activities.release_input(name) == 1
    assert await world.activities.release_input(name) == 0
    assert len(calls_seen(world.url, service="rucio", method="DELETE")) == 1
    with transaction(world.engine) as session:
        shown = input_progress(session, name)
    assert shown is not None
    assert str(shown) == f"6 of 6 files at {PLACE}, let go"


async def test_with_a_list_of_blocks_these_alone_are_fetched(world: World) -> None:
    name = world.want("blocks", block_whitelist=[f"{DATASET}#2"])
    assert (await world.fetch(name)).files == 3
    assert await world.rules() == []
    (rule,) = await world.rules(f"{DATASET}#2")
    assert rule.comment == COMMENT


async def test_a_rule_that_two_requests_want_goes_with_the_second(world: World) -> None:
    one, two = world.want("one"), world.want("two")
    await world.fetch(one)
    await world.fetch(two)
    (rule,) = await world.rules()
    await world.activities.release_input(one)
    assert [rule.expires_at for rule in await world.rules()] == [None]
    await world.activities.release_input(two)
    (left,) = await world.rules()
    assert left.id == rule.id
    assert left.expires_at is not None


async def test_one_who_wants_it_while_it_is_released_keeps_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = world.want("one"), world.want("two")
    await world.fetch(one)
    delete = world.rucio.delete_rule

    async def delete_late(rule_id: str) -> None:
        await world.fetch(two)
        await delete(rule_id)

    monkeypatch.setattr(world.rucio, "delete_rule", delete_late)
    await world.activities.release_input(one)
    assert [rule.expires_at for rule in await world.rules()] == [None]


async def test_a_rule_that_is_about_to_go_is_brought_back_by_the_next_who_wants_it(world: World) -> None:
    one, two = world.want("one"), world.want("two")
    await world.fetch(one)
    await world.activities.release_input(one)
    await world.fetch(two)
    assert [rule.expires_at for rule in await world.rules()] == [None]


async def test_a_rule_that_wms2_has_for_its_outputs_serves_as_well_and_is_never_released(
    world: World,
) -> None:
    block = f"{DATASET}#1"
    output = await world.rucio.add_rule(block, PLACE, comment="an output's", lifetime_sec=10**6)
    (before,) = await world.rules(block)
    name = world.want("chained", block_whitelist=[block])
    await world.fetch(name)
    await world.activities.release_input(name)
    assert await world.rules(block) == [before]
    assert before.id == output


async def test_a_stuck_rule_is_told_with_rucios_reason(world: World) -> None:
    name = world.want("stuck")
    await world.fetch(name)
    (rule,) = await world.rules()
    control(world.url, "POST", f"rucio/rules/{rule.id}/stick", {"error": "no space left"})
    progress = await world.fetch(name)
    assert not progress.is_there
    assert progress.problem.endswith("files: no space left")


async def test_a_dataset_that_rucio_does_not_know_cannot_be_fetched(world: World) -> None:
    with transaction(world.engine) as session:
        unknown = reprocessing(request_name="nobody", input_dataset="/No/Such-v1/RAW", prefetch=PLACE)
        insert_request(session, unknown)
    with pytest.raises(NotFound):
        await world.fetch("nobody")


async def test_inputs_of_requests_that_ended_while_rucio_was_away_are_let_go_later(world: World) -> None:
    ended, living = world.want("ended"), world.want("living", block_whitelist=[f"{DATASET}#1"])
    for name in (ended, living):
        await world.fetch(name)
    make_trouble(world.url, "status", service="rucio", times=100)
    with pytest.raises(Unavailable):
        await world.activities.release_input(ended)
    control(world.url, "DELETE", "trouble")
    with transaction(world.engine) as session:
        record_status(session, ended, RequestStatus.ABORTED, 1, "wms2")
    assert await world.activities.release_inputs() == 1
    assert await world.activities.release_inputs() == 0
    assert (world.held(ended), world.held(living)) == ([], [f"{DATASET}#1"])


class Died(BaseException):
    """As a process that is killed: nothing after it happens."""


def die_after(moments: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many calls of Rucio and records, and before the next."""
    left = moments

    def mortal(function: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            answer = await function(*args, **kwargs)
            left -= 1
            if left == 0:
                raise Died
            return answer

        return call

    monkeypatch.setattr(Service, "call", mortal(Service.call))
    monkeypatch.setattr(DatabaseActivities, "record", mortal(DatabaseActivities.record))


async def test_killed_between_any_two_calls_there_is_one_rule_and_it_is_released_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request has a block of its own to fetch, so that none helps another."""
    deaths = 0
    for moment in range(1, 100):
        block = world.make_block(100 + moment)
        name = world.want(f"killed_{moment}", block_whitelist=[block])
        died = False
        for step in (world.activities.fetch_input, world.activities.release_input):
            with monkeypatch.context() as patch:
                die_after(moment, patch)
                try:
                    await step(name)
                except Died:
                    died = True
            await step(name)
            assert len(await world.rules(block)) == 1
        (rule,) = await world.rules(block)
        assert rule.expires_at is not None
        assert world.held(name) == []
        if not died:
            break
        deaths += 1
    assert deaths >= 6
