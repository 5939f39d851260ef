"""A Temporal that lets in only whom it knows: by certificate, or by API key."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from temporalio.testing import WorkflowEnvironment

from tests.workflows.servers import real_server
from tests.workflows.tls_proxy import SERVER_NAME, Authority, guarded
from wms2.config import Settings
from wms2.errors import UserError
from wms2.temporal import client as client_module
from wms2.temporal.client import connect, tls_config

API_KEY = "wms2-secret-api-key"


@pytest.fixture
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with await real_server() as started:
        yield started


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not let in hears nothing for as long as a client waits."""
    monkeypatch.setattr(client_module, "CONNECT_TIMEOUT", client_module.CONNECT_TIMEOUT / 2)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def settings(authority: Authority, address: str, **more: Any) -> Settings:
    ours = {"temporal_tls_ca": authority.path, "temporal_server_name": SERVER_NAME}
    return Settings(temporal_address=address, **(ours | more))


async def test_who_has_the_certificate_is_let_in_and_nobody_else(
    server: WorkflowEnvironment, authority: Authority, tmp_path: Path
) -> None:
    ours = authority.issue("wms2")
    strangers = Authority(tmp_path, "theirs").issue("wms2")
    target = server.client.service_client.config.target_host
    async with guarded(target, authority.issue(SERVER_NAME), authority.path) as address:
        mine = {"temporal_tls_cert": ours.certificate, "temporal_tls_key": ours.key}
        client = await connect(settings(authority, address, **mine))
        assert await client.count_workflows()
        theirs = {"temporal_tls_cert": strangers.certificate, "temporal_tls_key": strangers.key}
        for wrong in ({}, theirs):
            with pytest.raises(UserError, match="certificate, key and server name do not fit"):
                await connect(settings(authority, address, **wrong))
        with pytest.raises(UserError, match="does not answer"):
            await connect(Settings(temporal_address=address))


async def test_a_server_that_is_not_who_it_says_is_not_trusted(
    server: WorkflowEnvironment, authority: Authority, tmp_path: Path
) -> None:
    impostor = Authority(tmp_path, "theirs").issue(SERVER_NAME)
    target = server.client.service_client.config.target_host
    heard: list[bytes] = []
    async with guarded(target, impostor, None, heard) as address:
        with pytest.raises(UserError, match="do not fit"):
            await connect(settings(authority, address, temporal_api_key=SecretStr(API_KEY)))
    assert heard == []


@pytest.mark.parametrize("in_a_file", [False, True])
async def test_an_api_key_goes_with_each_call_and_only_through_tls(
    server: WorkflowEnvironment, authority: Authority, tmp_path: Path, in_a_file: bool
) -> None:
    (tmp_path / "key").write_text(f"{API_KEY}\n")
    key: dict[str, Any] = {"temporal_api_key": SecretStr(API_KEY)}
    if in_a_file:
        key = {"temporal_api_key_file": tmp_path / "key"}
    target = server.client.service_client.config.target_host
    heard: list[bytes] = []
    async with guarded(target, authority.issue(SERVER_NAME), None, heard) as address:
        given = settings(authority, address, **key)
        client = await connect(given)
        assert await client.count_workflows()
    assert client.api_key == API_KEY
    # HTTP/2 says it in Huffman's code; that it went through is in the client, that TLS was used is in the proxy.
    assert heard
    assert API_KEY not in f"{given!r} {given}"
    assert tls_config(Settings(**key)) is not None


def test_a_file_that_is_not_there_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"WMS2_TEMPORAL_TLS_CA: .* cannot be read: No such file"):
        tls_config(Settings(temporal_tls_ca=tmp_path / "none.pem"))
    (tmp_path / "key.pem").write_text("a key")
    with pytest.raises(UserError, match="set WMS2_TEMPORAL_TLS_CERT, too"):
        tls_config(Settings(temporal_tls_key=tmp_path / "key.pem"))


def test_nothing_is_encrypted_unless_a_setting_asks_for_it() -> None:
    assert tls_config(Settings()) is None
