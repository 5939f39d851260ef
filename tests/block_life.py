"""The life of a block in Rucio, call by call, also where the line goes dead after Rucio has acted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import NamedTuple

from tests.wire import cut_after, passed_on, wire
from wms2.adapters.rucio import Rucio
from wms2.errors import Unavailable
from wms2.models.rule import Replica

RSE, ELSEWHERE = "T2_DE_DESY", "T1_US_FNAL_Disk"
CONNECT = Callable[[str], Rucio]


def replicas(count: int, folder: str = "a") -> list[Replica]:
    return [
        Replica(lfn=f"/store/mc/{folder}/{number}.root", size_bytes=1000 + number, adler32="0a1b2c3d")
        for number in range(count)
    ]


class Facts(NamedTuple):
    """What is true of a block: where its files are, and its rules with their state, their locks, and no end."""

    places: dict[str, dict[str, str]]
    rules: dict[str, tuple[str, int, bool]]

    @classmethod
    async def of(cls, rucio: Rucio, block: str) -> "Facts":
        rules = {rule.rse_expression: rule for rule in await rucio.rules_of(block)}
        states = {name: (rule.state, rule.locks_ok, rule.expires_at is None) for name, rule in rules.items()}
        places = await rucio.file_places([block])
        return cls({lfn.rpartition("/")[2]: place for lfn, place in places.items()}, states)


async def life(rucio: Rucio, dataset: str, name: str, times: int = 1) -> AsyncIterator[str]:
    """A block is opened, filled, protected, closed, sent elsewhere, and no longer held at its source.

    Each step is done so many times; the block after each.
    """
    block, files = f"{dataset}#{name}", replicas(3, f"{dataset}/{name}".replace("/", ""))
    source = ""
    for step in ("open", "fill", "protect", "close", "send", "release"):
        for _ in range(times):
            match step:
                case "open":
                    await rucio.add_block(dataset, block)
                case "fill":
                    await rucio.add_files(block, RSE, files)
                case "protect":
                    source = await rucio.add_rule(block, RSE, comment="source")
                case "close":
                    await rucio.close_block(block)
                case "send":
                    await rucio.add_rule(block, ELSEWHERE, comment="destination")
                case "release":
                    await rucio.delete_rule(source)
            yield block


async def assert_each_step_twice_is_as_good_as_once(rucio: Rucio, dataset: str) -> None:
    facts = [await Facts.of(rucio, block) async for block in life(rucio, dataset, "twice", times=2)]
    assert facts[::2] == facts[1::2]
    assert_life_was_lived(facts[-1])


async def assert_life_goes_on_wherever_it_is_cut(url: str, connect: CONNECT, dataset: str) -> None:
    """The line goes dead after each call in turn, when the server has acted; then all is done once more."""
    place, is_cut = 0, True
    while is_cut:
        place += 1
        with wire(cut_after(passed_on(url), place)) as line:
            async with connect(line.url) as rucio:
                is_cut = False
                try:
                    blocks = [block async for block in life(rucio, dataset, f"cut-{place}")]
                except Unavailable:
                    is_cut = True
                    blocks = [block async for block in life(rucio, dataset, f"cut-{place}")]
        assert is_cut or place > len(line.calls), "an answer was lost, and nobody noticed"
        async with connect(url) as rucio:
            assert_life_was_lived(await Facts.of(rucio, blocks[-1]))
    assert place > len(blocks)


async def assert_many_at_once_live_one_life(connect: Callable[[], Rucio], dataset: str) -> None:
    """Several who do not know of each other do the same at the same time; each tries again what did not succeed."""

    async def live() -> str:
        async with connect() as rucio:
            for _ in range(20):
                with suppress(Unavailable):
                    return [block async for block in life(rucio, dataset, "at-once")][-1]
        raise AssertionError("Rucio is never available")

    blocks = await asyncio.gather(*(live() for _ in range(5)))
    async with connect() as rucio:
        assert_life_was_lived(await Facts.of(rucio, blocks[0]))


def assert_life_was_lived(facts: Facts) -> None:
    assert facts.rules == {RSE: ("OK", 3, False), ELSEWHERE: ("REPLICATING", 0, True)}
    assert facts.places == {f"{number}.root": {RSE: "AVAILABLE", ELSEWHERE: "COPYING"} for number in range(3)}
