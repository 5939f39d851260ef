"""One stack for the whole run, shared by all workers, started when the first test asks for it."""

import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from sqlalchemy import Engine, create_engine, text

from tests.clients import NotInstalled
from tests.patience import POOL_LIMIT_SEC
from tests.real_rucio import RealRucio, rucio_python, start_rucio
from wms2.config import Settings
from wms2.db.session import connect
from wms2.local.sites import SITES
from wms2.local.stack import start_stack, stop_stack

# How fast a busy machine draws examples says nothing about the product. What a change is judged by in CI is the same
# examples each time; at a desk they are always new ones.
hypothesis_settings.register_profile(
    "wms2",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    print_blob=True,
)
hypothesis_settings.load_profile("wms2")

HOME = "WMS2_TEST_HOME"
BREAKABLE, VANISHING = "T2_XX_Breakable", "T2_XX_Vanishing"
"""Sites that only tests know, and spoil: no other test's jobs land there."""


def pytest_configure(config: pytest.Config) -> None:
    for name in [
        name for name in os.environ if name.startswith("WMS2_") and name not in (HOME, "WMS2_CACHE")
    ]:
        del os.environ[name]
    if not hasattr(config, "workerinput"):
        # A short path below /tmp: sockets live there.
        os.environ[HOME] = tempfile.mkdtemp(prefix="wms2t-", dir="/tmp")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        home = Path(os.environ.pop(HOME))
        stop_stack(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        on_a_stack = item.get_closest_marker("pool") or "stack" in getattr(item, "fixturenames", ())
        if on_a_stack and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(POOL_LIMIT_SEC))
        if getattr(config.option, "loadgroup", False):
            _keep_with_its_group(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A verb that writes a log does so on a stream that ends with its test: nobody else's words go there."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        return (yield)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _keep_with_its_group(item: pytest.Item) -> None:
    """Under pytest 9.2, pytest-xdist 3.8 does not see its own mark: each worker would start the stack of a group."""
    # https://github.com/pytest-dev/pytest-xdist/issues/1386
    group = item.get_closest_marker("xdist_group")
    if group and "@" not in item.nodeid:
        item._id = type(item._id).parse(f"{item.nodeid}@{group.args[0]}")
        assert "@" in item.nodeid


@pytest.fixture(scope="session")
def stack() -> Settings:
    """The settings of a running stack. Starting is idempotent and locked, so every worker just asks for it."""
    return start_stack(Path(os.environ[HOME]), (*SITES, BREAKABLE, VANISHING))


@pytest.fixture(scope="session")
def real_rucio(stack: Settings) -> RealRucio:
    """A real Rucio, one for the whole run. Where its packages are not to be had it is skipped, but never in CI."""
    try:
        rucio_python()
    except NotInstalled as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(problem))
    return start_rucio(stack)


@pytest.fixture
def database_url(stack: Settings) -> Iterator[str]:
    """A fresh, empty, migrated database."""
    from wms2.db.migrate import upgrade

    name = f"test_{uuid.uuid4().hex[:12]}"
    url = stack.needed("database_url")
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    fresh = url.rpartition("/")[0] + f"/{name}"
    try:
        upgrade(fresh)
        yield fresh
    finally:
        with server.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        server.dispose()


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Connections to it."""
    engine = connect(database_url)
    yield engine
    engine.dispose()
