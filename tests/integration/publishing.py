"""What tests of outputs share: a request with work units, and hands that bring its files to their readers."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Engine
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.factories import simulation
from tests.integration.test_database import planned
from wms2.activities.outputs import OutputActivities
from wms2.adapters.dbs import Dbs
from wms2.adapters.rucio import Rucio
from wms2.core.blocks import BlockLimits, Load
from wms2.db import credit, ledger, requests
from wms2.db.session import transaction
from wms2.errors import Unavailable
from wms2.models.ledger import ProducedUnit
from wms2.models.messages import OutputAnnounced, OutputOrder
from wms2.models.output import ProducedFile
from wms2.models.output_steps import Placed, Protected, Registered
from wms2.models.request import Request

NO_WAIT = timedelta(0)
SITE, TAPE = "T2_US_Purdue", "T1_US_FNAL_Tape"
LIMITS = BlockLimits(Load(files=3, size_bytes=10**9, lumis=1000))
"""Three files in a block, so that few work units make several."""


def dataset_of(request: str) -> str:
    return f"/{request.replace('_', '')}/Run2024A-Test-v1/GEN-SIM"


def made_request(name: str = "simulation", **output: Any) -> Request:
    made = {"module": "RAWSIMoutput", "tier": "GEN-SIM", "step": "GEN", "dataset": dataset_of(name), **output}
    return simulation(request_name=name, primary_dataset=name.replace("_", ""), outputs=[made])


def produced_unit(request: str, number: int, site: str = SITE) -> ProducedUnit:
    file = ProducedFile(
        lfn=f"/store/mc/Run2024A/{request}/GEN-SIM/Test-v1/{number:06d}/1.root",
        dataset=dataset_of(request),
        size_bytes=1000 + number,
        events=100,
        adler32="0a1b2c3d",
        lumis=({"run": 1, "lumi": number + 1, "events": 100},),  # type: ignore[arg-type]
    )
    return ProducedUnit(
        number=number,
        site=site,
        processed_events=100,
        produced_events=100,
        output_digest=f"{number:064x}",
        files=(file,),
    )


def begin(engine: Engine, request: Request, units: int) -> OutputOrder:
    """A request with so many work units, planned and not yet produced."""
    ranges = [(100 * k + 1, 100 * k + 100) for k in range(units)]
    with transaction(engine) as session:
        requests.insert_request(session, request)
        ledger.record_plan(session, planned(0, *ranges, request=request.request_name))
    return OutputOrder(request=request.request_name, dataset=dataset_of(request.request_name))


def produce(engine: Engine, request: str, *numbers: int, site: str = SITE) -> None:
    with transaction(engine) as session:
        for number in numbers:
            credit.credit_work_unit(session, request, produced_unit(request, number, site))


class Publisher:
    """The steps of the output workflow, one after the other."""

    def __init__(
        self, engine: Engine, dbs: Dbs, rucio: Rucio, limits: BlockLimits = LIMITS, wait: timedelta = NO_WAIT
    ) -> None:
        self.activities = OutputActivities(engine, dbs, rucio, limits, wait)

    async def protect(self, order: OutputOrder) -> Protected:
        return await ActivityEnvironment().run(self.activities.protect_outputs, order)

    async def register(self, order: OutputOrder, finishing: bool = True) -> Registered:
        order = order.model_copy(update={"finishing": finishing})
        return await ActivityEnvironment().run(self.activities.register_blocks, order)

    async def place(self, order: OutputOrder, finishing: bool = True) -> Placed:
        order = order.model_copy(update={"finishing": finishing})
        return await ActivityEnvironment().run(self.activities.place_blocks, order)

    async def announce(self, order: OutputOrder) -> OutputAnnounced:
        return await ActivityEnvironment().run(self.activities.announce_output, order)

    async def release(self) -> int:
        return await ActivityEnvironment().run(self.activities.release_sources)

    async def publish(self, order: OutputOrder) -> OutputAnnounced:
        """All of it, as if no more files came."""
        await self.protect(order)
        await self.register(order)
        placed = await self.place(order)
        assert placed.complete, placed
        return await self.announce(order)

    async def insist(self, order: OutputOrder, times: int = 3) -> OutputAnnounced:
        """Publish, and again when a service fails."""
        for _ in range(times - 1):
            try:
                return await self.publish(order)
            except (Unavailable, ApplicationError):
                continue
        return await self.publish(order)
