"""The command line against real servers, in a namespace and a database of its own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from tests.api_kit import Issuer, config_for, issuing, serving
from tests.integration.output_world import World
from tests.integration.publishing import Publisher
from tests.integration.rounds import unique
from tests.patience import PATIENCE_SEC
from tests.stand_in import services, stand_in_rucio
from wms2.adapters.dbs import Dbs
from wms2.cli.main import main
from wms2.config import Settings, load_settings
from wms2.local.sites import SITES, write_sites
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect

ApiClient = Callable[[str], httpx.Client]
Through = Callable[[str, str], None]


QUERY_SEC = 30
"""A query may come to a worker that is just ending, and is lost with it: it is asked again before patience ends."""


class Run:
    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stdout, self.stderr = code, stdout, " ".join(stderr.split())

    def json(self) -> Any:
        assert self.code == 0, self.stderr
        return json.loads(self.stdout)


@pytest.fixture
def namespace(stack: Settings) -> str:
    """Where no other test's worker answers, and no other test's requests are."""
    name = unique("cli")

    async def prepare() -> None:
        settings = stack.model_copy(update={"temporal_namespace": name})
        client = await connect(settings)
        # Two workers that start at the same moment, and one that starts later.
        await asyncio.gather(bootstrap(client, settings), bootstrap(client, settings))
        await bootstrap(client, settings)

    asyncio.run(prepare())
    return name


@pytest.fixture
def settings(stack: Settings, namespace: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("WMS2_HOME", str(stack.home))
    monkeypatch.setenv("WMS2_TEMPORAL_NAMESPACE", namespace)
    monkeypatch.setenv("WMS2_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "200")
    # Workers of tests may only just be starting.
    for module in ("wms2.door.asking", "wms2.door.inspection"):
        monkeypatch.setattr(f"{module}.ANSWER_TIMEOUT", timedelta(seconds=PATIENCE_SEC))
    monkeypatch.setattr("wms2.door.admission.ANSWER_TIMEOUT", timedelta(seconds=QUERY_SEC))
    return load_settings()


@pytest.fixture
def wms2(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str | Path) -> Run:
        monkeypatch.setattr(sys, "argv", ["wms2", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        output = capsys.readouterr()
        assert "Traceback" not in output.err
        return Run(code, output.out, output.err)

    return run


@pytest.fixture
def services_url(tmp_path: Path) -> Iterator[str]:
    write_sites(tmp_path, SITES)
    with services(tmp_path) as url:
        yield url


@pytest.fixture
async def world(engine: Engine, services_url: str) -> AsyncIterator[World]:
    async with Dbs(f"{services_url}/dbs") as dbs, stand_in_rucio(services_url) as rucio:
        yield World(engine, services_url, dbs, rucio, Publisher(engine, dbs, rucio))


# The REST service --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as one:
        yield one


@pytest.fixture
def url(settings: Settings, issuer: Issuer) -> Iterator[str]:
    with serving(settings, config_for(issuer)) as address:
        yield address


@pytest.fixture
def by(url: str, issuer: Issuer) -> Iterator[ApiClient]:
    """Clients, each with the token of a subject."""
    made: list[httpx.Client] = []

    def client(subject: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {issuer.token(subject)}"}
        made.append(httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=PATIENCE_SEC))
        return made[-1]

    yield client
    for one in made:
        one.close()


@pytest.fixture
def worker(settings: Settings) -> Iterator[None]:
    """A worker that serves the namespace. It may only just be starting: its answers are waited for."""
    started = subprocess.Popen(
        [Path(sys.executable).with_name("wms2"), "worker", "run", "--host", "test-host"],
        env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        started.kill()
        started.wait()


@pytest.fixture
def through(issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Through:
    """Lets the command line go through a service, as a subject whom that knows; it can reach no server itself."""

    def go(address: str, subject: str) -> None:
        token = tmp_path / "token"
        token.write_text(issuer.token(subject))
        monkeypatch.setenv("WMS2_API_URL", address)
        monkeypatch.setenv("WMS2_TOKEN_FILE", str(token))
        monkeypatch.setenv("WMS2_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
        monkeypatch.setenv("WMS2_TEMPORAL_ADDRESS", "127.0.0.1:9")
        monkeypatch.setenv("WMS2_SERVICES_URL", "http://127.0.0.1:9")

    return go
