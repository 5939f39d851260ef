"""Secrets of the settings: nowhere in Temporal, in a log, in a round's folder or in the database."""

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.e2e.documents import SECOND_JOB, simulation
from tests.e2e.stand import Stand, own_stand, runs
from wms2.db.session import transaction
from wms2.temporal.client import connect

pytestmark = [pytest.mark.pool, pytest.mark.xdist_group("kills")]

SMTP, WEBHOOK, TOKEN = "smtp-hush-1", "webhook-hush-2", "token-hush-3"
PAYLOAD = re.compile(r'"data": "([A-Za-z0-9+/=]+)"')


@pytest.fixture
def stand() -> Iterator[Stand]:
    with own_stand() as stand:
        contacts = stand.folder / "contacts.yaml"
        hook = f"{{url: 'http://127.0.0.1:1/{WEBHOOK}', secret: {WEBHOOK}}}"
        contacts.write_text(f"operators: [chat, operators@example.org]\nwebhooks: {{chat: {hook}}}\n")
        (stand.folder / "token").write_text(TOKEN)
        stand.environment |= {
            "WMS2_NOTIFY": "on",
            "WMS2_NOTIFY_EVERY_MIN": "1",
            "WMS2_CONTACTS": str(contacts),
            "WMS2_SMTP_HOST": "127.0.0.1",
            "WMS2_SMTP_PORT": "1",
            "WMS2_SMTP_SENDER": "wms2@example.org",
            "WMS2_SMTP_USER": "wms2",
            "WMS2_SMTP_PASSWORD": SMTP,
            "WMS2_TOKEN_FILE": str(stand.folder / "token"),
        }
        stand.start_worker()
        yield stand


def test_no_secret_of_the_settings_is_in_a_history_a_log_a_file_or_the_database(stand: Stand) -> None:
    name = stand.submit(simulation("e2e_secrets", stand.folder, {"node": SECOND_JOB, "exit_code": 8501}))
    stand.until(name, "held")
    stand.wms2("request", "abort", name, "--yes")
    stand.until(name, "aborted")
    url = stand.settings.needed("database_url")
    assert "hush" in SMTP
    places = {
        "histories": asyncio.run(_histories(stand)),
        "log": (stand.folder / "worker.log").read_text(),
        "round": _files(stand.home / "submit"),
        "database": _database(stand),
    }
    for place, found in places.items():
        assert found, place
        assert [secret for secret in (SMTP, WEBHOOK, TOKEN, url) if secret in found] == [], place


async def _histories(stand: Stand) -> str:
    """All that Temporal remembers, with its payloads in plain words."""
    client = await connect(stand.settings)
    ids = {found.id async for found in client.list_workflows()}
    texts = [history.to_json() for one in sorted(ids) for history in await runs(client, one)]
    plain = [
        base64.b64decode(data).decode(errors="replace") for one in texts for data in PAYLOAD.findall(one)
    ]
    assert any("e2e_secrets" in words for words in plain)
    return "\n".join([*texts, *plain])


def _files(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def _database(stand: Stand) -> str:
    tables = ("audit_trail", "notices", "notice_digests", "requests", "dags")
    with transaction(stand.engine) as session:
        rows = [row for table in tables for row in session.execute(text("SELECT * FROM " + table))]
    return json.dumps([str(row) for row in rows])
