"""What the REST service does when its servers are slow, and many ask at once."""

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from sqlalchemy import create_engine
from starlette.requests import Request as Call
from temporalio.client import Client

from tests.api_kit import nowhere
from tests.factories import simulation
from wms2.api.actions import Restart, restart
from wms2.api.callers import Caller
from wms2.api.config import ApiConfig, Role
from wms2.api.service import Service
from wms2.api.system import HealthCheck
from wms2.api.words import Acts, Submits
from wms2.config import Settings
from wms2.door.direct import DirectDoor
from wms2.door.hosts import ASKED_AT_ONCE, ask_all
from wms2.door.rest_requests import _body
from wms2.errors import Contradiction, Silent
from wms2.models.messages import HostLostAction, OperatorAction, RestartAction
from wms2.models.request import CleanupPolicy, RequestRecord, RequestStatus

MANY = 20


def test_who_waits_for_temporal_together_is_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    async def never(settings: Settings) -> None:
        attempts.append(settings)
        await asyncio.Event().wait()

    async def all_ask() -> list[object]:
        service = Service(nowhere(tmp_path), ApiConfig())
        answers = await asyncio.gather(*(service.temporal() for _ in range(MANY)), return_exceptions=True)
        await service.close()
        return list(answers)

    monkeypatch.setattr("wms2.api.service.ANSWER_SEC", 0.5)
    monkeypatch.setattr("wms2.temporal.connection.connect", never)
    assert {type(answer) for answer in asyncio.run(all_ask())} == {TimeoutError}
    assert len(attempts) < MANY


def test_many_who_ask_for_health_cause_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    async def look(inside: Service) -> str:
        looks.append(inside)
        await asyncio.sleep(0)
        return "ok"

    async def all_ask() -> None:
        service, check = Service(nowhere(tmp_path), ApiConfig()), HealthCheck()
        seen = await asyncio.gather(*(check.look(service) for _ in range(MANY)))
        assert {one.status for one in seen} == {"ok"}
        await service.close()

    monkeypatch.setattr("wms2.api.system._database", look)
    monkeypatch.setattr("wms2.api.system._temporal", look)
    monkeypatch.setattr("wms2.api.system.HEALTH_HOLDS_SEC", 600.0)
    asyncio.run(all_ask())
    assert len(looks) == 2


def test_a_key_with_another_body_names_another_action_but_no_other_submission() -> None:
    def action(acts: Acts, body: bytes, key: str) -> str:
        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body, "more_body": False}

        scope = {
            "type": "http", "method": "POST", "path": "/x", "headers": [], "query_string": b"",
            "server": ("a", 80), "scheme": "http", "state": {"caller": Caller("me", Role.ADMIN)},
        }  # fmt: skip
        return asyncio.run(acts(Call(scope, receive), key)).action_id

    for kind, actions in ((Acts, 3), (Submits, 2)):
        acts = kind(Role.OPERATOR)
        said = [(b"1", "k"), (b"1", "k"), (b"2", "k"), (b"1", "another")]
        assert len({action(acts, *one) for one in said}) == actions


class TroubledDoor(DirectDoor):
    """Behind which nobody answers from one request on, and another one says no."""

    def __init__(self) -> None:
        super().__init__(create_engine("postgresql+psycopg://"), self._nowhere, Settings())
        self.asked: list[str] = []

    async def _nowhere(self) -> Client:
        raise Silent("Temporal does not answer")

    async def record(self, name: str) -> RequestRecord:
        self.asked.append(name)
        if name == "r001":
            raise Contradiction("r001 has ended")
        if name >= "r040":
            raise Silent("no worker answers")
        return RequestRecord.model_construct(request=simulation(request_name=name))

    async def ask(self, record: RequestRecord, order: OperatorAction, *, wait: bool = True) -> str:
        await asyncio.sleep(0)
        return "held"


def test_after_the_first_silence_no_other_request_of_a_lost_host_is_asked() -> None:
    door, names = TroubledDoor(), [f"r{number:03}" for number in range(200)]
    refusals = asyncio.run(
        ask_all(door, names, lambda name: HostLostAction(host="a", actor="me", action_id=name))
    )
    assert set(names) - set(refusals) == set(names[:1] + names[2:40])
    assert refusals["r001"] == "r001 has ended"
    assert refusals["r199"] == "r199 was not asked: no worker answers"
    assert len(door.asked) <= 40 + ASKED_AT_ONCE


def test_files_that_cannot_be_read_now_hold_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.api.service.ANSWER_SEC", 60.0)

    async def all_ask() -> None:
        service, mended = Service(nowhere(tmp_path), ApiConfig()), threading.Event()
        reading = [asyncio.create_task(service.of_files(mended.wait, 60)) for _ in range(MANY)]
        await asyncio.sleep(0)
        assert await service.apart(lambda: "answered") == "answered"
        assert not any(one.done() for one in reading)
        mended.set()
        assert all(await asyncio.gather(*reading))
        await service.close()

    asyncio.run(all_ask())


def test_what_a_restart_says_of_the_outputs_reaches_the_request_through_either_door() -> None:
    record = RequestRecord.model_construct(request=simulation(), status=RequestStatus.HELD)
    hand = SimpleNamespace(caller=SimpleNamespace(identity="operator"), action_id="again")
    inside = SimpleNamespace(ask=AsyncMock(return_value="noted"), record=AsyncMock(return_value=record))
    for said, policy in (({"cleanup_policy": "grace_period"}, CleanupPolicy.GRACE_PERIOD), ({}, None)):
        asyncio.run(restart("simulation", hand, inside, Restart.model_validate(said)))
        order = inside.ask.call_args.args[1]
        assert order == RestartAction(actor="operator", action_id="again", cleanup_policy=policy)
        assert _body(order) == {"reason": "", **said}
