"""What is done with the files that work units produced, until their dataset is announced.

A step tells Rucio or DBS first and records it afterwards. Each call can be made again: whoever died in between is
followed by one who does the same, and finds it done.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Engine
from temporalio import activity
from temporalio.exceptions import ApplicationError

from wms2.activities.database import DatabaseActivities
from wms2.activities.inputs import COMMENT as INPUT_COMMENT
from wms2.activities.obstacles import Obstacles
from wms2.adapters.dbs import Dbs
from wms2.adapters.rucio import Rucio
from wms2.core.blocks import BlockLimits
from wms2.core.placement import (
    BlockToPlace,
    Placement,
    is_let_go,
    is_well,
    misses_a_rule,
    placement,
    trouble,
)
from wms2.db import blocks, outputs
from wms2.db.requests import request_record
from wms2.db.sites import site_rse
from wms2.errors import Refused, Unavailable
from wms2.models.block import NewBlock, provenance
from wms2.models.messages import OutputAnnounced, OutputOrder
from wms2.models.output import OutputStatus
from wms2.models.output_steps import Placed, Protected, Registered
from wms2.models.request import Output, Request
from wms2.models.rule import Replica, Rule

FILES_AT_ONCE = 500
SOURCE_COMMENT = "WMS2: kept where it was made until it is elsewhere"
DESTINATION_COMMENT = "WMS2: where the request wants it"
DAY_SEC = 86400
MOST_REASONS = 3
"""So many are told: sites that fail together mostly do for the same one."""
LOOK_EVERY_SEC = 300.0
"""Transfers take hours: Rucio is not asked for a block more often."""
T = TypeVar("T")


class OutputActivities(DatabaseActivities):
    """`placement_wait`: for how long a block waits for somebody to want it elsewhere.

    `stuck_hours`: for how long a transfer may be in trouble before somebody is told.
    """

    def __init__(
        self,
        engine: Engine,
        dbs: Dbs,
        rucio: Rucio,
        limits: BlockLimits,
        placement_wait: timedelta,
        stuck_hours: float = 24,
    ) -> None:
        super().__init__(engine)
        self._dbs = dbs
        self._rucio = rucio
        self._limits = limits
        self._placement_wait = placement_wait
        self._stuck_hours = stuck_hours

    # Protecting -----------------------------------------------------------------------------------------

    @activity.defn
    async def protect_outputs(self, order: OutputOrder) -> Protected:
        """Put all files that wait into blocks, and protect them at their sites."""
        name = (order.request, order.dataset)
        while await self.record(blocks.assign_files, *name, self._limits):
            activity.heartbeat()
        files, failed = await self._protect_all(order)
        open_sec = await self.record(blocks.oldest_open_sec, *name)
        left = None if open_sec is None else self._limits.age.total_seconds() - open_sec
        closed = await self.record(blocks.blocks_to_register, *name)
        done = Protected(
            files=files,
            blocks_due=bool(closed) or (left is not None and left <= 0),
            next_due_sec=left,
        )
        if failed:
            raise _done_but_for(failed, done)
        return done

    async def _protect_all(self, order: OutputOrder) -> tuple[int, list[Refused | Unavailable]]:
        """How many files are protected only now, and why blocks were passed over: what waits elsewhere can be lost."""
        files, failed = 0, dict[str, Refused | Unavailable]()
        look = partial(blocks.blocks_to_protect, limit=FILES_AT_ONCE, without=failed.keys())
        while waiting := await self.record(look, order.request, order.dataset):
            for block in waiting:
                # Where this fails it is Rucio itself. Where what follows does, it is the site or its files.
                await _undivided(self._rucio.add_block(order.dataset, block.name))
                try:
                    files += await _undivided(self._protect(block))
                except (Refused, Unavailable) as error:
                    failed[block.name] = error
                activity.heartbeat(files)
        return files, list(failed.values())

    async def _protect(self, block: blocks.OpenedBlock) -> int:
        rse = block.rse or await self._source_rse(block.site)
        replicas = [
            Replica(lfn=file.lfn, size_bytes=file.size_bytes, adler32=file.adler32) for file in block.files
        ]
        await self._rucio.add_files(block.name, rse, replicas)
        rule = block.source_rule or await self._rucio.add_rule(block.name, rse, comment=SOURCE_COMMENT)
        lfns = [file.lfn for file in block.files]
        return await self.record(blocks.record_protected, block.name, rse, rule, lfns)

    async def _source_rse(self, site: str) -> str:
        known: str | None = await self.record(site_rse, site)
        return known or await self._rucio.disk_rse(site)

    # Registering ----------------------------------------------------------------------------------------

    @activity.defn
    async def register_blocks(self, order: OutputOrder) -> Registered:
        """Close the blocks whose time has come, and bring those that are closed into DBS and on their way."""
        name = (order.request, order.dataset)
        await self.record(blocks.close_due_blocks, *name, self._limits, order.finishing)
        request = (await self.record(request_record, order.request)).request
        names = await self.record(blocks.blocks_to_register, *name)
        files, obstacles = 0, Obstacles()
        for block in names:
            with obstacles.passed_over():
                files += await _undivided(self._register(order, request, block))
            activity.heartbeat(files)
        obstacles.tell()
        return Registered(blocks=len(names), files=files)

    async def _register(self, order: OutputOrder, request: Request, name: str) -> int:
        block = await self.record(blocks.closed_block, order.dataset, name)
        await self._rucio.close_block(name)
        await self._dbs.insert_block(
            NewBlock(
                name=name,
                dataset=order.dataset,
                site=block.site,
                files=block.files,
                provenance=provenance(request, order.dataset),
            )
        )
        return await self._ask_for_destinations(_output(request, order.dataset), name)

    async def _ask_for_destinations(self, output: Output, block: str) -> int:
        """The rules that the request wants, made where they are missing; how many files are registered only now."""
        lifetime = output.retention_days and output.retention_days * DAY_SEC
        rules = [
            await self._rucio.add_rule(block, destination, comment=DESTINATION_COMMENT, lifetime_sec=lifetime)
            for destination in output.destinations
        ]
        return await self.record(blocks.record_registered, block, rules)

    # Placing --------------------------------------------------------------------------------------------

    @activity.defn
    async def place_blocks(self, order: OutputOrder) -> Placed:
        """Look where the blocks in DBS are. One that others hold is let go where it was made.

        While files still come this is done whenever a block is full; a block that was looked at just now is left then.
        """
        name = (order.request, order.dataset)
        found = await self.record(blocks.blocks_to_place, *name)
        waiting = [block for block in found if order.finishing or _is_due(block)]
        output = _output((await self.record(request_record, order.request)).request, order.dataset)
        of_dataset = await self._lasting_rules(order.dataset) if waiting else []
        # Where the request names destinations, these are what counts.
        locks = {} if output.destinations else await self._locks(of_dataset)
        left_alone = left = len(found) - len(waiting)
        troubles, obstacles = [], Obstacles()
        for block in waiting:
            with obstacles.passed_over():
                rules = await self._lasting_rules(block.name)
                to_place = _to_place(block, output, locks.get(block.name, {}))
                if not await _undivided(self._place(block, to_place, output, rules, of_dataset)):
                    left += 1
                    troubles.append(trouble([*rules, *of_dataset]))
            activity.heartbeat(left)
        obstacles.tell()
        complete = not left and await self.record(blocks.is_complete, *name)
        return Placed(
            waiting=left,
            complete=complete,
            left_alone=left_alone,
            trouble=next(filter(None, troubles), ""),
            patience_hours=self._stuck_hours,
        )

    async def _lasting_rules(self, name: str) -> list[Rule]:
        """Without those that bring a request its input: they end with that request."""
        return [rule for rule in await self._rucio.rules_of(name) if rule.comment != INPUT_COMMENT]

    async def _locks(self, of_dataset: Sequence[Rule]) -> dict[str, Counter[str]]:
        """How many locks that are OK each rule on the dataset has for each block, where it is well.

        Rucio lists the locks of the whole dataset, so it is asked once for all blocks, and looked at in pieces.
        """
        locks: dict[str, Counter[str]] = defaultdict(Counter)
        for rule in filter(is_well, of_dataset):
            async with aclosing(_pieces(self._rucio.held_files(rule.id), FILES_AT_ONCE)) as pieces:
                async for lfns in pieces:
                    block_of = await self.record(blocks.block_of_files, lfns)
                    for block in filter(None, map(block_of.get, lfns)):
                        locks[block][rule.id] += 1
        return locks

    async def _place(
        self,
        block: blocks.PlacedBlock,
        to_place: BlockToPlace,
        output: Output,
        rules: list[Rule],
        of_dataset: list[Rule],
    ) -> bool:
        """Whether nothing is left to do for the block."""
        now = datetime.now(UTC)
        where = placement(to_place, rules, of_dataset, now)
        if where is Placement.PLACED:
            await self._let_go(block, output.dataset)
            return True
        waited = block.waits_sec >= self._placement_wait.total_seconds()
        is_missed = misses_a_rule(to_place, rules, now)
        await self.record(blocks.check_not_taken_back, block.name)
        if is_let_go(to_place, rules, now):
            await self._hold_again(block)
        elif (
            where is Placement.STAYS
            or (where is Placement.NOWHERE and waited)
            or (is_missed and block.arrived)
        ):
            await self._keep_at_source(block, output)
            return True
        if is_missed and not block.arrived:
            await self._ask_for_destinations(output, block.name)
        await self.record(blocks.record_check, block.name)
        return False

    async def _let_go(self, block: blocks.PlacedBlock, dataset: str) -> None:
        """Not before those have ended who read it: where it went may be a tape, from which no job reads."""
        is_read = await self.record(blocks.is_read, dataset)
        if not is_read:
            await self._rucio.delete_rule(block.source_rule)
        await self.record(blocks.record_archived, block.name, arrived=True, released=not is_read)

    async def _hold_again(self, block: blocks.PlacedBlock) -> None:
        """Somebody has deleted the rule, and no other one holds every file."""
        rule = await self._rucio.add_rule(block.name, block.rse, comment=SOURCE_COMMENT)
        await self.record(blocks.record_source_rule, block.name, rule)

    async def _keep_at_source(self, block: blocks.PlacedBlock, output: Output) -> None:
        """The copy at its site is one of those that count, for as long as it is to be kept."""
        if output.retention_days is not None:
            await self._rucio.set_rule_lifetime(block.source_rule, output.retention_days * DAY_SEC)
        await self.record(blocks.record_archived, block.name, arrived=False, released=False)

    @activity.defn
    async def release_sources(self) -> int:
        """Let go of blocks that were kept for readers who have ended; of how many outputs that are."""
        found, obstacles = await self.record(blocks.outputs_read_no_more), Obstacles()
        for request, dataset in found:
            with obstacles.passed_over():
                await self.place_blocks(OutputOrder(request=request, dataset=dataset))
        obstacles.tell()
        return len(found)

    # Announcing -----------------------------------------------------------------------------------------

    @activity.defn
    async def announce_output(self, order: OutputOrder) -> OutputAnnounced:
        """Make the dataset visible to its readers. One without files is not in DBS: there is nothing to show."""
        files, events = await self.record(outputs.registered_totals, order.request, order.dataset)
        if files:
            await _undivided(self._announce(order))
        return OutputAnnounced(dataset=order.dataset, files=files, events=events)

    async def _announce(self, order: OutputOrder) -> None:
        await self._dbs.set_dataset_access(order.dataset, "VALID")
        await self.record(outputs.record_output_status, order.request, order.dataset, OutputStatus.ANNOUNCED)


def _done_but_for(failed: Sequence[Refused | Unavailable], done: Protected) -> ApplicationError:
    """What failed, and as its detail what was done all the same. A refusal comes first: it needs a person."""
    first = next((error for error in failed if isinstance(error, Refused)), failed[0])
    reasons = list(dict.fromkeys(map(str, (first, *failed))))
    waits = [error.retry_after for error in failed if isinstance(error, Unavailable) and error.retry_after]
    return ApplicationError(
        "; ".join(reasons[:MOST_REASONS]),
        done,
        type=type(first).__name__,
        next_retry_delay=timedelta(seconds=max(waits)) if waits else None,
    )


def _output(request: Request, dataset: str) -> Output:
    return next(output for output in request.outputs if output.dataset == dataset)


def _is_due(block: blocks.PlacedBlock) -> bool:
    return block.looked_sec is None or block.looked_sec >= LOOK_EVERY_SEC


def _to_place(block: blocks.PlacedBlock, output: Output, locks: Mapping[str, int]) -> BlockToPlace:
    kept_for = timedelta(days=output.retention_days) if output.retention_days else None
    return BlockToPlace(block.files, block.source_rule, frozenset(block.transfer_rules), kept_for, locks)


async def _pieces(names: AsyncGenerator[str, None], size: int) -> AsyncGenerator[list[str], None]:
    """So many at a time: all of them may be too many to hold."""
    piece: list[str] = []
    async with aclosing(names) as rest:
        async for name in rest:
            piece.append(name)
            if len(piece) == size:
                yield piece
                piece = []
    if piece:
        yield piece


async def _undivided(step: Coroutine[Any, Any, T]) -> T:
    """Do a step to its end, also when the activity is cancelled meanwhile: no call is left in flight."""
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
