"""Credentials for Temporal that are renewed in their files, while WMS2 runs for months."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from tests.patience import PATIENCE_SEC
from tests.workflows.servers import real_server
from tests.workflows.tls_proxy import SERVER_NAME, Authority, guarded
from wms2.config import Settings
from wms2.temporal import connection as connection_module
from wms2.temporal.client import connect
from wms2.temporal.connection import Connection

NOBODY = {
    "WMS2_DATABASE_URL": "postgresql://wms2@127.0.0.1:9/wms2",
    "WMS2_SERVICES_URL": "http://127.0.0.1:9",
    "WMS2_CONDOR": "system",
}


@pytest.fixture
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with await real_server() as started:
        yield started


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def settings(authority: Authority, address: str, folder: Path) -> Settings:
    return Settings(
        temporal_address=address,
        temporal_server_name=SERVER_NAME,
        temporal_tls_ca=authority.path,
        temporal_tls_cert=folder / "ours-wms2.pem",
        temporal_tls_key=folder / "ours-wms2.key",
    )


async def test_a_service_that_lives_long_takes_up_what_was_renewed_and_nothing_that_does_not_fit(
    server: WorkflowEnvironment, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LOOK_EVERY_SEC", 0.05)
    ours = authority.issue("wms2")
    target = server.client.service_client.config.target_host
    async with guarded(target, authority.issue(SERVER_NAME), authority.path) as address:
        connection = Connection(settings(authority, address, tmp_path))
        first = await connection.client()
        await asyncio.sleep(0.1)
        assert await connection.client() is first, "nothing has changed"

        key = ours.key.read_bytes()
        ours.key.write_bytes(b"half a k")
        for _ in range(5):
            await asyncio.sleep(0.1)
            assert await connection.client() is first
        assert await first.count_workflows()
        ours.key.write_bytes(key)

        authority.issue("wms2")
        async with asyncio.timeout(PATIENCE_SEC):
            while await connection.client() is first:
                await asyncio.sleep(0.1)
        assert await (await connection.client()).count_workflows()


async def test_a_worker_begins_anew_with_a_certificate_that_was_renewed(
    server: WorkflowEnvironment, authority: Authority, tmp_path: Path
) -> None:
    authority.issue("wms2")
    target = server.client.service_client.config.target_host
    async with guarded(target, authority.issue(SERVER_NAME), authority.path) as address:
        given = settings(authority, address, tmp_path)
        await connect(given)
        worker = await started(given, tmp_path)
        try:
            async with asyncio.timeout(PATIENCE_SEC):
                await until_said(worker, "serving wms2, wms2-services")
                authority.issue("wms2")
                await until_said(worker, "credentials were renewed")
                await until_said(worker, "stopped")
                await until_said(worker, "serving wms2, wms2-services")
            assert worker.returncode is None, "it is the same process, which systemd knows"
        finally:
            worker.terminate()
            await worker.communicate()
    assert worker.returncode == 0


async def started(given: Settings, folder: Path) -> Process:
    """A worker that serves no submit host. Neither database nor pool are there, and it does not need them to begin."""
    said = {
        f"WMS2_{name.upper()}": str(value) for name, value in given.model_dump(exclude_defaults=True).items()
    }
    environment = os.environ | said | {"WMS2_HOME": str(folder / "home")}
    return await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("wms2"),
        *("worker", "run", "--central"),
        env=environment | NOBODY,
        stderr=PIPE,
    )


async def until_said(worker: Process, words: str) -> None:
    assert worker.stderr is not None
    async for line in worker.stderr:
        if words in line.decode():
            return
    raise AssertionError(f"it ended before it said: {words}")
