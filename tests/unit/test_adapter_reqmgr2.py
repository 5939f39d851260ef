"""The ReqMgr2 adapter against the stand-in, and against servers in trouble."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.stand_in import calls_seen, services
from tests.wire import Call, Reply, cut_after, passed_on, wire
from wms2.adapters.connect import connect_reqmgr2
from wms2.adapters.reqmgr2 import ReqMgr2
from wms2.config import Settings
from wms2.errors import BrokenRequest, NotFound, Unavailable


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with services(tmp_path) as url:
        yield url


@pytest.fixture
async def reqmgr2(url: str, tmp_path: Path) -> AsyncIterator[ReqMgr2]:
    async with connect_reqmgr2(Settings(home=tmp_path, services_url=url)) as reqmgr2:
        yield reqmgr2


def put(url: str, path: str, content: Any) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    httpx.put(f"{url}/{path}", content=body, trust_env=False).raise_for_status()


def create(url: str, name: str, **fields: Any) -> None:
    """A request in the stand-in, which has been acquired."""
    document = {"RequestName": name, "RequestType": "ReReco", "RequestStatus": "acquired", **fields}
    httpx.post(f"{url}/reqmgr2/data/request", json=document, trust_env=False).raise_for_status()


async def test_a_request_is_read_as_it_is(url: str, reqmgr2: ReqMgr2) -> None:
    create(url, "first", Campaign="Test")
    request = await reqmgr2.request("first")
    assert request is not None
    assert (request["RequestName"], request["Campaign"]) == ("first", "Test")
    assert await reqmgr2.request("none") is None


async def test_requests_are_found_by_status_and_backend(url: str, reqmgr2: ReqMgr2) -> None:
    for name, backend in (("c", "wms2"), ("a", "wms2"), ("b", "wmcore")):
        create(url, name, wms_backend=backend)
    create(url, "d", wms_backend="wms2", RequestStatus="assigned")
    create(url, "e")

    async def names(**asked: Any) -> list[str]:
        return [request["RequestName"] for request in await reqmgr2.requests(**asked)]

    assert await names(status="acquired", wms_backend="wms2") == ["a", "c"]
    assert await names(status="acquired") == ["a", "b", "c", "e"]
    assert await names(status="acquired", request_type="StepChain") == []
    assert await names(status="announced", wms_backend="wms2") == []


async def test_of_the_requests_of_others_only_the_backend_is_asked_for() -> None:
    def script(call: Call) -> Reply:
        if "?" in call.path:
            return Reply(content=b'{"result": [{"a": {"wms_backend": "wms2"}, "b": {"wms_backend": null}}]}')
        return Reply(content=b'{"result": [{"a": {"RequestName": "a"}}]}')

    with wire(script) as line:
        async with ReqMgr2(f"{line.url}/reqmgr2") as reqmgr2:
            found = await reqmgr2.requests("acquired", wms_backend="wms2", team="production")
    assert found == [{"RequestName": "a"}]
    assert [call.path for call in line.calls] == [
        "/reqmgr2/data/request?status=acquired&mask=wms_backend&team=production",
        "/reqmgr2/data/request/a",
    ]
    assert {call.headers["Accept"] for call in line.calls} == {"application/json"}


async def test_the_statuses_of_many_requests_are_asked_for_some_at_a_time_and_nothing_else_of_them(
    url: str, reqmgr2: ReqMgr2
) -> None:
    names = [f"request_{number}" for number in range(25)]
    for name in names:
        create(url, name)
    seen = len(calls_seen(url, service="reqmgr2"))
    assert await reqmgr2.statuses([*names, "nobody"]) == dict.fromkeys(names, "acquired")
    assert len(calls_seen(url, service="reqmgr2")) - seen == 2
    assert await reqmgr2.statuses([]) == {}


async def test_a_status_is_reported_once_however_often_it_is_said(url: str, reqmgr2: ReqMgr2) -> None:
    create(url, "first")
    for status in ("running-open", "running-open", "running-closed", "completed", "completed"):
        await reqmgr2.set_status("first", status)
    request = await reqmgr2.request("first")
    assert request is not None
    history = [change["Status"] for change in request["RequestTransition"]]
    assert history == ["acquired", "running-open", "running-closed", "completed"]


async def test_a_status_that_cannot_follow_is_refused_with_the_words_of_reqmgr2(
    url: str, reqmgr2: ReqMgr2
) -> None:
    create(url, "first")
    with pytest.raises(BrokenRequest, match=r"PUT /reqmgr2/data/request/first with 400: .*transition"):
        await reqmgr2.set_status("first", "announced")
    with pytest.raises(NotFound, match="ReqMgr2 has no request none"):
        await reqmgr2.set_status("none", "running-open")


async def test_a_status_that_was_reported_before_the_line_went_dead_is_found_reported(url: str) -> None:
    create(url, "first")
    with wire(cut_after(passed_on(f"{url}/reqmgr2"), 1)) as line:
        async with ReqMgr2(line.url) as reqmgr2:
            with pytest.raises(Unavailable, match="does not answer"):
                await reqmgr2.set_status("first", "running-open")
            await reqmgr2.set_status("first", "running-open")
            request = await reqmgr2.request("first")
    assert request is not None
    assert request["RequestStatus"] == "running-open"


async def test_a_configuration_comes_with_what_may_be_changed_in_it(url: str, reqmgr2: ReqMgr2) -> None:
    tweak = {"process": {"outputModules_": ["RECOoutput"]}}
    put(url, "couchdb/reqmgr_config_cache/abc", {"pset_tweak_details": tweak})
    put(url, "couchdb/reqmgr_config_cache/abc/configFile", b"import FWCore\n")
    config = await reqmgr2.config("abc")
    assert (config.pset, config.tweak) == (b"import FWCore\n", tweak)
    with pytest.raises(NotFound, match=r"the cache of configurations refused GET .*/none with 404"):
        await reqmgr2.config("none")


async def test_configurations_are_beside_reqmgr2_and_names_cannot_lead_elsewhere() -> None:
    with wire(lambda _: Reply(content=b"{}")) as line:
        async with ReqMgr2(f"{line.url}/reqmgr2") as reqmgr2:
            await reqmgr2.config("../../reqmgr2")
    escaped = "/couchdb/reqmgr_config_cache/..%2F..%2Freqmgr2"
    assert [call.path for call in line.calls] == [escaped, f"{escaped}/configFile"]


@pytest.mark.parametrize("content", [b"[]", b"<html>", b'{"result": 1}', b'{"result": ["a"]}'])
async def test_an_answer_of_another_form_is_trouble_that_passes(content: bytes) -> None:
    with wire(lambda _: Reply(content=content)) as line:
        async with ReqMgr2(line.url) as reqmgr2:
            with pytest.raises(Unavailable, match=r"ReqMgr2 at .* answered data/request/a with"):
                await reqmgr2.request("a")
