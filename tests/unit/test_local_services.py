"""The stand-ins for the services of CMS."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.stand_in import services
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

    assert client.get("/dbs/datasets", params={"dataset": "/Prim/*/GEN-SIM"}).json() == [{"dataset": DATASET}]
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


def test_a_new_dataset_is_in_production_until_it_is_announced(client: httpx.Client) -> None:
    client.post("/dbs/bulkblocks", json=bulk())

    def found(access: str) -> int:
        query = {"dataset": DATASET, "dataset_access_type": access}
        return len(client.get("/dbs/datasets", params=query).json())

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

    assert Answers(home).answer("GET", "/dbs/files", {"dataset": DATASET}, None) == [
        {"logical_file_name": "/store/mc/f1.root"}
    ]


def test_a_request_is_put_changed_and_read(client: httpx.Client) -> None:
    path = "/reqmgr2/data/request/me_demo_1"
    assert client.get(path).status_code == 404

    client.put(path, json={"RequestStatus": "assigned", "Campaign": "C"})
    client.put(path, json={"RequestStatus": "running-open"})

    (result,) = client.get(path).json()["result"]
    assert result == {
        "me_demo_1": {"RequestName": "me_demo_1", "RequestStatus": "running-open", "Campaign": "C"}
    }


def test_cric_knows_the_sites_of_the_stack(client: httpx.Client) -> None:
    sites = client.get("/cric/api/cms/site/query/?json").json()

    assert sorted(sites) == sorted(SITES)
    assert sites["T1_US_FNAL"]["tier_level"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/dbs/files", None, 400),
        ("POST", "/dbs/bulkblocks", b'{"block": {}}', 400),
        ("POST", "/dbs/bulkblocks", b"[1]", 400),
        ("POST", "/dbs/bulkblocks", b"not json", 400),
        ("PUT", "/dbs/datasets?dataset=/No/Such-v1/RAW&dataset_access_type=VALID", b"{}", 400),
        ("PUT", "/dbs/datasets?dataset=/No/Such-v1/RAW&dataset_access_type=GOOD", b"{}", 400),
        ("PUT", "/reqmgr2/data/request/x", b"[]", 400),
        ("GET", "/rucio/rules", None, 501),
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
