"""The stand-ins for ReqMgr2, its cache of configurations, and CRIC."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.stand_in import services
from wms2.local.sites import SITES, write_sites

REQUESTS = "/reqmgr2/data/request"
CONFIGS = "/couchdb/reqmgr_config_cache"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    write_sites(tmp_path, SITES)
    with services(tmp_path) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


def made(client: httpx.Client, **fields: Any) -> None:
    assert client.post(REQUESTS, json=fields).status_code == 200


def found(client: httpx.Client, **query: Any) -> list[Any]:
    return list(client.get(REQUESTS, params=query).json()["result"])


def test_a_request_that_is_not_known_is_an_empty_list(client: httpx.Client) -> None:
    answer = client.get(f"{REQUESTS}/nobody")
    assert (answer.status_code, answer.json()) == (200, {"result": []})


def test_requests_are_found_by_what_they_are(client: httpx.Client) -> None:
    made(client, RequestName="a", RequestStatus="assigned", Campaign="C", wms_backend="wms2")
    made(client, RequestName="b", RequestStatus="assigned", Campaign="D")
    made(client, RequestName="c", RequestStatus="staged", Campaign="C")

    (both,) = found(client, status="assigned")
    assert sorted(both) == ["a", "b"]
    assert both["a"]["Campaign"] == "C"
    assert found(client, status="assigned", detail="false") == ["a", "b"]
    assert found(client, status="assigned", mask="wms_backend") == [
        {"a": {"wms_backend": "wms2"}, "b": {"wms_backend": None}}
    ]
    (three,) = found(client, status=["assigned", "staged"])
    assert sorted(three) == ["a", "b", "c"]
    assert found(client, status="staged", campaign="D") == []


def test_a_status_follows_from_the_one_before(client: httpx.Client) -> None:
    made(client, RequestName="a", RequestStatus="acquired")
    path = f"{REQUESTS}/a"
    for status in ("running-open", "running-closed", "completed"):
        assert client.put(path, json={"RequestStatus": status}).json() == {"result": [{"a": "OK"}]}

    for status in ("running-open", "completed"):
        answer = client.put(path, json={"RequestStatus": status})
        assert answer.status_code == 400
        assert answer.headers["X-Error-Detail"].endswith(f"from 'completed' to '{status}'")
    (result,) = client.get(path).json()["result"]
    history = [change["Status"] for change in result["a"]["RequestTransition"]]
    assert history == ["acquired", "running-open", "running-closed", "completed"]


def test_a_request_that_is_not_known_cannot_be_changed_and_one_that_is_cannot_be_made(
    client: httpx.Client,
) -> None:
    made(client, RequestName="a")
    for answer in (
        client.put(f"{REQUESTS}/b", json={"Campaign": "C"}),
        client.post(REQUESTS, json={"RequestName": "a"}),
    ):
        assert answer.status_code == 400
        assert answer.headers["X-Error-Detail"]


def test_a_configuration_is_a_document_and_a_file(client: httpx.Client) -> None:
    assert client.get(f"{CONFIGS}/cafe").status_code == 404
    client.put(f"{CONFIGS}/cafe", json={"pset_tweak_details": {"process": {}}})
    client.put(f"{CONFIGS}/cafe/configFile", content=b"process = cms.Process('RECO')\n")

    assert client.get(f"{CONFIGS}/cafe").json()["pset_tweak_details"] == {"process": {}}
    assert client.get(f"{CONFIGS}/cafe/configFile").content == b"process = cms.Process('RECO')\n"


def rows(client: httpx.Client, preset: str, state: str = "ANY") -> list[dict[str, Any]]:
    query = f"?json&preset={preset}&rcsite_state={state}"
    table = client.get(f"/cric/api/cms/site/query/{query}").json()
    return [dict(zip(table["desc"]["columns"], row, strict=True)) for row in table["result"]]


def test_cric_names_the_sites_of_the_stack_and_their_storage(client: httpx.Client) -> None:
    names = rows(client, "site-names")
    assert sorted(row["alias"] for row in names if row["type"] == "psn") == sorted(SITES)
    assert {"T1_US_FNAL_Disk", "T1_US_FNAL_Tape", "T2_DE_DESY"} < {
        row["alias"] for row in names if row["type"] == "phedex"
    }
    pairs = {(row["psn_name"], row["phedex_name"]) for row in rows(client, "data-processing")}
    assert {("T1_US_FNAL", "T1_US_FNAL_Disk"), ("T2_DE_DESY", "T2_DE_DESY")} < pairs
    assert ("T1_US_FNAL", "T1_US_FNAL_Tape") not in pairs


def test_storage_may_serve_several_sites_and_sites_vanish_and_return(client: httpx.Client) -> None:
    def said(site: str) -> list[str]:
        return [row["phedex_name"] for row in rows(client, "data-processing") if row["psn_name"] == site]

    client.put("/control/cric/T2_CH_CERN", json={"rses": ["T2_CH_CERN", "T2_DE_DESY"], "slots": 100})
    client.put("/control/cric/T2_DE_DESY", json={"state": "DISABLED"})
    client.put("/control/cric/T2_US_Purdue", content=b"null")

    assert (said("T2_CH_CERN"), said("T2_DE_DESY")) == (["T2_CH_CERN", "T2_DE_DESY"], ["T2_DE_DESY"])
    assert said("T2_US_Purdue") == []
    active = {
        row["site_name"]: row["slots"] for row in rows(client, "site-names", "ACTIVE") if row["type"] == "psn"
    }
    assert active == {"T1_US_FNAL": None, "T2_CH_CERN": 100}
    client.put("/control/cric/T2_US_Purdue", json={})
    assert said("T2_US_Purdue") == ["T2_US_Purdue"]
