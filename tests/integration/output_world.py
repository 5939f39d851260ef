"""A world for tests of outputs: a real PostgreSQL, the stand-in DBS and Rucio, and somebody who publishes."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, select

from tests.integration.publishing import LIMITS, SITE, TAPE, Publisher, dataset_of, produced_unit
from wms2.adapters.dbs import Dbs
from wms2.adapters.rucio import Rucio
from wms2.core.blocks import BlockLimits
from wms2.db.output_list import list_outputs, output_blocks
from wms2.db.session import transaction
from wms2.db.tables import OutputFileRow
from wms2.errors import Refused
from wms2.models.messages import OutputOrder
from wms2.models.output import OutputBlock, OutputBlockStatus, OutputStatus
from wms2.models.rule import Replica

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class World:
    """A database, services, and somebody who publishes."""

    engine: Engine
    url: str
    dbs: Dbs
    rucio: Rucio
    publisher: Publisher

    def publisher_with(self, limits: BlockLimits = LIMITS, wait: timedelta = timedelta(0)) -> Publisher:
        return Publisher(self.engine, self.dbs, self.rucio, limits, wait)

    def status(self, request: str = "simulation") -> OutputStatus:
        with transaction(self.engine) as session:
            (found,) = list_outputs(session, request)
        return found.status

    def blocks(self, request: str = "simulation") -> list[OutputBlock]:
        with transaction(self.engine) as session:
            return output_blocks(session, request, dataset_of(request))

    def file_statuses(self) -> Counter[str]:
        with transaction(self.engine) as session:
            return Counter(session.scalars(select(OutputFileRow.status)))

    def control(self, method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(method, f"{self.url}/control/{path}", json=body or {}, trust_env=False)
        answer.raise_for_status()
        return answer.json()

    def changes(self, service: str, path: str = "") -> list[str]:
        """The calls that changed something."""
        seen = self.control("GET", f"calls?service={service}&path={path}")
        return [f"{call['method']} {call['path']}" for call in seen if call["method"] != "GET"]

    def run_daemons(self) -> None:
        """Rucio's own: files that came to a block under a rule get their locks from one of them."""
        self.control("POST", "rucio/daemons")

    async def killed(self, database_url: str, rucio_url: str, tale: str, every: int = 1) -> list[str]:
        """Requests whose publishers were killed, each at another step; see `dying_publisher`."""
        urls = (database_url, f"{self.url}/dbs", rucio_url)
        command = [sys.executable, "-m", "tests.integration.dying_publisher", *urls, tale, str(every)]
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
        told, _ = await process.communicate()
        assert process.returncode == 0
        names: list[str] = json.loads(told)
        return names

    async def assert_published(self, request: str, units: int) -> None:
        """Each work unit is once in a block, which is in DBS and closed in Rucio, with one rule at its site."""
        self.run_daemons()
        await self.assert_in_place(request, units)

    async def assert_in_place(self, request: str, units: int) -> None:
        for block in self.blocks(request):
            (rule,) = await self.rucio.rules_of(block.block_name)
            assert (rule.rse_expression, rule.id) == (SITE, block.source_rule_id)
            assert (rule.state, rule.locks_ok, rule.expires_at) == ("OK", block.files, None)
        await self.assert_announced(request, units)

    async def assert_placed(self, request: str, units: int) -> None:
        """Each work unit is once in a block, which is elsewhere under one rule and let go where it was made."""
        for block in self.blocks(request):
            rules = {rule.rse_expression: rule for rule in await self.rucio.rules_of(block.block_name)}
            source, wanted = rules.pop(SITE), rules.pop(TAPE)
            assert (source.id, [wanted.id]) == (block.source_rule_id, list(block.transfer_rule_ids))
            assert source.expires_at is not None
            assert (wanted.state, wanted.locks_ok, wanted.expires_at) == ("OK", block.files, None)
            assert rules == {}
        await self.assert_announced(request, units)

    async def assert_taken_back(self, request: str) -> None:
        """Nobody reads its files, and no rule holds them for longer than a deleted one lives."""
        for block in self.blocks(request):
            assert block.status is OutputBlockStatus.INVALIDATED
            for rule in await self.rucio.rules_of(block.block_name):
                assert rule.expires_at is not None
        assert await self.dbs.dataset_access(dataset_of(request)) in (None, "INVALID")
        assert await self.dbs.events_of_files(dataset_of(request)) == {}
        assert self.status(request) is OutputStatus.INVALIDATED

    async def assert_announced(self, request: str, units: int) -> None:
        order, made = OutputOrder(request=request, dataset=dataset_of(request)), self.blocks(request)
        expected = {file.lfn for k in range(units) for file in produced_unit(request, k).files}
        in_dbs: list[str] = []
        for block in made:
            lfns = await self.dbs.block_files(block.block_name)
            in_dbs += lfns
            assert set(await self.rucio.file_places([block.block_name])) == set(lfns)
            assert block.files == len(lfns)
            late = Replica(lfn="/store/mc/late.root", size_bytes=1, adler32="00000001")
            with pytest.raises(Refused, match="closed"):
                await self.rucio.add_files(block.block_name, SITE, [late])
        assert Counter(in_dbs) == Counter(expected)
        assert await self.dbs.dataset_access(order.dataset) == "VALID"
        assert self.status(request) is OutputStatus.ANNOUNCED
        assert {block.status for block in made} == {OutputBlockStatus.ARCHIVED}
