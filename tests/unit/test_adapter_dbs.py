"""The DBS adapter against the stand-in, and against servers in trouble."""

import json
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.factories import reprocessing, simulation
from tests.stand_in import served, services
from wms2.adapters.dbs import Dbs, DbsRefused, DbsUnavailable, bulk_block
from wms2.models.base import Lumi
from wms2.models.block import NewBlock, block_name, provenance
from wms2.models.output import ProducedFile
from wms2.models.plan import InputFile
from wms2.temporal.retries import FINAL

DATASET = "/MinBias/Run2024A-Test-v1/GEN-SIM"


def lfn(number: int) -> str:
    return f"/store/mc/Run2024A/MinBias/GEN-SIM/Test-v1/{number:06d}/f.root"


def block(unit: int, site: str = "T2_US_Purdue", **changes: Any) -> NewBlock:
    file = ProducedFile(
        lfn=lfn(unit),
        dataset=DATASET,
        size_bytes=1000,
        events=100,
        adler32="0a1b2c3d",
        lumis=(Lumi(run=1, lumi=2, events=60), Lumi(run=1, lumi=1, events=None)),
    )
    return NewBlock(
        name=block_name("simulation", DATASET, unit),
        dataset=DATASET,
        site=site,
        files=(file.model_copy(update=changes),),
        provenance=provenance(simulation(), DATASET),
    )


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with services(tmp_path) as url:
        yield f"{url}/dbs"


@pytest.fixture
async def dbs(url: str) -> AsyncIterator[Dbs]:
    async with Dbs(url) as dbs:
        yield dbs


async def test_files_come_back_with_their_lumis_and_the_place_of_their_block(dbs: Dbs) -> None:
    await dbs.insert_block(block(1, site="T2_DE_DESY"))
    await dbs.insert_block(block(0))
    blocks = [block_name("simulation", DATASET, unit) for unit in (0, 1)]
    content = {"size_bytes": 1000, "events": 100, "lumis": ((1, 1, 2),)}
    files = [
        InputFile(lfn=lfn(0), locations=("T2_US_Purdue",), block=blocks[0], **content),
        InputFile(lfn=lfn(1), locations=("T2_DE_DESY",), block=blocks[1], **content),
    ]
    assert await dbs.dataset_files(DATASET) == files
    assert await dbs.dataset_files(DATASET, lambda name: name == blocks[1]) == files[1:]


async def test_a_dataset_that_dbs_does_not_know_has_no_files(dbs: Dbs) -> None:
    assert await dbs.dataset_files("/No/Such-v1/RAW") == []


async def test_a_block_that_exists_is_a_success(dbs: Dbs) -> None:
    await dbs.insert_block(block(0))
    await dbs.insert_block(block(0))
    assert len(await dbs.dataset_files(DATASET)) == 1


async def test_a_refusal_is_final_and_says_why(dbs: Dbs) -> None:
    with pytest.raises(DbsRefused, match="PUT /dbs/datasets with 400: there is no dataset /MinBias/"):
        await dbs.set_dataset_access(DATASET, "VALID")
    with pytest.raises(DbsRefused, match="unable to find the parent file"):
        await dbs.insert_block(block(0, parents=("/store/data/unknown.root",)))
    assert DbsRefused.__name__ in FINAL
    assert DbsUnavailable.__name__ not in FINAL


async def test_a_dataset_is_in_production_until_its_access_is_set(url: str, dbs: Dbs) -> None:
    await dbs.insert_block(block(0))

    def access() -> str:
        query = {"dataset": DATASET, "detail": "1"}
        answer = httpx.get(f"{url}/datasets", params=query, trust_env=False)
        return str(answer.json()[0]["dataset_access_type"])

    assert access() == "PRODUCTION"
    await dbs.set_dataset_access(DATASET, "VALID")
    await dbs.set_dataset_access(DATASET, "VALID")
    assert access() == "VALID"


def answering(status: int, content: bytes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_GET

    return Handler


def dbs_error(reason: str, code: int) -> bytes:
    return json.dumps([{"error": {"reason": reason, "message": "", "code": code}}]).encode()


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (500, b"down", DbsUnavailable),
        (503, b"", DbsUnavailable),
        (429, b"", DbsUnavailable),
        (400, dbs_error("concurrency error", 110), DbsUnavailable),
        (400, dbs_error("file f already exists", 110), DbsRefused),
        (400, b"{}", DbsRefused),
        (403, b"who are you?", DbsRefused),
        (302, b"", DbsRefused),
    ],
)
async def test_trouble_that_passes_is_told_from_a_refusal(
    status: int, content: bytes, error: type[Exception]
) -> None:
    with served(answering(status, content)) as url:
        async with Dbs(url) as dbs:
            with pytest.raises(error):
                await dbs.insert_block(block(0))
            with pytest.raises(error):
                await dbs.set_dataset_access(DATASET, "VALID")
            with pytest.raises(error):
                await dbs.dataset_files(DATASET)


async def test_a_block_is_known_by_the_words_of_dbs_where_its_number_is_another() -> None:
    reason = f"Block {block(0).name} already exists"
    with served(answering(400, dbs_error(reason, 128))) as url:
        async with Dbs(url) as dbs:
            await dbs.insert_block(block(0))


async def test_a_server_that_is_not_there_or_is_no_dbs_is_unavailable() -> None:
    with served(answering(200, b"<html>maintenance</html>")) as url:
        async with Dbs(url) as dbs:
            with pytest.raises(DbsUnavailable, match="no JSON"):
                await dbs.dataset_files(DATASET)
    async with Dbs(url) as dbs:
        with pytest.raises(DbsUnavailable, match="does not answer"):
            await dbs.dataset_files(DATASET)


def test_a_block_tells_dbs_all_that_it_asks_for() -> None:
    sent = bulk_block(block(0, parents=("/store/data/parent.root",)), now=1_700_000_000)
    assert set(sent) == {
        "dataset_conf_list",
        "file_conf_list",
        "files",
        "processing_era",
        "acquisition_era",
        "primds",
        "dataset",
        "block",
        "file_parent_list",
        "block_parent_list",
        "dataset_parent_list",
        "ds_parent_list",
    }
    assert sent["acquisition_era"]["acquisition_era_name"] == "Run2024A"
    assert sent["processing_era"]["processing_version"] == 1
    assert (sent["primds"]["primary_ds_name"], sent["primds"]["primary_ds_type"]) == ("MinBias", "mc")
    assert (sent["block"]["file_count"], sent["block"]["block_size"]) == (1, 1000)
    assert sent["file_parent_list"] == [
        {"logical_file_name": lfn(0), "parent_logical_file_name": "/store/data/parent.root"}
    ]
    assert sent["files"][0]["file_lumi_list"] == [
        {"run_num": 1, "lumi_section_num": 2, "event_count": 60},
        {"run_num": 1, "lumi_section_num": 1},
    ]


def test_what_reads_a_dataset_is_its_child() -> None:
    request = reprocessing()
    made = provenance(request, request.outputs[0].dataset)
    assert (made.parent, made.primary_type, made.module) == (
        "/MinBias/Run2024A-v1/RAW",
        "data",
        "RECOoutput",
    )


def test_each_work_unit_has_a_block_name_of_its_own_that_never_changes() -> None:
    names = {block_name(request, DATASET, unit) for request in ("a_1", "b_1") for unit in range(3)}
    assert len(names) == 6
    assert block_name("a_1", DATASET, 0) in names
