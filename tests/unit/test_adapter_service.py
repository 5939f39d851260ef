"""What all adapters share: connections, limits, logins, and what becomes of an answer."""

import asyncio
import json
import logging
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.patience import PATIENCE_SEC
from tests.wire import Call, Line, Reply, Script, made_certificates, secure, wire
from wms2.adapters.credentials import Certificate, Password, TokenFile
from wms2.adapters.limits import RateLimit, SharedRateLimit, new_turns
from wms2.adapters.rucio import Rucio
from wms2.adapters.service import LARGEST_ANSWER, Service, TimeLimits
from wms2.adapters.silence import Silence
from wms2.errors import (
    AlreadyThere,
    BrokenRequest,
    NotFound,
    Refused,
    Unauthorised,
    Unavailable,
    UserError,
)
from wms2.temporal.retries import FINAL

SECRET = "xyzzy-plugh"
TOKEN = "eyJhbGciOi.plover.token"
EXPIRES = "Mon, 16 Nov 2126 14:02:12 UTC"
ROWS = TypeAdapter(list[dict[str, Any]])


class Echo(Service):
    """A service that explains itself in a header."""

    name = "Echo"

    def _reason(self, answer: Any) -> str:
        return str(answer.headers.get("Why", ""))


def always(reply: Reply) -> Script:
    return lambda _: reply


async def test_calls_share_connections() -> None:
    with wire(always(Reply(content=b"[]"))) as line:
        async with Echo(line.url) as echo:
            for _ in range(20):
                await echo.call("GET", "x")
            await asyncio.gather(*(echo.objects(ROWS, "GET", "y") for _ in range(20)))
            async for _ in echo.stream(ROWS, "GET", "z"):
                pass
    assert len({call.connection for call in line.calls[:20]}) == 1
    assert len({call.connection for call in line.calls}) <= 8


async def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    with wire(always(Reply(headers={"Connection": "close"}))) as line:
        async with Echo(line.url) as echo:
            for _ in range(3):
                await echo.call("GET", "x")
    assert len({call.connection for call in line.calls}) == 3


@pytest.mark.parametrize("times", [TimeLimits(silence=0.2), TimeLimits(call=0.2)])
async def test_a_server_that_is_silent_is_not_waited_for(times: TimeLimits) -> None:
    released = threading.Event()

    def script(_: Call) -> Reply:
        released.wait(60)
        return Reply()

    with wire(script) as line:
        async with Echo(line.url, times=times) as echo:
            with pytest.raises(Unavailable, match="does not answer x"):
                await echo.call("GET", "x")
            released.set()


@contextmanager
def silent_wire() -> Iterator[Line]:
    released = threading.Event()

    def script(_: Call) -> Reply:
        released.wait(PATIENCE_SEC)
        return Reply()

    with wire(script) as line:
        try:
            yield line
        finally:
            released.set()


async def test_whoever_waits_for_a_turn_behind_a_silent_service_does_not_wait_for_longer_than_a_call() -> (
    None
):
    times = TimeLimits(call=0.2, rest=0)
    limit = RateLimit(1000, at_once=1)
    with silent_wire() as line:
        async with Echo(line.url, times=times, limit=limit) as echo, limit.turn():
            for waiting in (echo.call("GET", "x"), listed(echo, "GET", "x")):
                with pytest.raises(Unavailable, match=r"longer than 0\.2 s"):
                    await asyncio.wait_for(waiting, PATIENCE_SEC)
    assert line.calls == []


async def test_a_service_that_let_somebody_wait_in_vain_is_left_alone_for_a_while() -> None:
    with silent_wire() as line:
        async with Echo(line.url, times=TimeLimits(silence=0.2, rest=3600)) as echo:
            with pytest.raises(Unavailable, match="does not answer x"):
                await echo.call("GET", "x")
            for call in (echo.call("GET", "y"), listed(echo, "GET", "y")):
                with pytest.raises(Unavailable, match="let others wait in vain") as error:
                    await call
                assert error.value.retry_after == pytest.approx(3600, abs=PATIENCE_SEC)
    assert [call.path for call in line.calls] == ["/x"]


async def test_a_service_that_was_left_alone_is_asked_again_afterwards() -> None:
    with silent_wire() as line:
        async with Echo(line.url, times=TimeLimits(silence=0.2, rest=0)) as echo:
            for _ in range(2):
                with pytest.raises(Unavailable, match="does not answer x"):
                    await echo.call("GET", "x")
    assert len(line.calls) == 2


