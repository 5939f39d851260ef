"""The CRIC adapter against the stand-in, and against answers of its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.stand_in import services
from tests.wire import Call, Reply, Script, wire
from wms2.adapters.connect import connect_cric
from wms2.adapters.cric import Cric
from wms2.config import Settings
from wms2.errors import Unavailable
from wms2.models.site import CricSite

NAMES = [
    ["psn", "FNAL", "T1_US_FNAL"],
    ["phedex", "FNAL", "T1_US_FNAL_Disk"],
    ["psn", "DESY", "T2_DE_DESY"],
    ["psn", "DESY", "T2_DE_DESY_Cloud"],
    ["cms", "Odd", "T2_XX_Odd"],
    ["psn", "Odd", "T2_XX_Odd; rm"],
]
PROCESSING = [
    ["T1_US_FNAL_Disk", "T1_US_FNAL", "FNAL"],
    ["T2_DE_DESY", "T2_DE_DESY", "DESY"],
    ["T2_DE_DESY", "T2_DE_DESY_Cloud", "DESY"],
    ["T2_DE_DESY_Test", "T2_DE_DESY", "DESY"],
]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with services(tmp_path) as url:
        yield url


def cric(names: list[list[str]], *asleep: str, processing: list[list[str]] = PROCESSING) -> Script:
    """A CRIC with these sites, some of them not active."""

    def table(columns: list[str], rows: list[list[str]]) -> Reply:
        return Reply(content=json.dumps({"desc": {"columns": columns}, "result": rows}).encode())

    def script(call: Call) -> Reply:
        assert urlsplit(call.path).path == "/api/cms/site/query/"
        query = parse_qs(urlsplit(call.path).query, keep_blank_values=True)
        assert "json" in query
        if query["preset"] == ["data-processing"]:
            return table(["phedex_name", "psn_name", "site_name"], processing)
        is_any = query["rcsite_state"] == ["ANY"]
        return table(["type", "site_name", "alias"], [row for row in names if is_any or row[2] not in asleep])

    return script


async def test_sites_and_storage_are_many_to_many() -> None:
    with wire(cric(NAMES, "T2_DE_DESY_Cloud")) as line:
        async with Cric(line.url) as adapter:
            sites = await adapter.sites()
    assert sites == [
        CricSite("T1_US_FNAL", ("T1_US_FNAL_Disk",), "ACTIVE", 1),
        CricSite("T2_DE_DESY", ("T2_DE_DESY", "T2_DE_DESY_Test"), "ACTIVE", 2),
        CricSite("T2_DE_DESY_Cloud", ("T2_DE_DESY",), "INACTIVE", 2),
    ]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (cric([]), "lists no sites"),
        (cric(NAMES, *(name for _, _, name in NAMES)), "lists no active sites"),
        (cric(NAMES, processing=[]), "lists no storage"),
    ],
)
async def test_a_cric_without_sites_is_not_believed(script: Script, said: str) -> None:
    with wire(script) as line:
        async with Cric(line.url) as adapter:
            with pytest.raises(Unavailable, match=said):
                await adapter.sites()


@pytest.mark.parametrize(
    "content", [{}, [], {"desc": {}, "result": []}, {"desc": {"columns": []}, "result": {}}]
)
async def test_an_answer_of_another_form_is_trouble_that_passes(content: Any) -> None:
    with wire(lambda _: Reply(content=json.dumps(content).encode())) as line:
        async with Cric(line.url) as adapter:
            with pytest.raises(Unavailable, match="what it should not have"):
                await adapter.sites()


async def test_without_settings_it_is_the_stand_in_of_the_stack(url: str, tmp_path: Path) -> None:
    async with connect_cric(Settings(home=tmp_path, services_url=url)) as adapter:
        sites = {site.name: site for site in await adapter.sites()}
    assert sites["T1_US_FNAL"].rses == ("T1_US_FNAL_Disk",)
    assert (sites["T2_DE_DESY"].state, sites["T2_DE_DESY"].tier) == ("ACTIVE", 2)
