"""An input dataset for the local stack: real files at its sites, and their entry in the stand-in DBS."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from wms2.adapters.dbs import Dbs
from wms2.config import Settings
from wms2.local.payload import make_inputs
from wms2.local.services import PLACES_PATH
from wms2.local.sites import storage_folder
from wms2.models.base import Lumi
from wms2.models.block import NewBlock, Provenance, block_name
from wms2.models.output import ProducedFile

MADE_BY = Provenance(
    primary_type="data",
    release="CMSSW_0_0_0",
    global_tag="UNKNOWN",
    module="input",
    configuration="made",
    parent=None,
)


async def make_dataset(
    settings: Settings, dataset: str, *, files: int, events_per_file: int, sites: Sequence[str]
) -> None:
    """Write a dataset of demo events, numbered from 1 on: so many files at each site, a block for each."""
    async with Dbs(f"{settings.needed('services_url')}/dbs") as dbs:
        folder = dataset.strip("/").replace("/", "_")
        for number, site in enumerate(sites):
            entries = make_inputs(
                settings.home / "storage", files, events_per_file, locations=[site],
                base=f"/store/data/Demo/{folder}/{number:03d}", run=number + 1,
                first_event=number * files * events_per_file + 1,
            )  # fmt: skip
            produced = [
                ProducedFile(
                    lfn=entry["lfn"],
                    dataset=dataset,
                    size_bytes=entry["size_bytes"],
                    events=entry["events"],
                    adler32=_adler32(Path(f"{storage_folder(settings.home, site)}{entry['lfn']}")),
                    lumis=tuple(Lumi(**lumi) for lumi in entry["lumis"]),
                )
                for entry in entries
            ]
            block = NewBlock(
                name=block_name("inputs", dataset, number),
                dataset=dataset,
                site=site,
                files=tuple(produced),
                provenance=MADE_BY,
            )
            await dbs.insert_block(block)


async def place_block(services_url: str, block: str, available: Mapping[str, int]) -> None:
    """Let the stand-in Rucio say that the block lies there, and no more where it was made.

    `available` is how many of its files each RSE has.
    """
    async with httpx.AsyncClient(base_url=services_url, trust_env=False) as client:
        answer = await client.put(PLACES_PATH, params={"block": block}, json=dict(available))
        answer.raise_for_status()


def _adler32(path: Path) -> str:
    return f"{zlib.adler32(path.read_bytes()):08x}"
