"""The stand-in for DBS: what it makes of a block, and how it names what it does not take."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.stand_in import bulk_block, services

PARENT, DATASET = "/Prim/Era-proc-v1/RAW", "/Prim/Era-proc-v1/GEN-SIM"
LFNS = [f"/store/mc/Era/Prim/GEN-SIM/proc-v1/000000/{number}.root" for number in range(3)]


@pytest.fixture
def dbs(tmp_path: Path) -> Iterator[httpx.Client]:
    with services(tmp_path) as url, httpx.Client(base_url=f"{url}/dbs/", trust_env=False) as client:
        yield client


def refused(dbs: httpx.Client, block: dict[str, Any]) -> tuple[int, int]:
    answer = dbs.post("bulkblocks", json=block)
    return answer.status_code, answer.json()[0]["error"]["code"]


def listed(dbs: httpx.Client, call: str, **query: str) -> list[dict[str, Any]]:
    answer = dbs.get(call, params=query)
    assert answer.status_code == 200
    return list(answer.json())


def inserted(dbs: httpx.Client, *blocks: dict[str, Any]) -> None:
    for block in blocks:
        assert dbs.post("bulkblocks", json=block).json() == []


def test_files_and_bytes_of_a_block_are_counted_whatever_was_said(dbs: httpx.Client) -> None:
    block = bulk_block(DATASET, 1, LFNS)
    block["block"] |= {"file_count": 99, "block_size": 1}
    inserted(dbs, block)

    (row,) = listed(dbs, "blocks", block_name=f"{DATASET}#1", detail="1")
    assert (row["file_count"], row["block_size"]) == (3, 300)


def test_a_file_that_is_silent_is_invalid_as_soon_as_the_validity_of_one_is_said(dbs: httpx.Client) -> None:
    silent, half = bulk_block(DATASET, 1, LFNS[:1]), bulk_block(DATASET, 2, LFNS[1:])
    half["files"][0]["is_file_valid"] = 1
    inserted(dbs, silent, half)

    rows = listed(dbs, "files", dataset=DATASET, detail="1")
    assert [row["is_file_valid"] for row in rows] == [1, 1, 0]


def test_files_of_a_dataset_that_was_withdrawn_are_not_valid(dbs: httpx.Client) -> None:
    inserted(dbs, bulk_block(DATASET, 1, LFNS))
    assert len(listed(dbs, "files", dataset=DATASET, validFileOnly="1")) == 3

    dbs.put("datasets", params={"dataset": DATASET, "dataset_access_type": "INVALID"}, json={})

    assert listed(dbs, "files", dataset=DATASET, validFileOnly="1") == []
    assert len(listed(dbs, "files", dataset=DATASET)) == 3


def test_files_become_invalid_unless_it_is_said_that_they_are_valid(dbs: httpx.Client) -> None:
    inserted(dbs, bulk_block(DATASET, 1, LFNS))

    assert dbs.put("files", params={"logical_file_name": LFNS[0]}, json={}).json() == []
    assert len(listed(dbs, "files", dataset=DATASET, validFileOnly="1")) == 2
    dbs.put("files", params={"logical_file_name": LFNS[0], "is_file_valid": "1"}, json={})
    assert len(listed(dbs, "files", dataset=DATASET, validFileOnly="1")) == 3


@pytest.mark.parametrize(
    ("call", "query"),
    [
        ("datasets", {"dataset": "/No/Such-v1/RAW", "dataset_access_type": "VALID"}),
        ("files", {"logical_file_name": "/store/none.root", "is_file_valid": "0"}),
        ("blocks", {"block_name": "/No/Such-v1/RAW#1", "open_for_writing": "0"}),
    ],
)
def test_a_change_of_what_is_not_there_is_granted(
    dbs: httpx.Client, call: str, query: dict[str, str]
) -> None:
    answer = dbs.put(call, params=query, json={})
    assert (answer.status_code, answer.json()) == (200, [])


def test_parents_are_known_by_file_block_and_dataset(dbs: httpx.Client) -> None:
    parents = bulk_block(PARENT, 1, ["/store/data/Era/Prim/RAW/proc-v1/000/p.root"])
    others = bulk_block(PARENT, 2, ["/store/data/Era/Prim/RAW/proc-v1/000/q.root"])
    child = bulk_block(DATASET, 1, LFNS[:1])
    parent = parents["files"][0]["logical_file_name"]
    child["file_parent_list"] = [{"this_logical_file_name": LFNS[0], "parent_logical_file_name": parent}]
    child["block_parent_list"] = [{"parent_block": f"{PARENT}#2"}]
    child["ds_parent_list"] = [{"parent_dataset": PARENT}]
    assert refused(dbs, child) == (400, 101)
    inserted(dbs, parents, others, child)

    (file,) = listed(dbs, "fileparents", logical_file_name=LFNS[0])
    assert file["parent_logical_file_name"] == parent
    blocks = listed(dbs, "blockparents", block_name=f"{DATASET}#1")
    assert [row["parent_block_name"] for row in blocks] == [f"{PARENT}#1", f"{PARENT}#2"]
    (dataset,) = listed(dbs, "datasetparents", dataset=DATASET)
    assert dataset["parent_dataset"] == PARENT


@pytest.mark.parametrize(
    ("section", "changes", "code"),
    [
        ("dataset", {"dataset": "/Prim/no tier"}, 114),
        ("dataset", {"dataset_access_type": "GOOD"}, 139),
        ("block", {"block_name": f"{DATASET}/1"}, 114),
        ("block", {"block_name": "/Prim/Era-other-v1/GEN-SIM#1"}, 110),
        ("block", {"creation_date": 17}, 114),
        ("primds", {"primary_ds_type": "guess"}, 114),
        ("primds", {"primary_ds_name": "1st"}, 114),
        ("acquisition_era", {"acquisition_era_name": "E-ra"}, 114),
    ],
)
def test_names_that_dbs_does_not_take_are_refused(
    dbs: httpx.Client, section: str, changes: dict[str, Any], code: int
) -> None:
    block = bulk_block(DATASET, 1, LFNS)
    block[section] |= changes
    assert refused(dbs, block) == (400, code)


def test_a_release_that_is_none_is_refused(dbs: httpx.Client) -> None:
    block = bulk_block(DATASET, 1, LFNS)
    block["dataset_conf_list"][0]["release_version"] = "latest"
    assert refused(dbs, block) == (400, 114)


def test_a_file_in_a_second_block_is_what_dbs_calls_a_concurrency_error(dbs: httpx.Client) -> None:
    inserted(dbs, bulk_block(DATASET, 1, LFNS))

    answer = dbs.post("bulkblocks", json=bulk_block(DATASET, 2, LFNS[2:])).json()[0]["error"]

    assert answer["code"] == 110
    assert "concurrency error" in answer["reason"]


def test_a_block_of_too_many_lumi_sections_is_refused(dbs: httpx.Client) -> None:
    block = bulk_block(DATASET, 1, LFNS[:1])
    block["files"][0]["file_lumi_list"] = [{"run_num": 1, "lumi_section_num": n} for n in range(100_001)]
    assert refused(dbs, block) == (400, 110)


def test_a_lumi_section_without_events_has_none(dbs: httpx.Client) -> None:
    block = bulk_block(DATASET, 1, LFNS[:1])
    block["files"][0]["file_lumi_list"] = [{"run_num": 1, "lumi_section_num": 7}]
    inserted(dbs, block)

    (row,) = listed(dbs, "filelumis", block_name=f"{DATASET}#1")
    assert (row["lumi_section_num"], row["event_count"]) == (7, None)


@pytest.mark.parametrize(
    ("call", "query"),
    [
        ("datasets", {"dataset": DATASET, "is_dataset_valid": "1"}),
        ("files", {"dataset": DATASET, "lfn": "x"}),
        ("files", {"dataset": DATASET, "run_num": "1"}),
        ("filelumis", {"dataset": DATASET}),
        ("filelumis", {"block_name": f"{DATASET}#1", "run_num": "first"}),
        ("runs", {}),
    ],
)
def test_what_it_cannot_look_for_is_refused_and_not_passed_over(
    dbs: httpx.Client, call: str, query: dict[str, str]
) -> None:
    inserted(dbs, bulk_block(DATASET, 1, LFNS))
    answer = dbs.get(call, params=query)
    assert (answer.status_code, answer.json()[0]["error"]["code"]) == (400, 118)


@pytest.mark.parametrize(
    ("call", "query", "found"),
    [
        ("datasets", {"data_tier_name": "GEN*"}, 1),
        ("datasets", {"data_tier_name": "RAW"}, 0),
        ("datasets", {"min_cdate": "1600000000", "max_cdate": "1800000000"}, 1),
        ("datasets", {"max_cdate": "1600000000"}, 0),
        ("datasets", {"release_version": "CMSSW_13_0_0"}, 0),
        ("datasets", {"logical_file_name": LFNS[2]}, 1),
        ("datasets", {"run_num": "2-5"}, 0),
        ("blocks", {"block_name": f"{DATASET}#*"}, 2),
        ("blocks", {"dataset": DATASET, "origin_site_name": "T2_CH_CERN"}, 1),
        ("blocks", {"data_tier_name": "GEN-SIM", "open_for_writing": "1"}, 0),
        ("blocks", {"dataset": DATASET, "run_num": "1"}, 2),
        ("files", {"dataset": DATASET, "logical_file_name": "*/2.root"}, 1),
        ("files", {"dataset": DATASET, "origin_site_name": "T2_DE_DESY"}, 1),
        ("files", {"dataset": DATASET, "run_num": "1", "lumi_list": "[3]"}, 0),
        ("files", {"dataset": DATASET, "run_num": "1", "lumi_list": "[[2, 9]]"}, 3),
        ("filelumis", {"block_name": f"{DATASET}#2", "run_num": "1"}, 4),
        ("filelumis", {"block_name": f"{DATASET}#2", "run_num": "['2-5', 7]"}, 0),
    ],
)
def test_lists_hold_what_was_asked_for_and_nothing_else(
    dbs: httpx.Client, call: str, query: dict[str, str], found: int
) -> None:
    inserted(dbs, bulk_block(DATASET, 1, LFNS[:1]), bulk_block(DATASET, 2, LFNS[1:], site="T2_CH_CERN"))
    dbs.put("datasets", params={"dataset": DATASET, "dataset_access_type": "VALID"}, json={})
    assert len(listed(dbs, call, **query)) == found