async def test_a_service_that_has_too_much_to_do_is_left_alone_by_all_for_as_long_as_it_asks() -> None:
    busy = True
    with wire(lambda _: Reply(429, headers={"Retry-After": "1"}) if busy else Reply(content=b"[]")) as line:
        async with Echo(line.url) as echo:
            with pytest.raises(Unavailable, match="with 429"):
                await echo.call("GET", "x")
            busy = False
            for call in (echo.call("GET", "y"), listed(echo, "GET", "y")):
                with pytest.raises(Unavailable, match="asked to be left alone") as error:
                    await call
                assert 0 < (error.value.retry_after or 0) <= 1
            assert [call.path for call in line.calls] == ["/x"]
            await asyncio.sleep(1)
            await echo.call("GET", "z")


def test_a_service_that_answers_others_meanwhile_is_not_silent() -> None:
    silence, since = Silence(rest_sec=3600), time.monotonic()
    silence.heard()
    silence.waited_in_vain(since)
    assert silence.left_sec() == 0


async def test_a_list_may_take_longer_than_a_call_as_long_as_rows_come() -> None:
    taken: list[float] = []
    content = b"".join(json.dumps({"row": row}).encode() + b"\n" for row in range(5))
    with wire(always(Reply(content=content))) as line:
        async with Echo(line.url, times=TimeLimits(call=0.05)) as echo:
            async for rows in echo.stream(ROWS, "GET", "x"):
                await asyncio.sleep(0.2)
                taken.extend(row["row"] for row in rows)
    assert taken == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("said", "wait"),
    [("7", 7.0), ("0", 0.0), ("999999", 3600.0), ("soon", None), ("-3", None), ("", None), (None, None)],
)
async def test_a_service_may_say_when_it_wants_to_be_asked_again(
    said: str | None, wait: float | None
) -> None:
    headers = {} if said is None else {"Retry-After": said}
    with wire(always(Reply(429, headers=headers))) as line:
        async with Echo(line.url) as echo:
            with pytest.raises(Unavailable, match=r"Echo at .* answered GET /x with 429") as error:
                await echo.call("GET", "x")
    assert error.value.retry_after == wait


async def test_the_time_to_ask_again_may_be_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    with wire(always(Reply(503, headers={"Retry-After": later}))) as line:
        async with Echo(line.url) as echo:
            with pytest.raises(Unavailable) as error:
                await echo.call("GET", "x")
    assert error.value.retry_after == pytest.approx(600, abs=60)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BrokenRequest),
        (401, Unauthorised),
        (403, Unauthorised),
        (404, NotFound),
        (408, Unavailable),
        (409, Refused),
        (412, Refused),
        (413, BrokenRequest),
        (422, BrokenRequest),
        (425, Unavailable),
        (429, Unavailable),
        (500, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
        (302, Refused),
    ],
)
async def test_every_status_is_one_of_a_few_errors(status: int, kind: type[Exception]) -> None:
    with wire(always(Reply(status, headers={"Why": "because\n of  this"}))) as line:
        async with Echo(line.url) as echo:
            for call in (
                echo.call("PUT", "a/b"),
                echo.objects(ROWS, "PUT", "a/b"),
                listed(echo, "PUT", "a/b"),
            ):
                with pytest.raises(kind, match="PUT /a/b") as error:
                    await call
                assert type(error.value) is kind
                assert "\n" not in str(error.value)
    assert all((one.__name__ in FINAL) == issubclass(one, Refused) for one in (kind, AlreadyThere))


async def listed(service: Service, method: str, path: str) -> list[dict[str, Any]]:
    return [row async for rows in service.stream(ROWS, method, path) for row in rows]


@pytest.mark.parametrize("cut", ["silent", "half"])
async def test_an_answer_that_is_cut_off_is_trouble_that_passes(cut: Any) -> None:
    with wire(always(Reply(content=b'{"a": 1}\n' * 100, cut=cut))) as line:
        async with Echo(line.url) as echo:
            for call in (echo.call("GET", "x"), echo.objects(ROWS, "GET", "x"), listed(echo, "GET", "x")):
                with pytest.raises(Unavailable, match=r"Echo at .* does not answer x"):
                    await call


