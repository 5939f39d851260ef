"""Taking back what DBS and Rucio were told of outputs."""

from __future__ import annotations

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.database import DatabaseActivities
from wms2.activities.obstacles import Obstacles
from wms2.adapters.dbs import Dbs
from wms2.adapters.rucio import Rucio
from wms2.db import undo
from wms2.models.undo import RecordedBlock, RecordedDataset, Undone, UndoOrder


class UndoActivities(DatabaseActivities):
    """Each call can be made again: what is gone already is as good as taken back."""

    def __init__(self, engine: Engine, dbs: Dbs, rucio: Rucio) -> None:
        super().__init__(engine)
        self._dbs = dbs
        self._rucio = rucio

    @activity.defn
    async def undo_outputs(self, order: UndoOrder) -> Undone:
        """Make the datasets and their files invalid in DBS, delete WMS2's rules on the blocks, and record it.

        Readers are told first: nobody shall begin to read what is about to go. A block that is recorded is not
        looked at again: whoever comes after an interruption goes on with the next. One that cannot be taken back, such
        as one with a rule that somebody has locked, is no obstacle to the others.
        """
        undone, obstacles = list[Undone](), Obstacles()
        for dataset in await self.record(undo.recorded_datasets, order):
            with obstacles.passed_over():
                undone.append(await self._undo(order, dataset))
        obstacles.tell()
        return Undone(
            datasets=len(undone),
            blocks=sum(one.blocks for one in undone),
            rules=sum(one.rules for one in undone),
            files=sum(one.files for one in undone),
        )

    async def _undo(self, order: UndoOrder, dataset: RecordedDataset) -> Undone:
        blocks = rules = files = 0
        obstacles = Obstacles()
        await self._tell_readers(dataset)
        for block in dataset.blocks:
            with obstacles.passed_over():
                await self._invalidate_files(block)
                rules += await self._delete_rules(block)
                files += await self.record(undo.record_block_undone, block.name, block.in_dbs)
                blocks += 1
            activity.heartbeat(blocks)
        obstacles.tell()
        files += await self.record(undo.record_dataset_undone, order, dataset.name)
        return Undone(datasets=1, blocks=blocks, rules=rules, files=files)

    async def _tell_readers(self, dataset: RecordedDataset) -> None:
        """A dataset in which others have files stays visible; only the files of this request go."""
        if dataset.shared or not any(block.in_dbs for block in dataset.blocks):
            return
        if await self._dbs.dataset_access(dataset.name) is not None:
            await self._dbs.set_dataset_access(dataset.name, "INVALID")

    async def _invalidate_files(self, block: RecordedBlock) -> None:
        """Also where the dataset is invalid: the next request that makes files for it makes it VALID again."""
        if not block.in_dbs:
            return
        in_dbs = set(await self._dbs.block_files(block.name))
        lfns = [lfn for lfn in await self.record(undo.block_lfns, block.name) if lfn in in_dbs]
        await self._dbs.set_files_valid(lfns, False)

    async def _delete_rules(self, block: RecordedBlock) -> int:
        """Those that are recorded, and those that Rucio has without a record: a call may have been cut off."""
        known = await self._rucio.rules_of(block.name)
        own = {rule.id for rule in known if rule.account == self._rucio.account} | set(block.rules)
        for rule in sorted(own):
            await self._rucio.delete_rule(rule)
        return len(own)
