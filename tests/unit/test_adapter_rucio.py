"""The Rucio adapter against the stand-in, and against servers in trouble."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest

from tests.block_life import (
    ELSEWHERE,
    RSE,
    assert_each_step_twice_is_as_good_as_once,
    assert_life_goes_on_wherever_it_is_cut,
    replicas,
)
from tests.stand_in import rucio_at, services, stand_in_rucio
from tests.wire import Call, Reply, Script, made_certificates, passed_on, secure, wire
from wms2.adapters.connect import connect_rucio
from wms2.adapters.credentials import Certificate, Password, TokenFile
from wms2.adapters.rucio import BLOCKS_PER_CALL, EXCEPTIONS, FILES_PER_CALL, Rucio, site_of
from wms2.config import Settings
from wms2.errors import BrokenRequest, NotFound, Refused, Unauthorised, Unavailable, UserError
from wms2.local.inputs import place_block
from wms2.models.rule import Replica, Rule
from wms2.temporal.retries import FINAL

DATASET = "/MinBias/Run2024A-v1/RAW"
BLOCK = f"{DATASET}#1"
RULE_ID = "0123456789abcdef0123456789abcdef"
LOGIN = "GET /auth/userpass"
SECRET = "xyzzy-plugh"
NEVER = "Mon, 16 Nov 2126 14:02:12 UTC"
LONG_AGO = "Mon, 16 Nov 2009 14:02:12 UTC"


def token(text: str, expires: str = NEVER) -> Reply:
    return Reply(headers={"X-Rucio-Auth-Token": text, "X-Rucio-Auth-Token-Expires": expires})


def refusal(status: int, kind: str, message: str = "it is so") -> Reply:
    told = {"ExceptionClass": kind, "ExceptionMessage": message}
    return Reply(status, json.dumps(told).encode(), told)


def logging_in(script: Script) -> Script:
    """Logs everybody in, and does all else by the script."""
    return lambda call: token("a-token") if call.path.startswith("/auth") else script(call)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with services(tmp_path) as url:
        yield url


@pytest.fixture
async def rucio(url: str) -> AsyncIterator[Rucio]:
    async with stand_in_rucio(url) as rucio:
        yield rucio


async def insert(url: str, block: str, site: str = "T2_DE_DESY", files: int = 2) -> None:
    """A block in the stand-in DBS, made at that site."""
    dataset, _, number = block.partition("#")
    bulk = {
        "dataset": {"dataset": dataset},
        "block": {"block_name": block, "origin_site_name": site},
        "files": [{"logical_file_name": f"/store/data/{number}/{k}.root"} for k in range(files)],
    }
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(f"{url}/dbs/bulkblocks", json=bulk)).raise_for_status()


@pytest.mark.parametrize(
    ("rse", "site"),
    [
        ("T1_US_FNAL_Disk", "T1_US_FNAL"),
        ("T2_DE_DESY", "T2_DE_DESY"),
        ("T2_UK_SGrid_RALPP", "T2_UK_SGrid_RALPP"),
        ("T2_CH_CERN_Temp", None),
        ("T1_US_FNAL_Tape", None),
        ("T0_CH_CERN_Export", None),
        ("T1_UK_RAL_Buffer", None),
        ("T2_US_Purdue_Test", None),
        ("T1_US_FNAL_Disk_Test", None),
        ("MOCK-POSIX", None),
        ("T2_DE_DESY; rm", None),
    ],
)
def test_a_storage_belongs_to_a_site_unless_jobs_do_not_read_there(rse: str, site: str | None) -> None:
    assert site_of(rse) == site


async def test_a_block_is_where_all_of_it_is_on_disk(url: str, rucio: Rucio) -> None:
    await insert(url, BLOCK)
    assert await rucio.block_sites([BLOCK]) == {BLOCK: ("T2_DE_DESY",)}

    places = {"T2_US_Purdue": 2, "T1_US_FNAL_Disk": 2, "T1_US_FNAL_Tape": 2, "T2_CH_CERN": 1}
    await place_block(url, BLOCK, places)

    assert await rucio.block_sites([BLOCK]) == {BLOCK: ("T1_US_FNAL", "T2_US_Purdue")}


async def test_a_block_that_rucio_does_not_know_is_nowhere(url: str, rucio: Rucio) -> None:
    await insert(url, BLOCK)
    unknown = f"{DATASET}#2"

    assert await rucio.block_sites([unknown, BLOCK]) == {BLOCK: ("T2_DE_DESY",), unknown: ()}
    assert await rucio.block_sites([BLOCK], scope="user.somebody") == {BLOCK: ()}
    assert await rucio.block_sites([]) == {}


async def test_a_block_that_rucio_has_not_counted_yet_is_where_all_its_files_are(rucio: Rucio) -> None:
    """Rucio lists a block where a rule wants it, and counts its files there some time after they have come."""
    await rucio.add_block(DATASET, BLOCK)
    assert await rucio.block_sites([BLOCK]) == {BLOCK: ()}
    await rucio.add_files(BLOCK, RSE, replicas(2))
    await rucio.add_files(BLOCK, ELSEWHERE, replicas(1))
    assert await rucio.block_sites([BLOCK]) == {BLOCK: (RSE,)}
    assert await rucio.dataset_sites([DATASET]) == {DATASET: (RSE,)}


async def test_many_blocks_are_asked_for_in_few_calls_and_with_one_login() -> None:
    blocks = [f"{DATASET}#{number}" for number in range(2 * BLOCKS_PER_CALL + 1)]

    def everywhere(call: Call) -> Reply:
        rows = ({**did, "rse": RSE, "state": "AVAILABLE"} for did in json.loads(call.body)["dids"])
        return Reply(content=b"".join(json.dumps(row).encode() + b"\n" for row in rows))

    with wire(logging_in(everywhere)) as line:
        async with rucio_at(line.url) as rucio:
            found = await rucio.block_sites(blocks + blocks[:10])

    sizes = [len(json.loads(call.body)["dids"]) for call in line.calls if call.method == "POST"]
    assert found == dict.fromkeys(blocks, (RSE,))
    assert sorted(sizes) == [1, BLOCKS_PER_CALL, BLOCKS_PER_CALL]
    assert line.count(LOGIN) == 1


async def test_a_dataset_is_where_every_block_of_it_is(url: str, rucio: Rucio) -> None:
    pileup, other, lost = DATASET, "/Other/Run2024A-v1/RAW", "/Lost/Run2024A-v1/RAW"
    blocks = {f"{pileup}#1": "T2_DE_DESY", f"{pileup}#2": "T2_DE_DESY", f"{other}#3": "T2_CH_CERN"}
    for block, site in {**blocks, f"{lost}#4": "UNKNOWN"}.items():
        await insert(url, block, site)
    await place_block(url, f"{pileup}#1", {"T2_DE_DESY": 2, "T1_US_FNAL_Disk": 2})

    assert await rucio.dataset_sites([pileup, other, lost, "/No/Such-v1/RAW"]) == {
        pileup: ("T2_DE_DESY",),
        other: ("T2_CH_CERN",),
        lost: (),
        "/No/Such-v1/RAW": (),
    }


async def test_a_token_is_renewed_before_it_expires() -> None:
    with wire(lambda call: token("a-token", LONG_AGO) if call.path.startswith("/auth") else Reply()) as line:
        async with rucio_at(line.url) as rucio:
            await rucio.rules_of(BLOCK)
            await rucio.rules_of(BLOCK)
    assert line.count(LOGIN) == 2


class Guard:
    """Knows the token that it gave last, until it forgets it."""

    def __init__(self) -> None:
        self.given = 0
        self.known = ""

    def __call__(self, call: Call) -> Reply:
        if call.path.startswith("/auth"):
            self.given += 1
            self.known = f"token-{self.given}"
            return token(self.known)
        if call.headers["X-Rucio-Auth-Token"] != self.known:
            return refusal(401, "CannotAuthenticate", "Cannot authenticate with given credentials")
        return Reply()


async def test_an_expired_token_is_renewed_once_for_many_calls_at_once() -> None:
    guard = Guard()
    with wire(guard) as line:
        async with rucio_at(line.url) as rucio:
            await rucio.block_sites([BLOCK])
            guard.known = "of another server"
            await asyncio.gather(*(rucio.block_sites([BLOCK]) for _ in range(20)))
            await asyncio.gather(*(rucio.file_places([BLOCK]) for _ in range(20)))
    assert line.count(LOGIN) == 2


async def test_a_new_token_that_is_refused_as_well_is_final() -> None:
    script = logging_in(lambda _: refusal(401, "CannotAuthenticate", "Cannot authenticate"))
    with wire(script) as line:
        async with rucio_at(line.url) as rucio:
            with pytest.raises(
                Unauthorised, match="datasets_bulk with 401: Cannot authenticate; check WMS2_RUCIO"
            ):
                await rucio.block_sites([BLOCK])
    assert line.count(LOGIN) == 2


async def test_one_who_may_not_do_it_does_not_log_in_again() -> None:
    with wire(logging_in(lambda _: refusal(401, "AccessDenied", "Account wms2 can not do it"))) as line:
        async with rucio_at(line.url) as rucio:
            with pytest.raises(Unauthorised, match="Account wms2 can not do it; check WMS2_RUCIO_ACCOUNT"):
                await rucio.delete_rule(RULE_ID)
    assert line.count(LOGIN) == 1


async def test_a_wrong_password_is_refused(url: str) -> None:
    async with Rucio(f"{url}/rucio", "wms2", Password("wms2", SECRET)) as rucio:
        with pytest.raises(
            Unauthorised, match=r"Cannot authenticate to account wms2.*; check WMS2_RUCIO_ACCOUNT"
        ):
            await rucio.block_sites([BLOCK])


async def test_a_token_of_the_experiment_is_rucios_own_and_read_again_when_it_is_renewed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    with wire(lambda _: Reply()) as line:
        async with Rucio(line.url, "wms2", TokenFile(file)) as rucio:
            for text in ("first.jwt", "second.jwt.longer"):
                file.write_text(f"{text}\n")
                await rucio.rules_of(BLOCK)
    shown = [call.headers["X-Rucio-Auth-Token"] for call in line.calls]
    assert shown == ["first.jwt", "second.jwt.longer"]


@pytest.mark.parametrize("password", ["", f"{SECRET}\n", f" {SECRET}", f"{SECRET}\r\nX: y", f"{SECRET}é"])
def test_a_password_that_no_header_can_carry_is_refused_unseen(password: str) -> None:
    with pytest.raises(UserError, match="plain ASCII") as error:
        Password("wms2", password)
    assert SECRET not in str(error.value)


ROW = b'{"name": "/MinBias/Run2024A-v1/RAW#1", "rse": "T2_DE_DESY", "state": "AVAILABLE"}\n'
SUB_CONTAINER = b'{"name": "/Inner/Run2024A-v1/RAW", "type": "CONTAINER"}\n'


@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (Reply(500), Unavailable, "datasets_bulk with 500"),
        (Reply(503), Unavailable, "with 503"),
        (Reply(429), Unavailable, "with 429"),
        (refusal(403, "", "not yours"), Unauthorised, "with 403: not yours"),
        (Reply(404), Refused, "with 404: Not Found"),
        (Reply(302), Refused, "elsewhere: check its URL"),
        (refusal(500, "InvalidObject"), BrokenRequest, "with 500: it is so"),
        (refusal(500, "FileConsistencyMismatch"), Refused, "with 500: it is so"),
        (refusal(500, "AccessDenied"), Unauthorised, "with 500: it is so"),
        (refusal(500, "AccountNotFound"), NotFound, "with 500: it is so"),
        (refusal(500, "RucioException"), Unavailable, "with 500: it is so"),
        (refusal(503, "RSEWriteBlocked"), Unavailable, "with 503: it is so"),
        (refusal(401, "UnsupportedOperation"), Refused, "with 401: it is so"),
        (refusal(409, "InsufficientAccountLimit"), Refused, "with 409: it is so"),
        (refusal(409, "ReplicationRuleCreationTemporaryFailed"), Unavailable, "with 409"),
        (Reply(content=b"<html>"), Unavailable, "no JSON"),
        (Reply(content=b'{"name": 1}\n'), Unavailable, "a row that it should not have"),
        (Reply(content=ROW[:-3]), Unavailable, "end in the middle"),
        (Reply(content=ROW, cut="half"), Unavailable, "does not answer"),
    ],
)
async def test_trouble_that_passes_is_told_from_a_refusal(
    reply: Reply, error: type[Exception], told: str
) -> None:
    with wire(logging_in(lambda _: reply)) as line:
        async with rucio_at(line.url) as rucio:
            with pytest.raises(error, match=told) as raised:
                await rucio.block_sites([BLOCK])
    assert type(raised.value) is error


def test_every_error_of_rucio_is_known_to_the_retry_presets() -> None:
    for kind in EXCEPTIONS.values():
        assert (kind.__name__ in FINAL) == issubclass(kind, Refused)


async def test_a_wrong_url_is_not_taken_for_something_that_is_not_there() -> None:
    """Else a rule would be deleted, and a block have no rules, because of a spelling mistake."""
    with wire(logging_in(lambda _: Reply(404))) as line:
        async with rucio_at(line.url) as rucio:
            for call in (rucio.delete_rule(RULE_ID), rucio.rule(RULE_ID), rucio.rules_of(BLOCK)):
                with pytest.raises(Refused, match="with 404: Not Found"):
                    await call
    with wire(lambda _: Reply(404)) as line:
        async with rucio_at(line.url) as rucio:
            with pytest.raises(Refused, match="auth/userpass with 404"):
                await rucio.rules_of(BLOCK)


async def test_a_container_of_containers_is_refused_because_no_one_knows_all_of_it() -> None:
    with wire(logging_in(lambda _: Reply(content=SUB_CONTAINER))) as line:
        async with rucio_at(line.url) as rucio:
            with pytest.raises(Refused, match="holds /Inner/Run2024A-v1/RAW, which is no block"):
                await rucio.dataset_sites([DATASET])


async def test_a_server_that_is_not_there_or_is_no_rucio_is_unavailable() -> None:
    with wire(lambda _: Reply()) as line:
        async with rucio_at(line.url) as rucio:
            with pytest.raises(Unavailable, match="without a token"):
                await rucio.block_sites([BLOCK])
    async with rucio_at(line.url) as rucio:
        with pytest.raises(Unavailable, match="does not answer"):
            await rucio.block_sites([BLOCK])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_certificates(tmp_path_factory.mktemp("certificates"), "server", "wms2")


@pytest.fixture
def secure_auth(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Gives a token to whoever shows the certificate of wms2."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))

    def script(call: Call) -> Reply:
        assert (call.path, call.headers["X-Rucio-Account"]) == ("/auth/x509", "wms2")
        known = call.client == "wms2"
        return token("by-certificate") if known else refusal(401, "CannotAuthenticate")

    with wire(script, secure(certificates)) as line:
        yield line.url


@pytest.mark.parametrize("files", [("wms2.pem", "wms2.key"), ("wms2.proxy", None)])
async def test_a_certificate_or_a_proxy_logs_in_at_a_server_of_its_own(
    certificates: Path, secure_auth: str, files: tuple[str, str | None]
) -> None:
    login = Certificate(certificates / files[0], certificates / files[1] if files[1] else None)
    with wire(lambda _: Reply()) as line:
        async with Rucio(line.url, "wms2", login, auth_url=secure_auth) as rucio:
            assert await rucio.rules_of(BLOCK) == []
    assert [call.headers["X-Rucio-Auth-Token"] for call in line.calls] == ["by-certificate"]


async def test_a_certificate_that_is_not_ours_or_not_there_logs_nobody_in(
    certificates: Path, secure_auth: str
) -> None:
    strange = Certificate(certificates / "server.pem", certificates / "server.key")
    missing = Certificate(certificates / "none.pem")
    async with Rucio(secure_auth, "wms2", strange) as rucio:
        with pytest.raises(Unauthorised, match=r"auth/x509 with 401.*check WMS2_RUCIO_ACCOUNT and"):
            await rucio.block_sites([BLOCK])
    async with Rucio(secure_auth, "wms2", missing) as rucio:
        with pytest.raises(Unavailable, match=r"none\.pem cannot be used"):
            await rucio.block_sites([BLOCK])


async def test_each_step_of_a_block_made_twice_is_as_good_as_once(rucio: Rucio) -> None:
    await assert_each_step_twice_is_as_good_as_once(rucio, DATASET)


async def test_a_block_lives_the_same_life_wherever_the_line_goes_dead_after_rucio_acted(url: str) -> None:
    await assert_life_goes_on_wherever_it_is_cut(f"{url}/rucio", rucio_at, DATASET)


async def test_a_file_is_put_into_an_open_block_beside_others(rucio: Rucio) -> None:
    files = replicas(5)
    await rucio.add_block(DATASET, BLOCK)
    for some in (files[:3], files[2:], files):
        await rucio.add_files(BLOCK, RSE, some)
    assert await rucio.file_places([BLOCK]) == {file.lfn: {RSE: "AVAILABLE"} for file in files}


async def test_a_dataset_that_somebody_closed_takes_no_block_but_keeps_those_it_has(
    url: str, rucio: Rucio
) -> None:
    await rucio.add_block(DATASET, BLOCK)
    await rucio.call("PUT", f"dids/cms/{quote_plus(DATASET)}/status", json={"open": False})
    await rucio.add_block(DATASET, BLOCK)
    with pytest.raises(Refused, match="is closed"):
        await rucio.add_block(DATASET, f"{DATASET}#2")


async def test_files_that_somebody_else_adds_at_the_same_moment_are_trouble_that_passes() -> None:
    """Files that are in the block already are no hindrance, so what Rucio says here is true for a moment only."""

    def script(call: Call) -> Reply:
        is_attached = call.path.startswith("/dids/attachments")
        return (
            refusal(409, "FileAlreadyExists") if is_attached else Reply(201 if call.method == "POST" else 200)
        )

    with wire(logging_in(script)) as line:
        async with rucio_at(line.url) as rucio:
            with pytest.raises(Unavailable, match=f"adding other files to {BLOCK}"):
                await rucio.add_files(BLOCK, RSE, replicas(2))


async def test_a_closed_block_takes_no_file_but_keeps_those_it_has(rucio: Rucio) -> None:
    files = replicas(3)
    await rucio.add_block(DATASET, BLOCK)
    await rucio.add_files(BLOCK, RSE, files[:2])
    await rucio.close_block(BLOCK)
    await rucio.close_block(BLOCK)
    await rucio.add_files(BLOCK, RSE, files[:2])
    with pytest.raises(Refused, match="is closed"):
        await rucio.add_files(BLOCK, RSE, files)
    assert set(await rucio.file_places([BLOCK])) == {file.lfn for file in files[:2]}


@pytest.mark.parametrize("change", [{"size_bytes": 7}, {"adler32": "ffffffff"}])
async def test_a_file_that_rucio_knows_otherwise_is_refused(rucio: Rucio, change: dict[str, Any]) -> None:
    (file,) = replicas(1)
    await rucio.add_block(DATASET, BLOCK)
    await rucio.add_files(BLOCK, RSE, [file])
    with pytest.raises(Refused, match="mismatch"):
        await rucio.add_files(BLOCK, RSE, [file.model_copy(update=change)])
    await rucio.close_block(BLOCK)
    with pytest.raises(Refused):
        await rucio.add_files(BLOCK, RSE, [file.model_copy(update=change)])


async def test_what_is_not_there_cannot_be_filled_closed_or_held(rucio: Rucio) -> None:
    with pytest.raises(NotFound, match="RSE 'T2_XX_None' cannot be found"):
        await rucio.add_files(BLOCK, "T2_XX_None", replicas(1))
    with pytest.raises(NotFound, match="attachments with 404"):
        await rucio.add_files(BLOCK, RSE, replicas(1))
    with pytest.raises(NotFound):
        await rucio.close_block(BLOCK)
    with pytest.raises(NotFound):
        await rucio.add_rule(BLOCK, RSE, comment="source")
    assert await rucio.rules_of(BLOCK) == []
    assert await rucio.rule(RULE_ID) is None
    assert await rucio.file_places([BLOCK]) == {}
    await rucio.delete_rule(RULE_ID)


async def test_a_rule_needs_an_expression_that_names_a_storage(rucio: Rucio) -> None:
    await rucio.add_block(DATASET, BLOCK)
    for expression in ("T2_XX_None", "", "(("):
        with pytest.raises(BrokenRequest):
            await rucio.add_rule(BLOCK, expression, comment="source")


async def test_a_rule_that_was_deleted_is_brought_back_by_making_it_again(rucio: Rucio) -> None:
    await rucio.add_block(DATASET, BLOCK)
    first = await rucio.add_rule(BLOCK, RSE, comment="source")
    await rucio.delete_rule(first)
    await rucio.delete_rule(first)
    dying = await rucio.rule(first)
    assert dying is not None
    assert dying.expires_at is not None
    assert dying.expires_at - datetime.now(UTC) < timedelta(hours=2)

    assert await rucio.add_rule(BLOCK, RSE, comment="source") == first
    assert lifetime(await rucio.rule(first)) is None


def lifetime(rule: Rule | None) -> timedelta | None:
    assert rule is not None
    return rule.expires_at - datetime.now(UTC) if rule.expires_at else None


async def test_a_rule_with_a_lifetime_lives_so_long_from_the_last_time_it_was_asked_for(rucio: Rucio) -> None:
    await rucio.add_block(DATASET, BLOCK)
    for day in (1, 3):
        rule = await rucio.add_rule(BLOCK, RSE, comment="input", lifetime_sec=day * 86400)
        lives = lifetime(await rucio.rule(rule))
        assert lives is not None
        assert abs(lives - timedelta(days=day)) < timedelta(hours=1)


async def test_a_rule_of_another_account_or_with_other_copies_is_another_rule() -> None:
    row = {
        "id": RULE_ID, "name": BLOCK, "account": "somebody", "rse_expression": RSE, "copies": 1, "state": "OK",
        "locks_ok_cnt": 1, "locks_replicating_cnt": 0, "locks_stuck_cnt": 0, "error": None, "expires_at": None,
    }  # fmt: skip
    mine = {**row, "id": "f" * 32, "account": "wms2"}

    def listing(*rows: dict[str, Any]) -> Script:
        content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        exists = refusal(409, "DuplicateRule")
        return logging_in(lambda call: exists if call.method == "POST" else Reply(content=content))

    with wire(listing(row, {**mine, "id": "e" * 32, "copies": 2}, mine)) as line:
        async with rucio_at(line.url) as rucio:
            assert await rucio.add_rule(BLOCK, RSE, comment="source") == "f" * 32
    with wire(listing(row)) as line:
        async with rucio_at(line.url) as rucio:
            with pytest.raises(Unavailable, match="does not list it"):
                await rucio.add_rule(BLOCK, RSE, comment="source")


@pytest.mark.parametrize("rule_id", ["", "x", "../dids", "0123456789ABCDEF0123456789ABCDEF"])
async def test_what_is_no_id_of_a_rule_is_not_sent(rucio: Rucio, rule_id: str) -> None:
    with pytest.raises(BrokenRequest, match="is not the id of a rule"):
        await rucio.rule(rule_id)
    with pytest.raises(BrokenRequest, match="is not the id of a rule"):
        await rucio.delete_rule(rule_id)


async def test_expressions_name_storage_and_a_site_has_a_disk(url: str, rucio: Rucio) -> None:
    assert await rucio.rses(f"{RSE}|{ELSEWHERE}") == [ELSEWHERE, RSE]
    assert await rucio.rses("T2_XX_None") == []
    for broken in ("", "(("):
        with pytest.raises(BrokenRequest):
            await rucio.rses(broken)
    with wire(passed_on(f"{url}/rucio")) as line:
        async with rucio_at(line.url) as counted:
            for _ in range(3):
                assert await counted.disk_rse("T1_US_FNAL") == ELSEWHERE
                assert await counted.disk_rse("T2_DE_DESY") == RSE
            with pytest.raises(NotFound, match="knows no disk of T2_XX_None"):
                await counted.disk_rse("T2_XX_None")
    assert line.count("GET /rses/") == 3


async def test_of_ten_thousand_files_no_more_are_in_memory_than_are_being_sent() -> None:
    taken, ahead, sizes = 0, [], []

    def files() -> Iterator[Replica]:
        nonlocal taken
        for file in replicas(10_000):
            taken += 1
            yield file

    def script(call: Call) -> Reply:
        if call.path == "/replicas":
            sizes.append(len(json.loads(call.body)["files"]))
            ahead.append(taken - sum(sizes))
        return Reply(201)

    with wire(logging_in(script)) as line:
        async with rucio_at(line.url) as rucio:
            await rucio.add_files(BLOCK, RSE, files())
    assert sizes == [FILES_PER_CALL] * (10_000 // FILES_PER_CALL)
    assert set(ahead) == {0}
    assert line.count("POST /dids/attachments") == len(sizes)


async def test_without_settings_it_is_the_stand_in_of_the_stack(tmp_path: Path, url: str) -> None:
    await insert(url, BLOCK)
    async with connect_rucio(Settings(home=tmp_path, services_url=url)) as rucio:
        assert await rucio.block_sites([BLOCK]) == {BLOCK: ("T2_DE_DESY",)}


async def test_a_rucio_of_the_settings_needs_a_way_to_log_in(tmp_path: Path, url: str) -> None:
    here = Settings(home=tmp_path, rucio_url=f"{url}/rucio")
    with pytest.raises(UserError, match="set WMS2_CERTIFICATE, WMS2_TOKEN_FILE, or WMS2_RUCIO_USER"):
        connect_rucio(here)
    named = here.model_copy(update={"rucio_user": "wms2", "rucio_password": "wms2"})
    async with connect_rucio(named) as rucio:
        assert await rucio.block_sites([BLOCK]) == {BLOCK: ()}
    by_file = named.model_copy(update={"rucio_certificate": tmp_path / "none.pem"})
    async with connect_rucio(by_file) as rucio:
        with pytest.raises(Unavailable, match=r"none\.pem cannot be used"):
            await rucio.block_sites([BLOCK])