async def test_an_answer_that_is_no_json_or_too_large_is_trouble_that_passes() -> None:
    with wire(
        lambda call: Reply(content=b"<html>" * (1 if call.path == "/x" else LARGEST_ANSWER // 6 + 1))
    ) as line:
        async with Echo(line.url) as echo:
            with pytest.raises(Unavailable, match="no JSON"):
                await echo.document(ROWS, "GET", "x")
            with pytest.raises(Unavailable, match="more than"):
                await echo.call("GET", "large")


async def test_a_long_list_is_never_in_memory_as_a_whole() -> None:
    line_ = json.dumps({"name": "/store/data/" + "x" * 80, "bytes": 12345678}).encode() + b"\n"
    content = line_ * 50_000
    with wire(always(Reply(content=content))) as line:
        async with Echo(line.url) as echo:
            tracemalloc.start()
            try:
                count = 0
                async for rows in echo.stream(ROWS, "GET", "x"):
                    count += len(rows)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert count == 50_000
    assert peak < len(content) / 4


async def test_only_so_many_calls_are_made_at_once() -> None:
    counting, under_way, most = threading.Lock(), 0, 0
    third = threading.Barrier(3)

    def script(_: Call) -> Reply:
        nonlocal under_way, most
        with counting:
            under_way += 1
            most = max(most, under_way)
        third.wait(60)
        with counting:
            under_way -= 1
        return Reply()

    with wire(script) as line:
        async with Echo(line.url, limit=RateLimit(1000, at_once=3)) as echo:
            await asyncio.gather(*(echo.call("GET", "x") for _ in range(12)))
    assert most == 3


async def test_only_so_many_calls_are_made_in_a_second_whoever_makes_them() -> None:
    limit = RateLimit(per_sec=20, at_once=100)
    loop = asyncio.get_running_loop()
    begun: list[float] = []

    async def call() -> None:
        async with limit.turn():
            begun.append(loop.time())

    await asyncio.gather(*(call() for _ in range(50)))
    # A second's worth goes at once, the other 30 follow one by one.
    assert begun[-1] - begun[0] >= 1.4
    assert all(later - begun[0] >= (number - 21) / 20 for number, later in enumerate(begun))


def _take_turns(turns: int, count: int) -> None:
    async def take() -> None:
        limit = SharedRateLimit(per_sec=40, at_once=100, turns=turns)
        for _ in range(count):
            async with limit.turn():
                pass

    asyncio.run(take())


def test_only_so_many_calls_are_made_in_a_second_by_all_processes_together() -> None:
    turns = new_turns()
    processes = [get_context("fork").Process(target=_take_turns, args=(turns, 30)) for _ in range(4)]
    since = time.monotonic()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    # A second's worth goes at once, the other 80 follow one by one.
    assert time.monotonic() - since >= 1.9
    os.close(turns)


def certificate(folder: Path, name: str) -> Certificate:
    return Certificate(folder / f"{name}.pem", folder / f"{name}.key")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_certificates(tmp_path_factory.mktemp("certificates"), "server", "old", "new")


@pytest.mark.parametrize("form", ["files", "proxy"])
async def test_a_certificate_that_is_renewed_on_disk_is_shown_by_the_next_connection(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))

    def renew(name: str) -> None:
        endings = (".pem", ".key") if form == "files" else (".proxy",)
        for ending in endings:
            new = tmp_path / f"new{ending}"
            new.write_bytes((certificates / f"{name}{ending}").read_bytes())
            new.replace(tmp_path / f"mine{ending}")

    renew("old")
    mine = certificate(tmp_path, "mine") if form == "files" else Certificate(tmp_path / "mine.proxy")
    closing = always(Reply(headers={"Connection": "close"}))
    with wire(closing, secure(certificates)) as line:
        async with Echo(line.url, mine) as echo:
            await echo.call("GET", "x")
            renew("new")
            await echo.call("GET", "x")
    assert [call.client for call in line.calls] == ["old", "new"]


async def test_a_certificate_that_cannot_be_read_is_trouble_that_passes(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    torn = tmp_path / "torn.pem"
    torn.write_bytes((certificates / "old.proxy").read_bytes()[:300])
    with wire(always(Reply()), secure(certificates)) as line:
        async with Echo(line.url, Certificate(torn)) as echo:
            with pytest.raises(Unavailable, match=r"torn\.pem cannot be used: it is no certificate"):
                await echo.call("GET", "x")
            torn.write_bytes((certificates / "old.proxy").read_bytes())
            await echo.call("GET", "x")
    assert [call.client for call in line.calls] == ["old"]


async def test_a_server_that_nobody_vouches_for_gets_no_call(certificates: Path) -> None:
    with wire(always(Reply()), secure(certificates)) as line:
        async with Echo(line.url, certificate(certificates, "old")) as echo:
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await echo.call("GET", "x")
    assert line.calls == []


async def test_a_token_is_read_again_when_its_file_is_renewed(tmp_path: Path) -> None:
    file = tmp_path / "token"

    def renew(token: str) -> None:
        (tmp_path / "new").write_text(f"{token}\n")
        (tmp_path / "new").replace(file)

    with wire(always(Reply())) as line:
        async with Echo(line.url, TokenFile(file)) as echo:
            with pytest.raises(Unavailable, match=r"token cannot be used: No such file"):
                await echo.call("GET", "x")
            for token in ("first", "second"):
                renew(token)
                await echo.call("GET", "x")
    assert [call.headers["Authorization"] for call in line.calls] == ["Bearer first", "Bearer second"]


async def test_a_token_that_was_renewed_while_the_call_was_made_is_tried_once_more(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    def script(call: Call) -> Reply:
        if call.headers["Authorization"] == "Bearer new":
            return Reply()
        file.write_text("new")
        return Reply(401)

    with wire(script) as line:
        async with Echo(line.url, TokenFile(file)) as echo:
            await echo.call("GET", "x")
    with wire(always(Reply(401))) as line:
        async with Echo(line.url, TokenFile(file)) as echo:
            with pytest.raises(Unauthorised, match="check WMS2_TOKEN_FILE"):
                await echo.call("GET", "x")
    assert len(line.calls) == 1


@pytest.mark.parametrize("url", [f"http://wms2:{SECRET}@host/x", "ftp://host", "host:80", "", "http://"])
def test_a_url_with_a_password_or_without_sense_is_refused_unseen(url: str) -> None:
    with pytest.raises(UserError, match="The URL of Echo must be") as error:
        Echo(url)
    assert SECRET not in str(error.value)


def echoing(status: int, cut: Any = "") -> Script:
    """Repeats all that the call told."""

    def script(call: Call) -> Reply:
        said = f"you sent {' '.join(call.headers.values())}"
        told = {"ExceptionClass": "Whatever", "ExceptionMessage": said}
        headers = {"Why": said, "ExceptionMessage": said, "X-Error-Detail": said}
        return Reply(status, json.dumps(told).encode(), headers, cut)

    return script


TROUBLES: dict[str, Script] = {
    **{str(status): echoing(status) for status in (302, 400, 401, 403, 404, 409, 429, 500, 503)},
    "cut": echoing(200, "silent"),
    "cut in the middle": echoing(200, "half"),
    "no JSON": always(Reply(content=f"<html>{TOKEN}{SECRET}".encode())),
    "other JSON": always(Reply(content=json.dumps([{"name": TOKEN}]).encode())),
}


@pytest.mark.parametrize("where", ["login", "call"])
@pytest.mark.parametrize("trouble", sorted(TROUBLES))
async def test_no_error_and_no_log_shows_a_secret_of_rucio(
    trouble: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    def script(call: Call) -> Reply:
        if call.path.startswith("/auth") != (where == "login"):
            return Reply(headers={"X-Rucio-Auth-Token": TOKEN, "X-Rucio-Auth-Token-Expires": EXPIRES})
        return TROUBLES[trouble](call)

    caplog.set_level(logging.DEBUG)
    with wire(script) as line:
        async with Rucio(line.url, "wms2", Password("wms2", SECRET)) as rucio:
            with pytest.raises((Unavailable, Refused)) as error:
                await rucio.rules_of("/A/B-v1/RAW")
            assert_unseen(error.value, rucio, caplog.text)
    sent = {call.headers.get("X-Rucio-Auth-Token") for call in line.calls}
    assert (TOKEN in sent) == (where == "call")


@pytest.mark.parametrize("trouble", sorted(TROUBLES))
async def test_no_error_and_no_log_shows_a_token_of_a_file(
    trouble: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with wire(TROUBLES[trouble]) as line:
        async with Echo(line.url, TokenFile(tmp_path / "token")) as echo:
            with pytest.raises((Unavailable, Refused)) as error:
                await echo.document(TypeAdapter(dict[str, int]), "GET", "x")
            assert_unseen(error.value, echo, caplog.text, secrets=(TOKEN,))


async def test_a_token_that_no_header_can_carry_is_refused_unseen(tmp_path: Path) -> None:
    for content in (f"{TOKEN}\r\nX: y", f"{TOKEN}é", " "):
        (tmp_path / "token").write_text(content)
        async with Echo("http://127.0.0.1:9", TokenFile(tmp_path / "token")) as echo:
            with pytest.raises(Unavailable, match="token cannot be used") as error:
                await echo.call("GET", "x")
            assert_unseen(error.value, echo)


def assert_unseen(
    error: BaseException, service: Service, log: str = "", secrets: tuple[str, ...] = (SECRET, TOKEN)
) -> None:
    """Neither in what is shown of an error, nor in what Temporal writes down of it."""
    shown = [log, repr(service), repr(vars(service)), *(repr(part) for part in vars(service).values())]
    one: BaseException | None = error
    while one is not None:
        shown += [str(one), repr(one), repr(vars(one))]
        assert one.__cause__ is None
        one = one.__cause__
    for secret in secrets:
        assert secret not in "".join(shown)
