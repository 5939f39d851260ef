"""Trouble on demand with the stand-in services."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.patience import PATIENCE_SEC
from tests.rucio_calls import BLOCK, DISK, did, log_in, path_of, rule
from tests.stand_in import bulk_block, calls_seen, make_trouble, services
from wms2.local.rucio import ACCOUNT, PASSWORD, USER
from wms2.local.sites import SITES, write_sites

DATASET = "/Prim/Era-proc-v1/GEN-SIM"
LFNS = [f"/store/mc/Era/Prim/GEN-SIM/proc-v1/000000/{number}.root" for number in range(3)]
BLOCKS = f"/dbs/blocks?dataset={DATASET}"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    write_sites(tmp_path, SITES)
    with (
        services(tmp_path) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_SEC) as client,
    ):
        log_in(_rucio(client), ACCOUNT, USER, PASSWORD)
        yield client


class _rucio:
    """The same client, below /rucio."""

    def __init__(self, client: httpx.Client) -> None:
        self.headers = client.headers
        self._client = client

    def get(self, path: str, **parts: Any) -> httpx.Response:
        return self._client.get(f"/rucio/{path}", **parts)


def trouble(client: httpx.Client, kind: str, **which: Any) -> None:
    make_trouble(str(client.base_url).rstrip("/"), kind, **which)


def insert(client: httpx.Client, number: int = 1) -> httpx.Response:
    return client.post("/dbs/bulkblocks", json=bulk_block(DATASET, number, LFNS[number : number + 1]))


def test_a_status_is_answered_so_often_to_those_calls_only(client: httpx.Client) -> None:
    trouble(client, "status", service="dbs", method="GET", path="blocks", times=2, status=429, retry_after=3)

    first, other, second, third = (
        client.get(BLOCKS),
        client.get("/dbs/datasets"),
        client.get(BLOCKS),
        client.get(BLOCKS),
    )

    assert [answer.status_code for answer in (first, other, second, third)] == [429, 200, 429, 200]
    assert first.headers["Retry-After"] == "3"


def test_trouble_may_come_after_some_calls_and_be_forgotten(client: httpx.Client) -> None:
    trouble(client, "status", path="datasets", after=1, times=5)

    statuses = [client.get("/dbs/datasets").status_code for _ in range(3)]
    assert statuses == [200, 503, 503]
    (left,) = client.get("/control/trouble").json()
    assert left["times"] == 3
    client.delete("/control/trouble")
    assert client.get("/dbs/datasets").status_code == 200


@pytest.mark.parametrize(("kind", "is_done"), [("cut", False), ("cut_after", True)])
def test_a_connection_is_cut_before_or_after_it_was_done(
    client: httpx.Client, kind: str, is_done: bool
) -> None:
    trouble(client, kind, service="dbs", path="bulkblocks")

    with pytest.raises(httpx.RemoteProtocolError):
        insert(client)

    assert bool(client.get(BLOCKS).json()) is is_done
    assert insert(client).status_code == (400 if is_done else 200)


@pytest.mark.parametrize("accept", ["application/json", "application/ndjson"])
def test_a_connection_is_cut_in_the_middle_of_an_answer(client: httpx.Client, accept: str) -> None:
    insert(client)
    trouble(client, "cut_body", path="blocks")

    with pytest.raises(httpx.RemoteProtocolError):
        client.get(BLOCKS, headers={"Accept": accept})

    assert len(client.get(BLOCKS, headers={"Accept": accept}).text.splitlines()) == 1


def test_silence_lasts_longer_than_the_caller_waits(client: httpx.Client) -> None:
    trouble(client, "silence", service="dbs", seconds=60)

    with pytest.raises(httpx.ReadTimeout):
        client.get(BLOCKS, timeout=0.2)

    assert client.get(BLOCKS).status_code == 200


def test_a_slow_answer_arrives_whole(client: httpx.Client) -> None:
    insert(client)
    trouble(client, "slow", path="blocks", seconds=0.5)

    slow = client.get(BLOCKS)

    assert slow.elapsed.total_seconds() >= 0.4
    assert slow.json() == client.get(BLOCKS).json()


def test_somebody_else_was_faster(client: httpx.Client) -> None:
    trouble(client, "exists", path="bulkblocks")
    trouble(client, "exists", service="rucio", path="rules")
    client.post(f"/rucio/{path_of(BLOCK)}", json={"type": "DATASET"})

    block = insert(client)
    ruled = client.post("/rucio/rules/", json={**rule(BLOCK, DISK), "account": ACCOUNT})

    assert block.json()[0]["error"]["code"] == 200
    assert len(client.get(BLOCKS).json()) == 1
    assert (ruled.status_code, ruled.headers["ExceptionClass"]) == (409, "DuplicateRule")
    assert len(client.get(f"/rucio/{path_of(BLOCK, '/rules')}").text.splitlines()) == 1


def test_a_token_expires_in_the_middle_of_the_work(client: httpx.Client) -> None:
    trouble(client, "token", service="rucio", path="replicas")

    expired = client.post("/rucio/replicas/list", json={"dids": [did(BLOCK)]})
    log_in(_rucio(client), ACCOUNT, USER, PASSWORD)

    assert (expired.status_code, expired.headers["ExceptionClass"]) == (401, "CannotAuthenticate")
    assert client.post("/rucio/replicas/list", json={"dids": [did(BLOCK)]}).status_code == 200


def test_every_call_is_written_down_with_what_it_got(client: httpx.Client) -> None:
    client.delete("/control/calls")
    trouble(client, "cut", path="bulkblocks")
    with pytest.raises(httpx.RemoteProtocolError):
        insert(client)
    insert(client)
    insert(client)
    client.get(BLOCKS)

    seen = calls_seen(str(client.base_url).rstrip("/"), service="dbs", method="POST")

    assert [(call["status"], call["trouble"]) for call in seen] == [(None, "cut"), (200, None), (400, None)]
    assert len(client.get("/control/calls", params={"path": "dataset=/Prim"}).json()) == 1
