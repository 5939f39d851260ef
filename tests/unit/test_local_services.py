"""The stand-ins for the services of CMS."""

import gzip
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest

from tests.stand_in import services
from wms2.errors import UserError
from wms2.local.rucio import ACCOUNT, PASSWORD, USER
from wms2.local.services import Answers
from wms2.local.sites import SITES, write_sites

DATASET = "/Prim/Era-proc-v1/GEN-SIM"


def bulk(block: str = f"{DATASET}#1", lfn: str = "/store/mc/f1.root") -> dict[str, Any]:
    lumis = [{"run_num": 1, "lumi_section_num": 7, "event_count": 10}]
    file = {
        "logical_file_name": lfn,
        "file_size": 100,
        "event_count": 10,
        "adler32": "0a",
        "file_lumi_list": lumis,
    }
    return {
        "dataset": {"dataset": DATASET, "physics_group_name": "NoGroup"},
        "block": {"block_name": block, "origin_site_name": "T2_DE_DESY"},
        "files": [file],
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_sites(tmp_path, SITES)
    return tmp_path


@pytest.fixture
def client(home: Path) -> Iterator[httpx.Client]:
    with services(home) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


def test_a_block_that_was_written_is_read_back_with_its_files_and_lumis(client: httpx.Client) -> None:
    assert client.post("/dbs/bulkblocks", json=bulk()).status_code == 200

    query = {"dataset": "/Prim/*/GEN-SIM", "dataset_access_type": "*"}
    assert client.get("/dbs/datasets", params=query).json() == [{"dataset": DATASET}]
    (block,) = client.get("/dbs/blocks", params={"dataset": DATASET, "detail": "1"}).json()
    assert (block["file_count"], block["block_size"], block["open_for_writing"]) == (1, 100, 0)
    (file,) = client.get("/dbs/files", params={"block_name": f"{DATASET}#1", "detail": "true"}).json()
    assert (file["event_count"], file["is_file_valid"], file["dataset"]) == (10, 1, DATASET)
    assert client.get("/dbs/filelumis", params={"logical_file_name": "/store/mc/f1.root"}).json() == [
        {"logical_file_name": "/store/mc/f1.root", "run_num": 1, "lumi_section_num": 7, "event_count": 10}
    ]


def test_a_block_or_a_file_is_written_once(client: httpx.Client) -> None:
    client.post("/dbs/bulkblocks", json=bulk())

    again = client.post("/dbs/bulkblocks", json=bulk())
    same_file = client.post("/dbs/bulkblocks", json=bulk(block=f"{DATASET}#2"))

    assert (again.status_code, same_file.status_code) == (400, 400)
    assert [(error["exception"], error["error"]["code"]) for error in again.json()] == [(400, 200)]
    assert again.json()[0]["error"]["reason"] == f"Block {DATASET}#1 already exists"
    assert same_file.json()[0]["error"]["code"] == 110
    assert len(client.get("/dbs/blocks", params={"dataset": DATASET}).json()) == 1


def test_a_block_may_arrive_zipped(client: httpx.Client) -> None:
    body = gzip.compress(json.dumps(bulk()).encode())
    headers = {"Content-Encoding": "gzip"}

    assert client.post("/dbs/bulkblocks", content=body, headers=headers).status_code == 200
    assert client.post("/dbs/bulkblocks", content=body[:-9], headers=headers).status_code == 400
    assert client.get("/dbs/blocks", params={"dataset": DATASET}).json() == [{"block_name": f"{DATASET}#1"}]


def test_a_new_dataset_is_in_production_until_it_is_announced(client: httpx.Client) -> None:
    client.post("/dbs/bulkblocks", json=bulk())

    def found(access: str) -> int:
        query = {"dataset": DATASET, "dataset_access_type": access}
        return len(client.get("/dbs/datasets", params=query).json())

    assert client.get("/dbs/datasets", params={"dataset": DATASET}).json() == []
    assert (found("PRODUCTION"), found("VALID"), found("*")) == (1, 0, 1)
    query = {"dataset": DATASET, "dataset_access_type": "VALID"}
    assert client.put("/dbs/datasets", params=query, json={}).json() == []
    assert (found("PRODUCTION"), found("VALID"), found("*")) == (0, 1, 1)
    client.post("/dbs/bulkblocks", json=bulk(f"{DATASET}#2", "/store/mc/f2.root"))
    assert (found("PRODUCTION"), found("VALID")) == (0, 1)


def test_lumis_are_asked_for_block_by_block(client: httpx.Client) -> None:
    client.post("/dbs/bulkblocks", json=bulk())
    client.post("/dbs/bulkblocks", json=bulk(f"{DATASET}#2", "/store/mc/f2.root"))

    rows = client.get("/dbs/filelumis", params={"block_name": f"{DATASET}#2"}).json()

    assert [row["logical_file_name"] for row in rows] == ["/store/mc/f2.root"]
    assert client.get("/dbs/filelumis", params={"dataset": DATASET}).status_code == 400


def test_files_that_are_not_valid_are_left_out_on_demand(client: httpx.Client) -> None:
    block = bulk()
    block["files"][0]["is_file_valid"] = 0
    client.post("/dbs/bulkblocks", json=block)

    assert len(client.get("/dbs/files", params={"dataset": DATASET}).json()) == 1
    assert client.get("/dbs/files", params={"dataset": DATASET, "validFileOnly": "1"}).json() == []


def test_parents_must_be_known_before_their_children(client: httpx.Client) -> None:
    parent = {"logical_file_name": "/store/mc/f2.root", "parent_logical_file_name": "/store/mc/f1.root"}
    child = bulk(f"{DATASET}#2", "/store/mc/f2.root") | {"file_parent_list": [parent]}

    assert "/store/mc/f1.root" in client.post("/dbs/bulkblocks", json=child).json()[0]["error"]["reason"]
    client.post("/dbs/bulkblocks", json=bulk())
    assert client.post("/dbs/bulkblocks", json=child).status_code == 200
    orphan = bulk(f"{DATASET}#3", "/store/mc/f3.root") | {"dataset_parent_list": ["/No/Such-v1/RAW"]}
    assert client.post("/dbs/bulkblocks", json=orphan).status_code == 400


def test_what_was_written_outlives_the_service(home: Path) -> None:
    Answers(home).answer("POST", "/dbs/bulkblocks", {}, bulk())

    again = Answers(home)
    assert list(again.answer("GET", "/dbs/files", {"dataset": DATASET}, None)) == [
        {"logical_file_name": "/store/mc/f1.root"}
    ]
    (lumi,) = again.answer("GET", "/dbs/filelumis", {"block_name": f"{DATASET}#1"}, None)
    assert (lumi["run_num"], lumi["lumi_section_num"]) == (1, 7)


def test_a_change_that_was_cut_off_by_a_crash_was_never_made(home: Path) -> None:
    answers = Answers(home)
    answers.answer("POST", "/dbs/bulkblocks", {}, bulk())
    journal = home / "services" / "catalogue.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[: len(whole) // 2])

    second = bulk(f"{DATASET}#2", "/store/mc/f2.root")
    Answers(home).answer("POST", "/dbs/bulkblocks", {}, second)

    assert len(list(Answers(home).answer("GET", "/dbs/files", {"dataset": DATASET}, None))) == 2


@pytest.mark.parametrize("line", ['["block", 1, 2, 3]', '["unheard"]', "[]", "no json"])
def test_a_memory_that_another_version_wrote_is_refused_in_words(home: Path, line: str) -> None:
    Answers(home)
    (home / "services" / "catalogue.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match=r"catalogue.jsonl, line 1 is not as this version .* remove the file"):
        Answers(home)


def test_each_change_costs_what_it_is_worth_however_much_there_is(home: Path) -> None:
    answers, journal = Answers(home), home / "services" / "catalogue.jsonl"
    sizes = []
    for number in range(10, 30):
        answers.answer("POST", "/dbs/bulkblocks", {}, bulk(f"{DATASET}#{number}", f"/store/mc/{number}.root"))
        sizes.append(journal.stat().st_size)
    assert {later - earlier for earlier, later in pairwise(sizes)} == {sizes[0]}


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_dbs_streams_a_row_a_line_when_asked_to(client: httpx.Client, encoding: str) -> None:
    lfns = [f"/store/mc/f{number}.root" for number in range(3)]
    for number, lfn in enumerate(lfns):
        client.post("/dbs/bulkblocks", json=bulk(f"{DATASET}#{number}", lfn))
    headers = {"Accept": "application/ndjson", "Accept-Encoding": encoding}

    answer = client.get("/dbs/files", params={"dataset": DATASET}, headers=headers)
    nothing = client.get("/dbs/files", params={"dataset": "/No/Such-v1/RAW"}, headers=headers)

    assert answer.headers["Content-Type"] == "application/ndjson"
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.headers.get("Content-Encoding", "identity") == encoding
    assert [json.loads(line)["logical_file_name"] for line in answer.text.splitlines()] == lfns
    assert (nothing.status_code, nothing.text) == (200, "")


BULK = "/rucio/replicas/datasets_bulk"


def token(client: httpx.Client) -> dict[str, str]:
    headers = {"X-Rucio-Account": ACCOUNT, "X-Rucio-Username": USER, "X-Rucio-Password": PASSWORD}
    answer = client.get("/rucio/auth/userpass", headers=headers)
    assert (answer.status_code, answer.text) == (200, "")
    return {"X-Rucio-Auth-Token": answer.headers["X-Rucio-Auth-Token"]}


def test_rucio_says_of_each_place_how_much_of_a_block_it_has(client: httpx.Client) -> None:
    client.post("/dbs/bulkblocks", json=bulk())
    block = f"{DATASET}#1"
    asked = {"dids": [{"scope": "cms", "name": name} for name in (block, f"{DATASET}#9")]}

    def places() -> list[tuple[str, str, int, int]]:
        answer = client.post(BULK, json=asked, headers=token(client))
        assert answer.headers["Content-Type"] == "application/x-json-stream"
        rows = [json.loads(line) for line in answer.text.splitlines()]
        assert {row["name"] for row in rows} == {block}
        return [(row["rse"], row["state"], row["available_length"], row["length"]) for row in rows]

    assert places() == [("T2_DE_DESY", "AVAILABLE", 1, 1)]
    client.put("/places", params={"block": block}, json={"T1_US_FNAL_Tape": 1, "T2_CH_CERN": 0})
    assert places() == [("T1_US_FNAL_Tape", "AVAILABLE", 1, 1), ("T2_CH_CERN", "UNAVAILABLE", 0, 1)]


def test_a_dataset_is_a_container_of_its_blocks(client: httpx.Client) -> None:
    client.post("/dbs/bulkblocks", json=bulk())

    answer = client.get(f"/rucio/dids/cms/{quote_plus(DATASET)}/dids", headers=token(client))

    nothing = {"bytes": None, "adler32": None, "md5": None}
    assert [json.loads(line) for line in answer.text.splitlines()] == [
        {"scope": "cms", "name": f"{DATASET}#1", "type": "DATASET", **nothing}
    ]


def test_rucio_wants_a_token_that_is_its_own(client: httpx.Client) -> None:
    nobody = client.post(BULK, json={"dids": []})
    stranger = client.post(BULK, json={"dids": []}, headers={"X-Rucio-Auth-Token": "mine"})

    assert (nobody.status_code, stranger.status_code) == (400, 401)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/dbs/files", None, 400),
        ("POST", "/dbs/bulkblocks", b'{"block": {}}', 400),
        ("POST", "/dbs/bulkblocks", b"[1]", 400),
        ("POST", "/dbs/bulkblocks", b"not json", 400),
        ("PUT", "/dbs/datasets?dataset=/No/Such-v1/RAW&dataset_access_type=GOOD", b"{}", 400),
        ("PUT", "/dbs/files?logical_file_name=/store/mc/f1.root&is_file_valid=2", b"{}", 400),
        ("PUT", "/dbs/blocks?open_for_writing=0", b"{}", 400),
        ("POST", "/dbs/files", b"[]", 404),
        ("PUT", "/reqmgr2/data/request/x", b"[]", 400),
        ("GET", "/reqmgr2/data/request", None, 400),
        ("GET", "/cric/api/cms/site/query/?json&preset=people", None, 400),
        ("GET", "/couchdb/reqmgr_config_cache/none/configFile", None, 404),
        ("POST", "/control/trouble", b'{"kind": "earthquake"}', 400),
        ("POST", "/control/trouble", b'{"kind": "cut", "path": "("}', 400),
        ("GET", "/control/weather", None, 404),
        ("PUT", "/places?block=/No/Such-v1/RAW%231", b'{"T2_DE_DESY_Disk": 1}', 404),
        ("PUT", "/places?block=/No/Such-v1/RAW%231", b'["T2_DE_DESY_Disk"]', 400),
        ("GET", "/nowhere", None, 404),
        ("GET", "/health", None, 200),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_with_a_reason(
    client: httpx.Client, method: str, path: str, body: bytes | None, status: int
) -> None:
    answer = client.request(method, path, content=body)

    assert answer.status_code == status
    told = answer.json()[0] if path.startswith("/dbs") else answer.json()
    assert status == 200 or told["error"]
