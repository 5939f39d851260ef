"""From the credit of a work unit to the announced dataset: a real PostgreSQL and the stand-in DBS."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session
from temporalio.testing import ActivityEnvironment

from tests.factories import reprocessing, simulation
from tests.integration.test_database import (
    input_file,
    planned,
    planned_files,
    produced,
    produced_reco,
)
from tests.stand_in import services
from wms2.activities import outputs as output_activities
from wms2.activities.outputs import OutputActivities
from wms2.adapters.dbs import Dbs, DbsRefused, DbsUnavailable
from wms2.db import credit, ledger, outputs, requests
from wms2.db.session import RecordConflict, connect, transaction
from wms2.db.tables import OutputBlockRow, OutputFileRow
from wms2.models.block import NewBlock, block_name
from wms2.models.messages import OutputAnnounced, OutputOrder
from wms2.models.output import OutputFileStatus, OutputStatus

DATASET = "/MinBias/Run2024A-Test-v1/GEN-SIM"
ORDER = OutputOrder(request="simulation", dataset=DATASET)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with services(tmp_path) as url:
        yield f"{url}/dbs"


@pytest.fixture
async def dbs(url: str) -> AsyncIterator[Dbs]:
    async with Dbs(url) as dbs:
        yield dbs


@pytest.fixture
def simulated(engine: Engine) -> Engine:
    """Three work units are planned, two of them produced."""
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
        ledger.record_plan(session, planned(0, (1, 100), (101, 200), (201, 300)))
        credit.credit_work_unit(session, "simulation", produced(0))
        credit.credit_work_unit(session, "simulation", produced(1))
    return engine


async def register(activities: OutputActivities, order: OutputOrder = ORDER) -> int:
    return await ActivityEnvironment().run(activities.register_outputs, order)


async def announce(activities: OutputActivities, order: OutputOrder = ORDER) -> OutputAnnounced:
    return await ActivityEnvironment().run(activities.announce_output, order)


def status(engine: Engine, request: str = "simulation") -> list[tuple[OutputStatus, bool]]:
    with transaction(engine) as session:
        found = outputs.output_datasets(session, request)
        return [(dataset.status, dataset.announced_at is not None) for dataset in found]


def access(url: str) -> list[str]:
    query = {"dataset": DATASET, "detail": "1"}
    answer = httpx.get(f"{url}/datasets", params=query, trust_env=False)
    return [dataset["dataset_access_type"] for dataset in answer.json()]


def blocks(session: Session) -> list[tuple[str, str, int, int, int]]:
    rows = session.scalars(select(OutputBlockRow).order_by(OutputBlockRow.block_name))
    return [(row.block_name, row.source_site, row.files, row.events, row.size_bytes) for row in rows]


async def test_what_is_credited_is_registered_and_in_the_end_announced(
    simulated: Engine, dbs: Dbs, url: str
) -> None:
    activities = OutputActivities(simulated, dbs)
    assert status(simulated) == [(OutputStatus.PENDING, False)]
    assert await register(activities) == 2
    assert status(simulated) == [(OutputStatus.DBS_REGISTERED, False)]
    assert access(url) == ["PRODUCTION"]
    with transaction(simulated) as session:
        credit.credit_work_unit(session, "simulation", produced(2))
    assert await register(activities) == 1
    assert await announce(activities) == OutputAnnounced(dataset=DATASET, files=3, events=300)
    assert status(simulated) == [(OutputStatus.ANNOUNCED, True)]
    assert access(url) == ["VALID"]
    names = sorted(block_name("simulation", DATASET, unit) for unit in range(3))
    with transaction(simulated) as session:
        assert blocks(session) == [(name, "T2_US_Purdue", 1, 100, 1000) for name in names]
        assert set(session.scalars(select(OutputFileRow.status))) == {OutputFileStatus.REGISTERED}
    files = await dbs.dataset_files(DATASET)
    assert [(file.events, file.locations) for file in files] == [(100, ("T2_US_Purdue",))] * 3


async def test_registering_and_announcing_twice_is_once(simulated: Engine, dbs: Dbs) -> None:
    activities = OutputActivities(simulated, dbs)
    assert [await register(activities), await register(activities)] == [2, 0]
    assert await announce(activities) == await announce(activities)
    assert len(await dbs.dataset_files(DATASET)) == 2
    with transaction(simulated) as session:
        assert len(blocks(session)) == 2


async def test_two_at_once_register_each_file_once(simulated: Engine, dbs: Dbs) -> None:
    activities = OutputActivities(simulated, dbs)
    counts = await asyncio.gather(*(register(activities) for _ in range(4)))
    assert sum(counts) == 2
    with transaction(simulated) as session:
        assert [block[2:] for block in blocks(session)] == [(1, 100, 1000)] * 2


class DyingDbs(Dbs):
    """Dies when the block is in DBS and the database does not know it yet."""

    async def insert_block(self, block: NewBlock) -> None:
        await super().insert_block(block)
        raise DbsUnavailable("the line went dead after the call")

    async def set_dataset_access(self, dataset: str, access: Any) -> None:
        await super().set_dataset_access(dataset, access)
        raise DbsUnavailable("the line went dead after the call")


async def test_a_crash_between_dbs_and_database_is_repaired_by_running_again(
    simulated: Engine, dbs: Dbs, url: str
) -> None:
    activities = OutputActivities(simulated, dbs)
    async with DyingDbs(url) as dying:
        crashing = OutputActivities(simulated, dying)
        with pytest.raises(DbsUnavailable):
            await register(crashing)
        assert len(await dbs.dataset_files(DATASET)) == 1
        assert status(simulated) == [(OutputStatus.PENDING, False)]
        assert await register(activities) == 2
        with pytest.raises(DbsUnavailable):
            await announce(crashing)
    assert access(url) == ["VALID"]
    assert status(simulated) == [(OutputStatus.DBS_REGISTERED, False)]
    await announce(activities)
    assert status(simulated) == [(OutputStatus.ANNOUNCED, True)]
    assert len(await dbs.dataset_files(DATASET)) == 2


async def test_a_cancelled_registration_leaves_no_call_in_flight(simulated: Engine, url: str) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    class SlowDbs(Dbs):
        async def insert_block(self, block: NewBlock) -> None:
            started.set()
            await go_on.wait()
            await super().insert_block(block)

    async with SlowDbs(url) as dbs:
        environment = ActivityEnvironment()
        running = asyncio.ensure_future(
            environment.run(OutputActivities(simulated, dbs).register_outputs, ORDER)
        )
        await started.wait()
        running.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(await dbs.dataset_files(DATASET)) == 1
    with transaction(simulated) as session:
        assert len(blocks(session)) == 1


async def test_more_work_units_than_are_read_at_once_are_all_registered(
    simulated: Engine, dbs: Dbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_activities, "UNITS_AT_ONCE", 1)
    with transaction(simulated) as session:
        (first,) = outputs.pending_files(session, "simulation", DATASET, limit=1)
        assert (first.work_unit, first.site, len(first.files)) == (0, "T2_US_Purdue", 1)
    assert await register(OutputActivities(simulated, dbs)) == 2


async def test_files_are_the_children_of_what_was_read(engine: Engine, dbs: Dbs, url: str) -> None:
    request = reprocessing()
    order = OutputOrder(request="reprocessing", dataset=request.outputs[0].dataset)
    unit = produced_reco(0, 200)
    read = [input_file(0), input_file(1)]
    parents = tuple(file.lfn for file in read)
    files = tuple(file.model_copy(update={"parents": parents}) for file in unit.files)
    with transaction(engine) as session:
        requests.insert_request(session, request)
        ledger.record_input_files(session, "reprocessing", read)
        ledger.record_plan(session, planned_files(1, [0, 1]))
        credit.credit_work_unit(session, "reprocessing", unit.model_copy(update={"files": files}))
    activities = OutputActivities(engine, dbs)
    with pytest.raises(DbsRefused, match="parent file"):
        await register(activities, order)
    assert status(engine, "reprocessing") == [(OutputStatus.PENDING, False)]
    content = {
        "dataset": {"dataset": request.input_dataset},
        "block": {"block_name": f"{request.input_dataset}#1", "origin_site_name": "T1_US_FNAL"},
        "files": [{"logical_file_name": name, "file_size": 1, "event_count": 100} for name in parents],
    }
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(f"{url}/bulkblocks", json=content)).raise_for_status()
    assert await register(activities, order) == 1


async def test_a_dataset_without_files_has_nothing_to_announce(engine: Engine, dbs: Dbs) -> None:
    with transaction(engine) as session:
        requests.insert_request(session, simulation())
    activities = OutputActivities(engine, dbs)
    assert await register(activities) == 0
    assert await announce(activities) == OutputAnnounced(dataset=DATASET, files=0, events=0)
    assert status(engine) == []


def test_what_is_announced_or_invalidated_does_not_go_back(simulated: Engine) -> None:
    def record(wanted: OutputStatus) -> bool:
        with transaction(simulated) as session:
            return outputs.record_output_status(session, "simulation", DATASET, wanted)

    assert record(OutputStatus.ANNOUNCED)
    assert not record(OutputStatus.ANNOUNCED)
    with pytest.raises(RecordConflict, match="is announced and cannot become transferring"):
        record(OutputStatus.TRANSFERRING)
    assert record(OutputStatus.INVALIDATED)
    with pytest.raises(RecordConflict, match="is invalidated and cannot become announced"):
        record(OutputStatus.ANNOUNCED)
    with pytest.raises(RecordConflict, match="has produced nothing"), transaction(simulated) as session:
        outputs.record_output_status(session, "simulation", "/No/Such-x-v1/RAW", OutputStatus.ANNOUNCED)
