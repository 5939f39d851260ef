"""The REST service against its own OpenAPI document: no 5xx, and no answer that the document does not have."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import schemathesis
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy import create_engine, text

from tests.api_kit import ADMIN, Issuer, config_for, issuing, serving
from tests.integration.publishing import begin, made_request
from tests.integration.rounds import unique
from tests.integration.test_database import intent
from tests.patience import PATIENCE_SEC, POOL_LIMIT_SEC
from wms2.api.app import make_app
from wms2.api.config import ApiConfig
from wms2.config import Settings
from wms2.db import dags
from wms2.db.migrate import upgrade
from wms2.db.session import connect as connect_database
from wms2.db.session import transaction
from wms2.db.workflows import workflow_of
from wms2.temporal.bootstrap import bootstrap
from wms2.temporal.client import connect

EXAMPLES = 8
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance,
]  # fmt: skip

document = schemathesis.openapi.from_dict(make_app(Settings(), ApiConfig()).openapi())

pytestmark = [pytest.mark.xdist_group("api-schema"), pytest.mark.timeout(POOL_LIMIT_SEC)]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as one:
        yield one


@pytest.fixture(scope="module")
def world(stack: Settings) -> Iterator[Settings]:
    """A namespace and a database of its own, a worker, and a request with a DAG."""
    namespace = unique("schema")
    url = stack.needed("database_url").rpartition("/")[0] + f"/{namespace.replace('-', '_').lower()}"
    server = create_engine(stack.needed("database_url"), isolation_level="AUTOCOMMIT")
    database = url.rpartition("/")[2]
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {database}"))
    settings = stack.model_copy(update={"temporal_namespace": namespace, "database_url": url})

    async def prepare() -> None:
        await bootstrap(await connect(settings), settings)

    asyncio.run(prepare())
    upgrade(url)
    engine = connect_database(url)
    begin(engine, made_request(), 2)
    with transaction(engine) as session:
        dags.record_dag_intent(session, intent())
    environment = {
        "WMS2_HOME": str(stack.home), "WMS2_TEMPORAL_NAMESPACE": namespace, "WMS2_DATABASE_URL": url,
    }  # fmt: skip
    worker = subprocess.Popen(
        [Path(sys.executable).with_name("wms2"), "worker", "run", "--host", "test-host"],
        env=dict(os.environ) | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield settings
    finally:
        worker.kill()
        worker.wait()
        engine.dispose()
        with server.connect() as connection:
            connection.execute(text(f"DROP DATABASE {database} WITH (FORCE)"))
        server.dispose()


@pytest.fixture(scope="module")
def address(world: Settings, issuer: Issuer) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for module in ("wms2.door.asking", "wms2.door.admission", "wms2.door.inspection"):
            patch.setattr(f"{module}.ANSWER_TIMEOUT", timedelta(seconds=PATIENCE_SEC))
        patch.setattr("wms2.api.service.ANSWER_SEC", PATIENCE_SEC)
        with serving(world, config_for(issuer)) as url:
            yield url


@pytest.fixture(scope="module")
def known(world: Settings) -> dict[str, str]:
    """What can stand in addresses and exists."""
    engine = connect_database(world.needed("database_url"))
    with transaction(engine) as session:
        workflow = str(workflow_of(session, "simulation").id)
    engine.dispose()
    return {"name": "simulation", "dag": "simulation-0-1", "workflow_id": workflow}


OPERATIONS = [
    (method, path, mode)
    for path, found in document.raw_schema["paths"].items()
    for method in found
    for mode in GenerationMode
]


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    OPERATIONS,
    ids=[f"{method} {path} {mode}" for method, path, mode in OPERATIONS],
)
def test_whatever_is_sent_the_answer_is_one_that_the_document_has(
    address: str, issuer: Issuer, known: dict[str, str], method: str, path: str, mode: GenerationMode
) -> None:
    """Sound calls, of what exists, and calls that the document does not allow."""
    headers = {"Authorization": f"Bearer {issuer.token(ADMIN)}"}

    @hypothesis_settings(max_examples=EXAMPLES, database=None)
    @given(case=document[path][method].as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        if mode.is_positive:
            given_parts = (case.path_parameters or {}).items()
            case.path_parameters = {name: known.get(name, value) for name, value in given_parts}
        case.call_and_validate(base_url=address, headers=headers, checks=CHECKS, timeout=PATIENCE_SEC)

    try:
        check()
    except Unsatisfiable:
        # Where a call brings nothing, nothing in it can be wrong.
        assert not mode.is_positive
