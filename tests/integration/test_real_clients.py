"""The stand-ins serve the clients that the experiment itself uses, in all that WMS2 asks of DBS and Rucio."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.clients import LOCKS, client_python, run_client
from tests.patience import POOL_LIMIT_SEC
from tests.stand_in import bulk_block, services
from wms2.local.rucio import ACCOUNT, PASSWORD, USER
from wms2.local.sites import SITES, write_sites

# The first test that needs a client makes its environment, which takes up to a minute.
pytestmark = [pytest.mark.timeout(POOL_LIMIT_SEC), pytest.mark.xdist_group("real_clients")]

PARENT, DATASET = "/Prim/Era-proc-v1/RAW", "/Prim/Era-proc-v1/GEN-SIM"


@pytest.fixture(scope="module")
def dbs_said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("dbs")
    parent = bulk_block(PARENT, 1, ["/store/data/Era/Prim/RAW/proc-v1/000/p.root"])
    child = bulk_block(
        DATASET, 1, [f"/store/mc/Era/Prim/GEN-SIM/proc-v1/000000/{number}.root" for number in range(3)]
    )
    origin = parent["files"][0]["logical_file_name"]
    child["file_parent_list"] = [
        {"logical_file_name": file["logical_file_name"], "parent_logical_file_name": origin}
        for file in child["files"]
    ]
    child["dataset_parent_list"] = [PARENT]
    bulk = folder / "bulk.json"
    bulk.write_text(json.dumps([parent, child]), encoding="utf-8")
    # It wants them even where nothing is encrypted.
    for name in ("cert.pem", "key.pem"):
        (folder / name).touch()
    needs = {
        "X509_USER_CERT": str(folder / "cert.pem"),
        "X509_USER_KEY": str(folder / "key.pem"),
        "X509_CERT_DIR": str(folder),
        "USER": "wms2",
    }
    with services(folder) as url:
        run_client(
            [str(client_python("dbs3-client")), str(LOCKS / "use_dbs.py"), f"{url}/dbs", str(bulk)], needs
        )
    said: dict[str, Any] = json.loads(bulk.with_suffix(".said").read_text(encoding="utf-8"))
    return said


@pytest.fixture(scope="module")
def rucio_said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("rucio")
    write_sites(folder, SITES)
    (folder / "etc").mkdir()
    (folder / "etc" / "rucio.cfg").write_text("[client]\nauth_type = userpass\n", encoding="utf-8")
    said_file = folder / "said.json"
    program = [str(client_python("rucio-clients")), str(LOCKS / "use_rucio.py")]
    with services(folder) as url:
        needs = {"RUCIO_HOME": str(folder), "HOME": str(folder), "RUCIO_CLIENT_MODE": "True"}
        run_client([*program, f"{url}/rucio", ACCOUNT, USER, PASSWORD, str(said_file)], needs)
    said: dict[str, Any] = json.loads(said_file.read_text(encoding="utf-8"))
    return said


def test_dbs_client_inserts_blocks_once_and_parents_first(dbs_said: dict[str, Any]) -> None:
    assert dbs_said["orphan"] == [400, 101]
    assert dbs_said["inserted"] == [[], []]
    assert dbs_said["again"] == [400, 200]
    assert dbs_said["nameless"] == [400, 114]


def test_dbs_client_sees_datasets_and_changes_their_access(dbs_said: dict[str, Any]) -> None:
    assert dbs_said["valid at first"] == []
    (row,) = dbs_said["in production"]
    assert (row["primary_ds_name"], row["data_tier_name"], row["processing_version"]) == (
        "Prim",
        "GEN-SIM",
        1,
    )
    assert dbs_said["valid"] == [{"dataset": DATASET}]
    assert dbs_said["withdrawn"] == []
    assert dbs_said["no access type"] == [400, 109]


def test_dbs_client_finds_datasets_by_what_they_are(dbs_said: dict[str, Any]) -> None:
    assert dbs_said["by tier"] == dbs_said["of a parent"] == [{"dataset": DATASET}]
    assert dbs_said["of another tier"] == []
    assert dbs_said["made with"] == [{"dataset": DATASET}, {"dataset": PARENT}]
    assert [row["dataset_access_type"] for row in dbs_said["some datasets"]] == ["VALID"]


def test_dbs_client_sees_blocks_files_and_lumis(dbs_said: dict[str, Any]) -> None:
    (block,) = dbs_said["blocks"]
    assert (block["file_count"], block["block_size"], block["open_for_writing"]) == (3, 300, 0)
    assert dbs_said["block of a file"] == [{"block_name": f"{DATASET}#1"}]
    assert dbs_said["block summaries"] == [{"num_file": 3, "file_size": 300, "num_event": 30}]
    assert [row["origin_site_name"] for row in dbs_said["origin"]] == ["T2_DE_DESY"]
    assert len(dbs_said["files"]) == len(dbs_said["streamed"]) == len(dbs_said["some files"]) == 3
    assert {(row["adler32"], row["is_file_valid"]) for row in dbs_said["files"]} == {("0a1b2c3d", 1)}
    assert [row["lumi_section_num"] for row in dbs_said["lumis"]] == [[1, 2]] * 3
    assert dbs_said["lumis of files"] == dbs_said["lumis"]
    assert dbs_said["blocks like that"] == [{"block_name": f"{DATASET}#1"}]
    assert dbs_said["lumis of no run"] == []
    assert len(dbs_said["files of lumis"]) == 3
    assert dbs_said["of run 1"] == [400, 118]
    assert (dbs_said["runs"], dbs_said["last lumi"]) == ([{"run_num": [1]}], [{"max_lumi": 2}])
    assert (dbs_said["of no run"][0]["num_file"], dbs_said["of no run"][0]["num_lumi"]) == (0, 0)
    (summary,) = dbs_said["file summaries"]
    assert summary == {"num_file": 3, "num_event": 30, "file_size": 300, "num_block": 1, "num_lumi": 2}


def test_dbs_client_sees_parents_configurations_and_eras(dbs_said: dict[str, Any]) -> None:
    assert len(dbs_said["parents of files"]) == 3
    parents = [{"this_block_name": f"{DATASET}#1", "parent_block_name": f"{PARENT}#1"}]
    assert dbs_said["parents of the block"] == dbs_said["parents of blocks"] == parents
    assert [row["parent_dataset"] for row in dbs_said["parents of the dataset"]] == [PARENT]
    assert [row["child_dataset"] for row in dbs_said["children"]] == [DATASET]
    assert [row["release_version"] for row in dbs_said["configurations"]] == ["CMSSW_14_0_0"]
    assert [row["acquisition_era_name"] for row in dbs_said["eras"]] == ["Era"]
    assert dbs_said["children of the block"] == [{"block_name": f"{DATASET}#1"}]
    assert len(dbs_said["children of files"]) == 3
    assert dbs_said["shared"] == [
        "Prim",
        ["GEN-SIM", "RAW"],
        1,
        [{"release_version": "CMSSW_14_0_0"}],
        [{"physics_group_name": "NoGroup"}],
        [{"dataset_access_type": ["VALID"]}],
    ]


def test_dbs_client_takes_a_block_as_it_gave_it(dbs_said: dict[str, Any], tmp_path: Path) -> None:
    """What blockDump says of a block, another DBS inserts, and says the same of it."""
    dump = dbs_said["dump"]
    assert [file["adler32"] for file in dump["files"]] == ["0a1b2c3d"] * 3
    assert len(dump["file_parent_list"]) == len(dump["file_conf_list"]) == 3
    with services(tmp_path) as url, httpx.Client(base_url=f"{url}/dbs/", trust_env=False) as other:
        parent = bulk_block(PARENT, 1, [dump["file_parent_list"][0]["parent_logical_file_name"]])
        for block in (parent, dump):
            assert other.post("bulkblocks", json=block).json() == []
        again = other.get("blockdump", params={"block_name": f"{DATASET}#1"}).json()
    assert again == {**dump, "dataset": {**dump["dataset"], "dataset_id": 2}}


def test_dbs_client_changes_files_and_blocks(dbs_said: dict[str, Any]) -> None:
    assert len(dbs_said["still valid"]) == 2
    assert dbs_said["none valid"] == []
    assert (dbs_said["is open"], dbs_said["is closed"]) == (1, 0)


def test_rucio_client_makes_datasets_and_replicas_once(rucio_said: dict[str, Any]) -> None:
    assert (rucio_said["ping"], rucio_said["whoami"]) == ("41.5.1", ACCOUNT)
    assert rucio_said["made"] == [True, True]
    assert rucio_said["made again"] == "DataIdentifierAlreadyExists"
    assert rucio_said["attached again"] == "DuplicateContent"
    assert rucio_said["replicas"] == [True, True]
    assert rucio_said["no RSE"] == "RSENotFound"
    assert rucio_said["files again"] == "FileAlreadyExists"
    assert rucio_said["in bulk"] is True
    assert rucio_said["content"] == [f"{DATASET}#1"]
    assert len(rucio_said["listed"]) == 2
    assert (rucio_said["block"]["length"], rucio_said["metadata"]) == (2, "DATASET")


def test_rucio_client_makes_rules_and_follows_them(rucio_said: dict[str, Any]) -> None:
    assert rucio_said["rule again"] == "DuplicateRule"
    assert rucio_said["bad expression"] == "InvalidRSEExpression"
    assert rucio_said["no quota"] == [True, "InsufficientAccountLimit"]
    assert (rucio_said["source"], rucio_said["copy"]) == (["OK", 2, 0, 0], ["REPLICATING", 0, 2, 0])
    assert rucio_said["rules"] == ["T1_US_FNAL_Disk", "T2_DE_DESY"]
    assert rucio_said["all rules"] == 2
    half = {"T1_US_FNAL_Disk": "AVAILABLE", "T2_DE_DESY": "COPYING"}
    assert list(rucio_said["states"].values()) == [half, half]
    assert rucio_said["copied"] == ["OK", 2, 0, 0]
    assert rucio_said["where"] == [["T1_US_FNAL_Disk", "AVAILABLE"], ["T2_DE_DESY", "AVAILABLE"]]
    assert rucio_said["where in bulk"] == ["T1_US_FNAL_Disk", "T2_DE_DESY"]


def test_rucio_client_closes_keeps_and_deletes(rucio_said: dict[str, Any]) -> None:
    assert (
        rucio_said["closed again"] == rucio_said["too late"] == rucio_said["kept"] == "UnsupportedOperation"
    )
    assert (rucio_said["deleted"], rucio_said["expires"]) == (True, True)
    assert rucio_said["no rule"] == "RuleNotFound"
    assert rucio_said["nobody"] == "DataIdentifierNotFound"
    assert rucio_said["detached"] is True
    assert rucio_said["empty"] == []


def test_rucio_client_finds_storage_by_expression(rucio_said: dict[str, Any]) -> None:
    assert rucio_said["rses"] == ["T1_US_FNAL_Disk", "T1_US_FNAL_Tape"]
    assert rucio_said["no rses"] == "InvalidRSEExpression"
    assert rucio_said["limits"] == 10
    assert rucio_said["bad"] == {}


def test_rucio_client_sees_what_is_there_and_what_holds_it(rucio_said: dict[str, Any]) -> None:
    assert (rucio_said["full"], len(rucio_said["its files"])) == (True, 1)
    assert rucio_said["found"] == [f"{DATASET}#1", f"{DATASET}#2"]
    assert rucio_said["found at length"] == ["CONTAINER"]
    assert rucio_said["of many"] == rucio_said["parents"] == [f"{DATASET}#1"]
    assert rucio_said["holds a file"] == ["T1_US_FNAL_Disk", "T2_DE_DESY"]
    assert rucio_said["holds the block"] == [["T1_US_FNAL_Disk", "OK"], ["T2_DE_DESY", "OK"]]
    assert (rucio_said["of the account"], rucio_said["use"], rucio_said["accounts"]) == (2, [2], True)
    assert rucio_said["scopes"] == ["cms"]
    assert rucio_said["deep"] == rucio_said["storage"] == ["T1_US_FNAL_Disk"]
    assert rucio_said["protocols"] == ["davs"]
