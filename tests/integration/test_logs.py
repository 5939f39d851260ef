"""The log of a worker tells the story of its requests."""

import logging

import pytest
from sqlalchemy import Engine

from tests.factories import simulation
from wms2.activities.records import RecordActivities
from wms2.db.requests import insert_request
from wms2.db.session import transaction
from wms2.models.messages import Alert, StatusRecord
from wms2.models.request import RequestStatus


async def test_each_new_status_of_a_request_is_one_line_with_its_reason(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with transaction(engine) as session:
        insert_request(session, simulation())
    held = StatusRecord(
        request="simulation", status=RequestStatus.HELD, sequence=3, actor="wms2", reason="a\nforged line"
    )
    late = held.model_copy(update={"status": RequestStatus.ACTIVE, "sequence": 2})
    with caplog.at_level(logging.INFO):
        for record in (held, held, late):
            await RecordActivities(engine).record_status(record)
    assert [one.getMessage() for one in caplog.records] == ["simulation is held: a forged line"]


async def test_an_alert_is_one_line_whatever_it_quotes(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with transaction(engine) as session:
        insert_request(session, simulation())
    await RecordActivities(engine).raise_alert(
        Alert(request="simulation", kind="rank", message="it said\n2026 ERROR all is lost")
    )
    assert [one.getMessage() for one in caplog.records] == [
        "ALERT [rank] simulation: it said 2026 ERROR all is lost"
    ]
