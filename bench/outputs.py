"""Outputs: many files on their way into Rucio and DBS, and how soon a work unit's files are protected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from sqlalchemy import Engine, func, select

from bench.case import Case, leaving
from tests.integration.publishing import Publisher, begin, dataset_of, made_request, produced_unit
from tests.stand_in import stand_in_rucio
from wms2.adapters.dbs import Dbs
from wms2.cli.entrance import open_door
from wms2.config import Settings
from wms2.core.blocks import BlockLimits
from wms2.dagman.outputs import MERGE_OUTPUT_FILE
from wms2.db import credit
from wms2.db.migrate import upgrade
from wms2.db.session import connect, transaction
from wms2.db.tables import OutputFileRow
from wms2.local import postgres, process, services
from wms2.local.ports import pick_port
from wms2.local.postgres import Postgres
from wms2.local.services import Services
from wms2.local.sites import SITES, write_sites
from wms2.local.stack import start_stack, stop_stack
from wms2.models.ledger import ProducedUnit
from wms2.models.messages import OutputOrder
from wms2.models.output import OutputFileStatus
from wms2.models.request import Request

NAME = "bench"
FILES_PER_UNIT, LUMIS_PER_FILE = 20, 10
START_SEC, LOOK_SEC, PATIENCE_SEC = 60.0, 0.02, 600.0


# Many files ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToPublish:
    """A request whose files are all credited, and the servers, each in a process of its own."""

    database_url: str
    services_url: str
    order: OutputOrder


def prepare_files(files: int, folder: Path) -> ToPublish:
    home = folder / "servers"
    home.mkdir()
    write_sites(home, SITES)
    leaving.callback(process.sweep, home)
    database = Postgres(home, {postgres.PART: pick_port()})
    standing_in = Services(home, {services.PART: pick_port()})
    for server in (database, standing_in):
        server.start()
        if not process.wait_until(lambda server=server: server.problem() is None, START_SEC):
            raise RuntimeError(server.problem())
    database.ensure_database()
    # By another process: the memory that it takes would hide what publishing takes.
    other = get_context("spawn").Process(target=credit_files, args=(database.url, files))
    other.start()
    other.join()
    order = OutputOrder(request=NAME, dataset=dataset_of(NAME))
    return ToPublish(database.url, standing_in.url, order)


def credit_files(database_url: str, files: int) -> None:
    upgrade(database_url)
    engine = connect(database_url)
    units = -(-files // FILES_PER_UNIT)
    begin(engine, made_request(NAME), units)
    with transaction(engine) as session:
        for number in range(units):
            credit.credit_work_unit(
                session, NAME, _unit(number, min(FILES_PER_UNIT, files - number * FILES_PER_UNIT))
            )


def _unit(number: int, files: int) -> ProducedUnit:
    unit = produced_unit(NAME, number)
    (file,) = unit.files
    first = number * FILES_PER_UNIT * LUMIS_PER_FILE + 1
    made = [
        file.model_copy(
            update={
                "lfn": file.lfn.replace("/1.root", f"/{k}.root"),
                "lumis": tuple(
                    file.lumis[0].model_copy(update={"lumi": first + k * LUMIS_PER_FILE + lumi})
                    for lumi in range(LUMIS_PER_FILE)
                ),
            }
        )
        for k in range(files)
    ]
    return unit.model_copy(update={"files": tuple(made)})


def publish(given: ToPublish) -> Mapping[str, int]:
    return asyncio.run(_publish(given))


async def _publish(given: ToPublish) -> dict[str, int]:
    url = given.services_url
    async with Dbs(f"{url}/dbs") as dbs, stand_in_rucio(url) as rucio:
        publisher = Publisher(connect(given.database_url), dbs, rucio, BlockLimits())
        protected = await publisher.protect(given.order)
        registered = await publisher.register(given.order)
    return {"protected": protected.files, "registered": registered.files, "blocks": registered.blocks}


# How soon -----------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """A stack with its worker, and for how long each work unit's files waited."""

    settings: Settings
    request: Request
    waited: list[float] = field(default_factory=list)


def prepare_stack(units: int, folder: Path) -> Watched:
    home = folder / "stack"
    leaving.callback(stop_stack, home)
    settings = start_stack(home, with_worker=True)
    work = {"total_events": 100 * units, "splitting_params": {"events_per_job": 50, "events_per_lumi": 50}}
    request = made_request(NAME)
    sizes = {
        "size_per_event_kb": 1.0,
        "time_per_event_sec": 0.01,
        "merge_target_bytes": 100_000,
        "urgent": True,
    }
    return Watched(settings, Request.model_validate({**request.model_dump(mode="json"), **work, **sizes}))


def watch_units(given: Watched) -> Mapping[str, int]:
    """From the moment when a work unit's output is complete on disk to that when the record says protected."""
    asyncio.run(open_door(given.settings).submit(given.request))
    engine = connect(given.settings.needed("database_url"))
    folder = given.settings.home / "submit" / NAME
    waiting = given.request.total_events or 0
    until = time.monotonic() + PATIENCE_SEC
    seen: set[int] = set()
    while waiting and time.monotonic() < until:
        protected = _protected(engine)
        for unit in protected.keys() - seen:
            (made,) = folder.glob(f"round_*/mg_{unit:06d}/{MERGE_OUTPUT_FILE}")
            given.waited.append(time.time() - made.stat().st_mtime)
        seen |= protected.keys()
        waiting = (given.request.total_events or 0) - sum(protected.values())
        time.sleep(LOOK_SEC)
    return {"work_units": len(seen)}


def _protected(engine: Engine) -> dict[int, int]:
    """Work units with their events whose files are protected, or more than that. A unit's files are so together."""
    query = (
        select(OutputFileRow.work_unit, func.sum(OutputFileRow.events))
        .where(OutputFileRow.status != OutputFileStatus.PENDING)
        .group_by(OutputFileRow.work_unit)
    )
    with transaction(engine) as session:
        return {unit: int(events) for unit, events in session.execute(query)}


def waits(measured: Watched, _cpu_sec: float) -> Mapping[str, float]:
    stop_stack(measured.settings.home)
    return {"median_sec": round(median(measured.waited), 2), "longest_sec": round(max(measured.waited), 2)}


CASES = (
    Case("protecting and registering", "files", (1_000, 10_000), prepare_files, publish),
    Case("a work unit's end to protected", "work units", (12,), prepare_stack, watch_units, waits),
)
