"""The DBS adapter against the stand-in, and against servers in trouble."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode

import httpx
import pytest
from pydantic import ValidationError

from tests.factories import reprocessing, simulation
from tests.patience import PATIENCE_SEC
from tests.stand_in import served, services
from tests.wire import Call, Reply, cut_after, passed_on, wire
from wms2.adapters.dbs import CALLS_AT_ONCE, Dbs, bulk_block
from wms2.errors import AlreadyThere, BrokenRequest, NotFound, Refused, Unauthorised, Unavailable
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


async def nowhere(_: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return {}


async def files(
    dbs: Dbs, dataset: str = DATASET, takes_block: Callable[[str], bool] = lambda _: True
) -> list[InputFile]:
    return [file async for file in dbs.input_files(dataset, nowhere, takes_block)]


async def test_events_of_files_take_one_call(dbs: Dbs) -> None:
    for unit in (1, 0):
        await dbs.insert_block(block(unit, events=unit))
    assert await dbs.events_of_files(DATASET) == {lfn(0): 0, lfn(1): 1}
    assert await dbs.events_of_files("/No/Such-v1/RAW") == {}


async def test_files_come_with_their_lumis_where_their_blocks_are(dbs: Dbs) -> None:
    names = sorted(block_name("simulation", DATASET, unit) for unit in (0, 1))
    for unit in (1, 0):
        await dbs.insert_block(block(unit))
    asked: list[str] = []

    async def locate(blocks: Sequence[str]) -> dict[str, tuple[str, ...]]:
        asked.extend(blocks)
        return {names[0]: ("T2_DE_DESY", "T2_US_Purdue")}

    found = [file async for file in dbs.input_files(DATASET, locate)]

    assert asked == names
    assert [(file.block, file.locations) for file in found] == [
        (names[0], ("T2_DE_DESY", "T2_US_Purdue")),
        (names[1], ()),
    ]
    assert {(file.size_bytes, file.events, file.lumis) for file in found} == {(1000, 100, ((1, 1, 2),))}
    assert sorted(file.lfn for file in found) == [lfn(0), lfn(1)]


async def test_blocks_that_are_not_taken_are_not_asked_about(url: str) -> None:
    names = [block_name("simulation", DATASET, unit) for unit in range(3)]
    with wire(passed_on(url)) as line:
        async with Dbs(line.url) as dbs:
            for unit in range(3):
                await dbs.insert_block(block(unit))
            found = await files(dbs, takes_block=lambda name: name == names[1])

    asked = [call.path for call in line.calls if call.path.startswith("/filelumis")]
    assert [file.block for file in found] == [names[1]]
    assert asked == [f"/filelumis?{urlencode({'block_name': names[1]})}"]


async def test_a_dataset_that_dbs_does_not_know_has_no_files(dbs: Dbs) -> None:
    assert await files(dbs, "/No/Such-v1/RAW") == []


async def test_files_that_are_not_valid_are_no_input(url: str, dbs: Dbs) -> None:
    bulk = bulk_block(block(0), now=1_700_000_000)
    bulk["files"][0]["is_file_valid"] = 0
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(f"{url}/bulkblocks", json=bulk)).raise_for_status()

    assert await files(dbs) == []


async def test_a_block_that_exists_is_a_success(dbs: Dbs) -> None:
    await dbs.insert_block(block(0))
    await dbs.insert_block(block(0))
    assert len(await files(dbs)) == 1


async def test_a_refusal_is_final_and_says_why(dbs: Dbs) -> None:
    with pytest.raises(Refused, match="unable to find the parent file"):
        await dbs.insert_block(block(0, parents=("/store/data/unknown.root",)))
    for kind in (Refused, AlreadyThere, NotFound, Unauthorised, BrokenRequest):
        assert kind.__name__ in FINAL
    assert Unavailable.__name__ not in FINAL


async def test_the_access_of_a_dataset_that_is_not_there_cannot_be_set_though_dbs_says_yes() -> None:
    with wire(lambda _: Reply(content=b"[]")) as line:
        async with Dbs(line.url) as dbs:
            with pytest.raises(NotFound, match="no dataset /MinBias/"):
                await dbs.set_dataset_access(DATASET, "VALID")
            assert await dbs.dataset_access(DATASET) is None
    (change, *_) = line.calls
    assert (change.method, change.body) == ("PUT", b"{}")
    assert change.path == f"/datasets?{urlencode({'dataset': DATASET, 'dataset_access_type': 'VALID'})}"


async def test_a_dataset_is_in_production_until_its_access_is_set(url: str, dbs: Dbs) -> None:
    await dbs.insert_block(block(0))

    assert await dbs.dataset_access(DATASET) == "PRODUCTION"
    for access in ("VALID", "VALID", "INVALID"):
        await dbs.set_dataset_access(DATASET, access)
        assert await dbs.dataset_access(DATASET) == access


async def test_the_files_of_a_block_are_listed_valid_or_not() -> None:
    rows = in_lines({"logical_file_name": lfn(1)}, {"logical_file_name": lfn(0)})
    with wire(lambda _: Reply(content=rows)) as line:
        async with Dbs(line.url) as dbs:
            assert await dbs.block_files(block(0).name) == [lfn(0), lfn(1)]
    assert [call.path for call in line.calls] == [f"/files?{urlencode({'block_name': block(0).name})}"]


async def test_a_call_changes_the_validity_of_one_file_alone() -> None:
    with wire(lambda _: Reply(content=b"[]")) as line:
        async with Dbs(line.url) as dbs:
            await dbs.set_files_valid([lfn(0), "", lfn(1)], False)
            await dbs.set_files_valid([], True)

    changes = [(call.method, parse_qs(call.path.partition("?")[2])) for call in line.calls]
    assert sorted(changes, key=str) == [
        ("PUT", {"logical_file_name": [lfn(unit)], "is_file_valid": ["0"]}) for unit in (0, 1)
    ]


async def test_a_block_is_closed_and_parents_are_listed() -> None:
    def script(call: Call) -> Reply:
        parent = in_lines({"this_dataset": DATASET, "parent_dataset_id": 1, "parent_dataset": "/A/B-v1/RAW"})
        return Reply(content=parent if call.method == "GET" else b"[]")

    with wire(script) as line:
        async with Dbs(line.url) as dbs:
            await dbs.close_block(block(0).name)
            assert await dbs.dataset_parents(DATASET) == ["/A/B-v1/RAW"]
    assert (
        line.calls[0].path == f"/blocks?{urlencode({'block_name': block(0).name, 'open_for_writing': '0'})}"
    )


@pytest.mark.parametrize(("number", "how"), [(1, "silent"), (2, "silent"), (3, "silent"), (3, "half")])
async def test_what_dbs_did_before_the_line_went_dead_is_found_done(
    url: str, number: int, how: Literal["silent", "half"]
) -> None:
    """A registration is three calls: the block, the access of the dataset, and what that is now."""

    async def register(dbs: Dbs) -> None:
        await dbs.insert_block(block(0))
        await dbs.set_dataset_access(DATASET, "VALID")

    with wire(cut_after(passed_on(url), number, how)) as line:
        async with Dbs(line.url) as dbs:
            with pytest.raises(Unavailable, match="does not answer"):
                await register(dbs)
            await register(dbs)
            assert await dbs.dataset_access(DATASET) == "VALID"
            assert [file.lfn for file in await files(dbs)] == [lfn(0)]


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
        (500, b"down", Unavailable),
        (503, b"", Unavailable),
        (429, b"", Unavailable),
        (400, dbs_error("concurrency error", 110), Unavailable),
        (400, dbs_error("unable to begin", 102), Unavailable),
        (400, dbs_error("ORA-00001: unique constraint (DBS.TUC_AE_NAME) violated", 110), Unavailable),
        (400, dbs_error("UNIQUE constraint failed: BLOCKS.BLOCK_NAME", 110), Unavailable),
        (400, dbs_error("file f already exists", 110), AlreadyThere),
        (400, dbs_error("Dataset does not exist", 140), NotFound),
        (400, b"{}", BrokenRequest),
        (403, b"who are you?", Unauthorised),
        (404, b"", NotFound),
        (302, b"", Refused),
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
                await files(dbs)


async def test_a_block_is_known_by_the_words_of_dbs_where_its_number_is_another() -> None:
    reason = f"Block {block(0).name} already exists"
    with served(answering(400, dbs_error(reason, 128))) as url:
        async with Dbs(url) as dbs:
            await dbs.insert_block(block(0))


async def test_a_server_that_is_not_there_or_is_no_dbs_is_unavailable() -> None:
    with served(answering(200, b"<html>maintenance</html>")) as url:
        async with Dbs(url) as dbs:
            with pytest.raises(Unavailable, match="no JSON"):
                await files(dbs)
    async with Dbs(url) as dbs:
        with pytest.raises(Unavailable, match="does not answer"):
            await files(dbs)


def row(unit: int, **changes: Any) -> dict[str, Any]:
    name = block_name("simulation", DATASET, unit)
    content = {"block_name": name, "file_size": 1000, "event_count": 100, "is_file_valid": 1}
    return {"logical_file_name": lfn(unit), **content, **changes}


def in_lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


class Rows(BaseHTTPRequestHandler):
    """Lists files in the pieces that a test has chosen, and no lumi sections."""

    protocol_version = "HTTP/1.1"
    pieces: Sequence[bytes] = ()
    framing: str = "Transfer-Encoding: chunked"
    is_cut = False

    def do_GET(self) -> None:
        if not self.path.startswith("/files"):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return
        framing = f"{self.framing}\r\n" if self.framing else ""
        self.wfile.write(f"HTTP/1.1 200 OK\r\n{framing}\r\n".encode())
        chunked = "chunked" in self.framing
        for piece in self.pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        if chunked and not self.is_cut:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.is_cut or not chunked


async def listed(*pieces: bytes, framing: str = Rows.framing, is_cut: bool = False) -> list[str]:
    """The files that a server lists which answers with these pieces."""
    changes = {"pieces": pieces, "framing": framing, "is_cut": is_cut}
    with served(type("Handler", (Rows,), changes)) as url:
        async with Dbs(url) as dbs:
            return sorted(file.lfn for file in await files(dbs))


THREE = [lfn(unit) for unit in range(3)]
LINES = in_lines(row(0), row(1), row(2))
LIST = json.dumps([row(0), row(1), row(2)]).encode()
DBS_LIST = b"[\n" + b",".join(in_lines(row(unit)) for unit in range(3)) + b"]\n"


@pytest.mark.parametrize("answer", [LINES, LIST, DBS_LIST, b"\n" + LINES, LIST.replace(b" ", b"\n ")])
@pytest.mark.parametrize("size", [1, 7, 1000, 10_000])
async def test_rows_are_read_from_lines_and_from_a_list_wherever_they_are_broken(
    answer: bytes, size: int
) -> None:
    assert await listed(*(answer[k : k + size] for k in range(0, len(answer), size))) == THREE


@pytest.mark.parametrize("answer", [b"", b"[]", b" [ ]\n", b"\n"])
async def test_an_answer_without_rows_is_an_empty_dataset(answer: bytes) -> None:
    assert await listed(answer, framing=f"Content-Length: {len(answer)}") == []


@pytest.mark.parametrize("answer", [LINES, LIST])
async def test_an_answer_that_is_cut_off_is_never_a_short_list(answer: bytes) -> None:
    half = len(answer) // 2
    after_two_rows = len(in_lines(row(0), row(1)))
    for cut in (0, half, after_two_rows, len(answer)):
        pieces = [answer[:cut]] if cut else []
        with pytest.raises(Unavailable):
            await listed(*pieces, is_cut=True)
        if cut < len(answer):
            with pytest.raises(Unavailable):
                await listed(answer[:cut], framing=f"Content-Length: {len(answer)}")
    # A server in between may have cut it, and then end it in good order.
    with pytest.raises(Unavailable, match="end in the middle"):
        await listed(answer[:half])


async def test_an_answer_whose_end_cannot_be_told_from_a_cut_is_not_believed() -> None:
    with pytest.raises(Unavailable, match="cannot be told from a cut"):
        await listed(LINES, framing="")


@pytest.mark.parametrize(
    "answer",
    [
        LINES + dbs_error("rows error ORA-01555", 101),
        LINES + dbs_error("rows error ORA-01555", 101) + b"\n",
        DBS_LIST + dbs_error("rows error ORA-01555", 101),
        in_lines(row(0), {"logical_file_name": lfn(1)}),
        in_lines(row(0, file_size="large")),
        in_lines(row(0)).replace(b"{", b"{\xff"),
        b"{}\nnull\n",
        b"[1, 2]",
    ],
)
async def test_what_is_no_row_makes_the_answer_useless(answer: bytes) -> None:
    with pytest.raises(Unavailable, match="answered files with"):
        await listed(answer)


async def test_a_file_with_a_name_that_no_file_has_is_refused_for_good() -> None:
    with pytest.raises(ValidationError, match="expected a logical file name"):
        await listed(in_lines(row(0, logical_file_name="/store/../etc/passwd")))
    assert ValidationError.__name__ in FINAL


async def test_a_block_that_vanishes_in_between_leaves_files_of_unknown_content_at_no_place() -> None:
    with served(type("Handler", (Rows,), {"pieces": [in_lines(row(0))]})) as url:
        async with Dbs(url) as dbs:
            (file,) = await files(dbs)
    assert (file.lfn, file.lumis, file.locations) == (lfn(0), (), ())


async def test_trouble_with_the_lumis_of_one_block_ends_the_whole(url: str) -> None:
    there = passed_on(url)

    def script(call: Call) -> Reply:
        troubled = line.count("GET /filelumis") > 1 and call.path.startswith("/filelumis")
        return Reply(503) if troubled else there(call)

    with wire(script) as line:
        async with Dbs(line.url) as dbs:
            for unit in range(20):
                await dbs.insert_block(block(unit))
            with pytest.raises(Unavailable, match="filelumis with 503"):
                await files(dbs)
    assert line.count("GET /filelumis") < 20


async def test_lumis_of_several_blocks_are_asked_for_at_once_but_not_of_all(url: str) -> None:
    there, together, counting = passed_on(url), threading.Barrier(CALLS_AT_ONCE), threading.Lock()
    under_way = most = 0

    def script(call: Call) -> Reply:
        nonlocal under_way, most
        if call.path.startswith("/filelumis"):
            with counting:
                under_way += 1
                most = max(most, under_way)
            together.wait(timeout=PATIENCE_SEC)
            with counting:
                under_way -= 1
        return there(call)

    with wire(script) as line:
        async with Dbs(line.url) as dbs:
            for unit in range(2 * CALLS_AT_ONCE):
                await dbs.insert_block(block(unit))
            assert len(await files(dbs)) == 2 * CALLS_AT_ONCE
    assert most == CALLS_AT_ONCE


async def test_a_reader_that_stops_early_leaves_nothing_under_way(dbs: Dbs) -> None:
    for unit in range(20):
        await dbs.insert_block(block(unit))
    before = asyncio.all_tasks()
    reading = dbs.input_files(DATASET, nowhere)
    assert (await anext(reading)).events == 100

    await reading.aclose()

    assert asyncio.all_tasks() == before


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


def test_a_dataset_has_the_release_and_the_conditions_of_the_step_that_made_it() -> None:
    own = {"pset": "a.py", "cmssw_version": "CMSSW_8_0_36", "global_tag": "80X_v1"}
    request = reprocessing(
        cmssw_version="CMSSW_10_6_25",
        scram_arch=["slc7_amd64_gcc700"],
        global_tag="106X_v1",
        payload_config={
            "steps": [
                {"name": "RECO", "type": "cmsRun", "parameters": own},
                {"name": "MINI", "type": "cmsRun", "parameters": {"pset": "b.py"}},
            ]
        },
    )
    (output,) = request.outputs
    for step, made_with in (("RECO", ("CMSSW_8_0_36", "80X_v1")), ("MINI", ("CMSSW_10_6_25", "106X_v1"))):
        moved = request.model_copy(update={"outputs": (output.model_copy(update={"step": step}),)})
        made = provenance(moved, output.dataset)
        assert (made.release, made.global_tag) == made_with


def test_each_work_unit_has_a_block_name_of_its_own_that_never_changes() -> None:
    names = {block_name(request, DATASET, unit) for request in ("a_1", "b_1") for unit in range(3)}
    assert len(names) == 6
    assert block_name("a_1", DATASET, 0) in names
