"""Who is let in by the REST service, and to what. Its servers do not answer here: who is let in finds that out."""

import asyncio
import base64
import hashlib
import hmac
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.api_kit import (
    ADMIN,
    AUDIENCE,
    INDEPENDENT,
    INHERIT_ALL,
    LIMITED,
    NOBODY,
    OPERATOR,
    REQUESTOR,
    Authority,
    Issuer,
    config_for,
    issuing,
    nowhere,
    rsa_key,
    serving,
)
from tests.patience import PATIENCE_SEC
from wms2.api.app import operations
from wms2.api.config import ApiConfig, Role, read_config
from wms2.api.service import THREADS
from wms2.api.subjects import spelled
from wms2.api.tokens import Keys
from wms2.errors import UserError

EXAMPLE = Path(__file__).parents[2] / "examples/simulation.yaml"
LISTING = "/api/v1/requests"
SECRET = "a secret of more than sixteen"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as one:
        yield one


@pytest.fixture(scope="module")
def service(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("api")
    secret = folder / "secret"
    secret.write_text(SECRET)
    config = config_for(
        issuer,
        largest_body=10_000,
        proxy={"addresses": ["127.0.0.1/32"], "secret_file": str(secret)},
        grants=[{"role": "operator", "dn": "/DC=ch/CN=Front End User"}],
    )
    with serving(nowhere(folder), config) as url, httpx.Client(base_url=url, timeout=PATIENCE_SEC) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def assert_is_a_problem(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert (said["status"], bool(said["title"])) == (status, True)
    assert "Traceback" not in answer.text
    return str(said["detail"])


def was_let_in(answer: httpx.Response) -> bool:
    return answer.status_code not in (401, 403)


ROUTES = [(method, path, role) for method, path, role in operations()]


def filled(path: str) -> str:
    values = {"name": "some_request", "dag": "some:0:1", "site": "T2_CH_CERN", "host": "somewhere"}
    values["workflow_id"] = "550e8400-e29b-41d4-a716-446655440000"
    return path.format(**values)


@pytest.mark.parametrize(("method", "path", "role"), ROUTES, ids=[f"{m} {p}" for m, p, _ in ROUTES])
def test_each_role_gets_as_far_as_it_may(
    service: httpx.Client, issuer: Issuer, method: str, path: str, role: Role
) -> None:
    nobody = service.request(method, filled(path))
    assert_is_a_problem(nobody, 401)
    assert nobody.headers["www-authenticate"].startswith("Bearer")
    assert_is_a_problem(service.request(method, filled(path), headers=bearer(issuer.token(NOBODY))), 403)
    for subject, has in ((REQUESTOR, Role.REQUESTOR), (OPERATOR, Role.OPERATOR), (ADMIN, Role.ADMIN)):
        answer = service.request(method, filled(path), headers=bearer(issuer.token(subject)))
        assert was_let_in(answer) is (has.rank >= role.rank), (subject, answer.text)


def test_the_operations_that_change_something_for_others_need_an_operator() -> None:
    for requestors in [(m, p) for m, p, role in ROUTES if role is Role.REQUESTOR and m != "GET"]:
        assert requestors in [
            ("POST", "/api/v1/requests"),
            ("DELETE", "/api/v1/requests/{name}"),
            ("POST", "/api/v1/requests/{name}/abort"),
        ]
    assert {path for _, path, role in ROUTES if role is Role.ADMIN} == {
        "/api/v1/admission/config",
        "/api/v1/admission/drain",
        "/api/v1/admission/resume",
        "/api/v1/hosts/{host}/disable",
        "/api/v1/hosts/{host}/enable",
        "/api/v1/hosts/{host}/lost",
    }


def test_only_health_is_open_and_it_says_which_server_is_silent(service: httpx.Client) -> None:
    seen = service.get("/api/v1/health")
    assert (seen.status_code, seen.json()) == (
        503,
        {"status": "degraded", "database": "silent", "temporal": "silent"},
    )
    for path in ("/", "/docs", "/openapi.json", "/api/v1/openapi.json", "/api/v1/health/", "/api/v1/nothing"):
        assert_is_a_problem(service.get(path), 401)


def test_a_server_that_is_silent_is_told_with_the_time_to_ask_again(
    service: httpx.Client, issuer: Issuer
) -> None:
    answer = service.get(LISTING, headers=bearer(issuer.token(OPERATOR)))
    assert "database does not answer" in assert_is_a_problem(answer, 503)
    assert int(answer.headers["retry-after"]) > 0
    answer = service.get("/api/v1/admission/queue", headers=bearer(issuer.token(OPERATOR)))
    assert assert_is_a_problem(answer, 503) == "Temporal does not answer; ask again in a moment"


def test_settings_of_ours_that_are_wrong_are_no_mistake_of_the_callers(
    issuer: Issuer, tmp_path: Path
) -> None:
    settings = nowhere(tmp_path).model_copy(update={"temporal_tls_cert": tmp_path / "no_such_file"})
    with serving(settings, config_for(issuer)) as url:
        headers = bearer(issuer.token(OPERATOR))
        answer = httpx.get(f"{url}/api/v1/admission/queue", headers=headers, timeout=PATIENCE_SEC)
    assert "cannot call Temporal" in assert_is_a_problem(answer, 503)
    assert "no_such_file" not in answer.text


def test_a_database_that_takes_calls_and_never_answers_is_given_up_on(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.api.service.ANSWER_SEC", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"postgresql://nobody@127.0.0.1:{mute.getsockname()[1]}/none"
        settings = nowhere(tmp_path).model_copy(update={"database_url": address})
        with serving(settings, config_for(issuer)) as url:
            answer = httpx.get(
                f"{url}{LISTING}", headers=bearer(issuer.token(OPERATOR)), timeout=PATIENCE_SEC
            )
            assert "takes too long" in assert_is_a_problem(answer, 503)
            assert answer.headers["retry-after"]


def test_an_import_that_takes_too_long_is_given_up_on(
    service: httpx.Client, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_: object) -> None: ...

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("wms2.temporal.connection.connect", at_once)
    monkeypatch.setattr("wms2.api.requests.check_action_id", lambda *_: None)
    monkeypatch.setattr("wms2.door.direct_requests.take_on", never)
    monkeypatch.setattr("wms2.api.requests.IMPORT_SEC", 0.5)
    order = {"request_name": "some_request", "source": "reqmgr2"}
    answer = service.post(LISTING, json=order, headers=bearer(issuer.token(OPERATOR)))
    assert "takes too long" in assert_is_a_problem(answer, 503)


def unsigned(claims: dict[str, Any], **header: str) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"typ": "JWT", "kid": "key-1", **header}, claims)
    ]
    return ".".join([*parts, ""])


def hostile_tokens(issuer: Issuer) -> dict[str, str]:
    now = int(time.time())
    claims = {
        "iss": issuer.url, "sub": ADMIN, "aud": AUDIENCE, "exp": now + 3600, "wlcg.ver": "1.0",
    }  # fmt: skip
    public = (
        rsa_key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    good = issuer.token(ADMIN)
    signed = unsigned(claims, alg="HS256").rstrip(".")
    mac = base64.urlsafe_b64encode(hmac.digest(public, signed.encode(), hashlib.sha256)).rstrip(b"=").decode()
    return {
        "alg none": unsigned(claims, alg="none"),
        "alg None": unsigned(claims, alg="None"),
        "the public key as a shared secret": f"{signed}.{mac}",
        "somebody else's key": issuer.token(ADMIN, key=other),
        "a key of its own in the header": jwt.encode(
            claims, other, "RS256", headers={"jwk": {"kty": "RSA"}, "jku": "http://127.0.0.1:9/", "kid": "key-1"}
        ),
        "a key that is unknown": jwt.encode(claims, rsa_key(), "RS256", headers={"kid": "../../etc/passwd"}),
        "another algorithm of the same key": issuer.token(ADMIN, algorithm="RS512"),
        "another audience": issuer.token(ADMIN, aud="https://elsewhere.example.org"),
        "no audience": issuer.token(ADMIN, aud=None),
        "another issuer": issuer.token(ADMIN, iss="https://elsewhere.example.org"),
        "no issuer": issuer.token(ADMIN, iss=None),
        "expired": issuer.token(ADMIN, exp=now - 3600),
        "no end": issuer.token(ADMIN, exp=None),
        "not yet": issuer.token(ADMIN, nbf=now + 3600),
        "no subject": issuer.token(ADMIN, sub=None),
        "a subject of nobody": issuer.token(" "),
        "a subject of many lines": issuer.token("admin-1\nX-Role: admin"),
        "an endless subject": issuer.token("a" * 500),
        "no wlcg.ver": issuer.token(ADMIN, **{"wlcg.ver": None}),
        "another profile": issuer.token(ADMIN, **{"wlcg.ver": "9"}),
        "cut": good[:-10],
        "changed": good.replace(".", ".A", 1),
        "no token": "a.b.c",
        "not even that": "%00",
        "too long": "a" * 20_000,
        "nested": base64.urlsafe_b64encode(b"[" * 5000).decode() + ".e30.e30",
    }  # fmt: skip


def test_a_token_that_is_not_what_it_should_be_is_refused_in_one_sentence(
    service: httpx.Client, issuer: Issuer
) -> None:
    told = {}
    for what, token in hostile_tokens(issuer).items():
        answer = service.get(LISTING, headers=bearer(token))
        told[what] = assert_is_a_problem(answer, 401)
        assert token not in answer.text
    assert "has expired" in told["expired"]
    assert AUDIENCE in told["another audience"]
    assert "wlcg.ver" in told["no wlcg.ver"]


def test_other_ways_to_say_who_one_is_are_refused(service: httpx.Client, issuer: Issuer) -> None:
    good = issuer.token(OPERATOR)
    for header in ("Basic YTpi", good, "Bearer", f"Bearer {good} {good}", f"Token {good}"):
        assert_is_a_problem(service.get(LISTING, headers={"Authorization": header}), 401)
    twice = [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {issuer.token(ADMIN)}")]
    assert_is_a_problem(service.get(LISTING, headers=twice), 401)
    assert_is_a_problem(service.get(LISTING, params={"access_token": good}), 401)
    assert was_let_in(service.get(LISTING, headers={"Authorization": f"bearer {good}"}))


def test_an_issuer_is_not_asked_for_its_keys_as_often_as_strangers_like(
    service: httpx.Client, issuer: Issuer
) -> None:
    service.get(LISTING, headers=bearer(issuer.token(OPERATOR)))
    before = issuer.asked
    claims = {"iss": issuer.url, "sub": ADMIN, "aud": AUDIENCE}
    for number in range(20):
        token = jwt.encode(claims, rsa_key(), "RS256", headers={"kid": f"key-of-mine-{number}"})
        service.get(LISTING, headers=bearer(token))
    assert issuer.asked - before <= 2


def test_a_key_that_names_no_algorithm_serves_each_that_its_issuer_may_use(tmp_path: Path) -> None:
    with issuing() as issuer:
        (key,) = issuer.keys()["keys"]
        issuer.keys = lambda: {"keys": [{**key, "alg": None}, {"kty": "new"}]}  # type: ignore[method-assign]
        trusted = {"issuer": issuer.url, "audiences": [AUDIENCE], "algorithms": ["RS256", "RS512", "ES256"]}
        with serving(nowhere(tmp_path), config_for(issuer, issuers=[trusted])) as url:

            def call(token: str) -> httpx.Response:
                return httpx.get(f"{url}{LISTING}", headers=bearer(token), timeout=PATIENCE_SEC)

            assert was_let_in(call(issuer.token(OPERATOR)))
            assert was_let_in(call(issuer.token(OPERATOR, algorithm="RS512")))
            assert_is_a_problem(call(issuer.token(OPERATOR, algorithm="RS384")), 401)
            curve = ec.generate_private_key(ec.SECP256R1())
            assert_is_a_problem(call(issuer.token(OPERATOR, key=curve, algorithm="ES256")), 401)


async def test_who_has_a_known_key_does_not_wait_for_those_who_have_not(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked = asyncio.Event()

    async def never(*_: object) -> dict[str, Any]:
        is_asked.set()
        await asyncio.Event().wait()
        return {}

    keys = Keys(config_for(issuer).issuers[0])
    await keys.find("key-1")
    monkeypatch.setattr("wms2.api.tokens._document", never)
    monkeypatch.setattr("wms2.api.tokens.ASK_AGAIN_SEC", 0.0)
    monkeypatch.setattr("wms2.api.tokens.FETCH_SEC", 600.0)
    stranger = asyncio.create_task(keys.find("key-of-mine"))
    async with asyncio.timeout(60):
        await is_asked.wait()
        assert (await keys.find("key-1"))["kid"] == "key-1"
    stranger.cancel()


def fronted(**headers: str) -> dict[str, str]:
    usual = {
        "X-Proxy-Secret": SECRET,
        "X-SSL-Client-Verify": "SUCCESS",
        "X-SSL-Client-S-DN": "/DC=ch/CN=Front End User",
    }
    return usual | {name.replace("_", "-"): value for name, value in headers.items()}


def test_the_front_ends_word_is_believed_with_its_secret_only(service: httpx.Client) -> None:
    assert was_let_in(service.get(LISTING, headers=fronted()))
    assert was_let_in(service.get(LISTING, headers=fronted(X_SSL_Client_S_DN="CN=Front End User,DC=ch")))
    for spoofed in (
        fronted(X_Proxy_Secret="another secret of that length"),
        {name: value for name, value in fronted().items() if name != "X-Proxy-Secret"},
        fronted(X_SSL_Client_Verify="NONE"),
        fronted(X_SSL_Client_Verify="FAILED:expired"),
        fronted(X_SSL_Client_S_DN=""),
        fronted(X_SSL_Client_S_DN="DC=ch/CN=Front End User"),
        {"X-Forwarded-For": "127.0.0.1", "X-Remote-User": "admin", "X-SSL-Client-S-DN": "/CN=x"},
    ):
        assert_is_a_problem(service.get(LISTING, headers=spoofed), 401)
    twice = [*fronted().items(), ("X-SSL-Client-S-DN", "/DC=ch/CN=Somebody")]
    assert_is_a_problem(service.get(LISTING, headers=twice), 401)
    stranger = fronted(X_SSL_Client_S_DN="/DC=ch/CN=Somebody Else")
    assert "has no role here" in assert_is_a_problem(service.get(LISTING, headers=stranger), 403)


def test_a_web_page_changes_nothing_with_the_certificate_of_its_visitor(service: httpx.Client) -> None:
    stop = f"{LISTING}/some_request/stop"
    for origin in ("https://elsewhere.example.org", "null", ""):
        answer = service.post(stop, headers=fronted(Origin=origin))
        assert "web page" in assert_is_a_problem(answer, 403)
        assert was_let_in(service.get(LISTING, headers=fronted(Origin=origin)))
    assert was_let_in(service.post(stop, headers=fronted()))


def test_the_front_ends_headers_count_from_its_own_address_only(issuer: Issuer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    config = config_for(
        issuer,
        proxy={"addresses": ["10.11.12.0/24"], "secret_file": str(secret)},
        grants=[{"role": "operator", "dn": "/DC=ch/CN=Front End User"}],
    )
    with serving(nowhere(tmp_path), config) as url:
        assert_is_a_problem(httpx.get(f"{url}{LISTING}", headers=fronted()), 401)


def test_a_client_certificate_that_tls_has_checked_says_who_calls(issuer: Issuer, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path), Authority(tmp_path, "Another CA")
    certificate, key = ours.server()
    config = config_for(
        issuer,
        tls={
            "certificate": str(certificate), "key": str(key), "client_ca": str(ours.file),
            "proxy_certificates": True,
        },
        grants=[
            {"role": "operator", "dn": "/DC=ch/CN=operator/CN=An Operator", "name": "operator"},
            {"role": "admin", "dn": "/DC=ch/CN=root"},
        ],
    )  # fmt: skip

    def call(shown: tuple[Path, Path] | None, **headers: str) -> httpx.Response:
        return call_by_tls(url, ours.file, shown, **headers)

    with serving(nowhere(tmp_path), config) as url:
        assert was_let_in(call(ours.client("operator", "An Operator")))
        for given in ([INHERIT_ALL], [INHERIT_ALL, INHERIT_ALL]):
            assert was_let_in(call(ours.proxy_of("operator", "An Operator", policies=given)))
        for given in ([LIMITED], [INDEPENDENT], [LIMITED, INHERIT_ALL], [INHERIT_ALL, LIMITED]):
            assert_is_a_problem(call(ours.proxy_of("operator", "An Operator", policies=given)), 401)
        # The owner is who signed the proxy, whatever the owner's own name ends in.
        owner = call(ours.proxy_of("operator", "An Operator", "77"))
        assert "An Operator/CN=77 has no role" in assert_is_a_problem(owner, 403)
        assert "/DC=ch/CN=nobody" in assert_is_a_problem(call(ours.client("nobody")), 403)
        # Names that only look like one that is known.
        assert_is_a_problem(call(ours.client("operator/CN=An Operator")), 401)
        assert_is_a_problem(call(ours.client("operator", "An Operator", "12345")), 403)
        assert_is_a_problem(call(None), 401)
        assert_is_a_problem(call(None, **{"X-SSL-Client-S-DN": "/DC=ch/CN=root"}), 401)
        assert was_let_in(call(None, **bearer(issuer.token(OPERATOR))))
        with pytest.raises(httpx.TransportError):
            call(theirs.client("operator", "An Operator"))
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http") + LISTING)


def call_by_tls(url: str, authority: Path, shown: tuple[Path, Path] | None, **headers: str) -> httpx.Response:
    context = ssl.create_default_context(cafile=authority)
    if shown:
        context.load_cert_chain(*shown)
    with httpx.Client(verify=context, timeout=PATIENCE_SEC) as client:
        return client.get(f"{url}{LISTING}", headers=headers)


def assert_refused(url: str, authority: Path, shown: tuple[Path, Path]) -> None:
    with pytest.raises(httpx.TransportError):
        call_by_tls(url, authority, shown)


def test_a_certificate_that_was_revoked_is_refused_from_the_moment_that_the_list_is_there(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.api.tls.READ_AGAIN_SEC", 0.0)
    ours = Authority(tmp_path)
    (certificate, key), one, other = ours.server(), ours.client("one"), ours.client("other")
    proxy = ours.proxy_of("one")
    config = config_for(
        issuer,
        tls={
            "certificate": str(certificate), "key": str(key), "client_ca": str(ours.file),
            "revoked": str(ours.revoke(other[0])), "proxy_certificates": True,
        },
        grants=[{"role": "operator", "dn": f"/DC=ch/CN={name}"} for name in ("one", "other")],
    )  # fmt: skip
    with serving(nowhere(tmp_path), config) as url:
        assert_refused(url, ours.file, other)
        assert was_let_in(call_by_tls(url, ours.file, one))
        assert was_let_in(call_by_tls(url, ours.file, proxy))
        assert was_let_in(call_by_tls(url, ours.file, None, **bearer(issuer.token(OPERATOR))))
        assert_is_a_problem(call_by_tls(url, ours.file, None), 401)

        ours.revoke(one[0], proxy[0])
        assert_refused(url, ours.file, one)
        assert_refused(url, ours.file, proxy)
        assert was_let_in(call_by_tls(url, ours.file, other))
        assert was_let_in(call_by_tls(url, ours.file, None, **bearer(issuer.token(OPERATOR))))


def test_no_session_is_resumed_where_certificates_may_be_revoked(issuer: Issuer, tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    (certificate, key), shown = ours.server(), ours.client("one")
    config = config_for(
        issuer,
        tls={
            "certificate": str(certificate), "key": str(key), "client_ca": str(ours.file),
            "revoked": str(ours.revoke()),
        },
    )  # fmt: skip
    context = ssl.create_default_context(cafile=ours.file)
    context.load_cert_chain(*shown)
    with serving(nowhere(tmp_path), config) as url:

        def reused(session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
            line = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=PATIENCE_SEC)
            with context.wrap_socket(line, server_hostname="127.0.0.1", session=session) as caller:
                caller.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                while caller.recv(1000):
                    pass
                # Both ends part as they should, else the server would forget the session by itself.
                was, left = caller.session_reused, caller.session
                caller.unwrap()
                return was, left

        _, session = reused(None)
        assert reused(session)[0] is False
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            reused(None)


def test_certificate_and_authorities_are_renewed_without_a_restart(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("wms2.api.tls.READ_AGAIN_SEC", 0.0)
    before, after = Authority(tmp_path, "Before"), Authority(tmp_path, "After")
    before_server, after_server = before.server(), after.server()
    certificate, key, authorities = (tmp_path / name for name in ("server.pem", "server.key", "clients.pem"))

    def install(made: tuple[Path, Path], clients: Authority) -> None:
        for target, source in ((certificate, made[0]), (key, made[1]), (authorities, clients.file)):
            target.write_bytes(source.read_bytes())

    install(before_server, before)
    config = config_for(
        issuer,
        tls={"certificate": str(certificate), "key": str(key), "client_ca": str(authorities)},
        grants=[{"role": "operator", "dn": "/DC=ch/CN=one"}],
    )
    with serving(nowhere(tmp_path), config) as url:
        assert was_let_in(call_by_tls(url, before.file, before.client("one")))
        assert_refused(url, before.file, after.client("one"))

        # Half of a renewal: what was read before holds, and the log says why.
        certificate.write_bytes(after_server[0].read_bytes())
        assert was_let_in(call_by_tls(url, before.file, before.client("one")))
        assert "the certificates below tls cannot be used" in caplog.text

        install(after_server, after)
        assert was_let_in(call_by_tls(url, after.file, after.client("one")))
        assert_refused(url, after.file, before.client("one"))
        assert_refused(url, before.file, after.client("one"))
        assert_is_a_problem(call_by_tls(url, after.file, None), 401)
        assert was_let_in(call_by_tls(url, after.file, None, **bearer(issuer.token(OPERATOR))))


def test_lists_of_revoked_certificates_need_the_authorities_that_made_them(tmp_path: Path) -> None:
    path = tmp_path / "api.yaml"
    path.write_text(yaml.safe_dump({"tls": {"certificate": "a.pem", "key": "a.key", "revoked": "a.crl"}}))
    with pytest.raises(UserError, match="expected a client_ca beside revoked"):
        read_config(path)


def test_a_body_that_is_too_long_is_refused_however_it_comes(service: httpx.Client, issuer: Issuer) -> None:
    headers = bearer(issuer.token(OPERATOR))
    for content in (b" " * 20_000, b" " * 5_000_000, iter([b" " * 6_000, b" " * 6_000])):
        answer = service.post(LISTING, content=content, headers=headers)
        assert "10000 bytes" in assert_is_a_problem(answer, 413)


def test_who_calls_too_often_waits_and_the_others_do_not(issuer: Issuer, tmp_path: Path) -> None:
    config = config_for(issuer, calls_per_min=30)
    with (
        serving(nowhere(tmp_path), config) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_SEC) as client,
    ):
        answers = [client.get("/api/v1/nothing", headers=bearer(issuer.token(OPERATOR))) for _ in range(10)]
        assert [answer.status_code for answer in answers][:3] == [404, 404, 404]
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert client.get("/api/v1/nothing", headers=bearer(issuer.token(ADMIN))).status_code == 404
    config = config_for(issuer, strangers_per_min=30)
    with (
        serving(nowhere(tmp_path), config) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_SEC) as client,
    ):
        assert [client.get("/api/v1/nothing").status_code for _ in range(10)][-1] == 429
        assert client.get("/api/v1/nothing", headers=bearer(issuer.token(ADMIN))).status_code == 404


def test_a_call_that_never_says_what_it_wants_is_hung_up_on(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hung_up(*pieces: bytes) -> bool:
        with socket.create_connection(
            ("127.0.0.1", int(url.rpartition(":")[2])), timeout=PATIENCE_SEC
        ) as caller:
            try:
                for piece in pieces:
                    caller.sendall(piece)
                return caller.recv(1000) == b""
            except ConnectionError:
                return True

    with serving(nowhere(tmp_path), config_for(issuer)) as url:
        assert hung_up(b"GET /api/v1/health HTTP/1.1\r\nX: ", *([b"a" * 64_000] * 20))
    monkeypatch.setattr("wms2.api.tls.HEAD_SEC", 0.2)
    with serving(nowhere(tmp_path), config_for(issuer)) as url:
        assert hung_up(b"")
        assert hung_up(b"GET /api/v1/health HTTP/1.1\r\nX: ")
        with httpx.Client(base_url=url, timeout=PATIENCE_SEC) as client:
            assert [client.get("/api/v1/health").status_code for _ in range(3)] == [503, 503, 503]


def test_a_body_that_comes_after_the_answer_keeps_no_connection_open(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.api.tls.HEAD_SEC", 1.0)
    with serving(nowhere(tmp_path), config_for(issuer)) as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with socket.create_connection(address, timeout=PATIENCE_SEC) as caller:
            caller.sendall(b"POST /api/v1/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
            answer = b""
            while b"}" not in answer:
                answer += caller.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 401")
            caller.sendall(b"x")
            with suppress(ConnectionError):
                assert caller.recv(1000) == b""


def test_others_are_answered_while_many_documents_are_read(
    service: httpx.Client, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, others_answered = threading.Event(), threading.Event()
    operator = bearer(issuer.token(OPERATOR))

    def read_slowly(*_: object, **__: object) -> None:
        reading.set()
        assert others_answered.wait(60)
        raise UserError("it is read")

    monkeypatch.setattr("wms2.api.requests.read_request", read_slowly)
    monkeypatch.setattr("wms2.api.service.ANSWER_SEC", 60.0)
    body = {"source": "document", "request": {"request_name": "long"}}
    with ThreadPoolExecutor(THREADS) as many:
        submitting = [many.submit(service.post, LISTING, json=body, headers=operator) for _ in range(THREADS)]
        assert reading.wait(60)
        # It looks at the database, which is not there.
        assert_is_a_problem(service.get(LISTING, headers=operator), 503)
        others_answered.set()
        for answer in submitting:
            assert assert_is_a_problem(answer.result(), 422) == "it is read"


HIGH_STEP = {"production_steps": [{"fraction": 0.1, "priority": 100_001}]}


@pytest.mark.parametrize("wish", [{"priority": 100_001}, HIGH_STEP], ids=["whole", "first part"])
def test_a_requestor_asks_for_a_priority_up_to_the_ceiling_and_an_operator_for_any(
    service: httpx.Client, issuer: Issuer, wish: dict[str, Any]
) -> None:
    def submitted_by(subject: str, **wish: Any) -> httpx.Response:
        body = {"source": "document", "request": yaml.safe_load(EXAMPLE.read_text()) | wish}
        return service.post(LISTING, json=body, headers=bearer(issuer.token(subject)))

    told = assert_is_a_problem(submitted_by(REQUESTOR, **wish), 403)
    assert told == (
        "the priority 100001 is above 100000, the highest for requestors; lower it, and ask an operator "
        "for another once the request is submitted"
    )
    # No server is there: who is let in hears of that.
    assert_is_a_problem(submitted_by(REQUESTOR, priority=100_000), 503)
    assert_is_a_problem(submitted_by(OPERATOR, **wish), 503)


def test_the_ceiling_of_priorities_is_the_configured_one(issuer: Issuer, tmp_path: Path) -> None:
    body = {"source": "document", "request": yaml.safe_load(EXAMPLE.read_text()) | {"priority": 51}}
    config = config_for(issuer, highest_priority=50)
    with serving(nowhere(tmp_path), config) as url:
        asked = httpx.post(
            f"{url}{LISTING}", json=body, headers=bearer(issuer.token(REQUESTOR)), timeout=PATIENCE_SEC
        )
    assert "the priority 51 is above 50" in assert_is_a_problem(asked, 403)


def test_a_body_that_comes_drop_by_drop_is_not_waited_for(
    service: httpx.Client, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms2.api.limits.BODY_SEC", 1.0)
    token = issuer.token(OPERATOR)
    head = (
        f"POST {LISTING} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Length: 9000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", service.base_url.port or 0), timeout=PATIENCE_SEC) as caller:
        caller.sendall(head.encode())
        limit = time.monotonic() + 60
        while not select.select([caller], [], [], 0.05)[0]:
            assert time.monotonic() < limit
            caller.sendall(b" ")
        assert caller.recv(1000).startswith(b"HTTP/1.1 408")


HOSTILE = (
    "..%2f..%2fetc%2fpasswd", "%00", "a%00b", "a'%20or%20'1'='1", "a;rm%20-rf", "$(id)", "%F0%9F%92%A5" * 50,
    "a" * 5000, "%ff%fe", "a%0d%0aX-Evil:%201", "{name}", "%22%3E%3Cscript%3E",
)  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_refused_before_anybody_is_asked(
    service: httpx.Client, issuer: Issuer, value: str
) -> None:
    headers = bearer(issuer.token(ADMIN))
    for path in (
        "requests/{}",
        "requests/{}/why",
        "dags/{}",
        "sites/{}",
        "workflows/{}",
        "requests?campaign={}",
    ):
        answer = service.get(f"/api/v1/{path.format(value)}", headers=headers)
        assert answer.status_code in (404, 422), (path, answer.text)
        assert_is_a_problem(answer, answer.status_code)
        assert "x-evil" not in answer.headers
    for path in ("requests/{}/stop", "dags/{}/remove", "sites/{}/drain", "hosts/{}/lost"):
        answer = service.post(f"/api/v1/{path.format(value)}", headers=headers, json={})
        assert answer.status_code in (404, 405, 422), (path, answer.text)


def test_what_cannot_be_read_is_a_mistake_and_names_its_field(service: httpx.Client, issuer: Issuer) -> None:
    headers = bearer(issuer.token(ADMIN))
    path = "/api/v1/requests/some_request/priority"
    for body in (b"{", b"\xff", b"[1]", b"null", b'{"priority": NaN}', b'{"priority": 1e999}', b"[" * 5000):
        assert_is_a_problem(service.post(path, content=body, headers=headers), 422)
    answer = service.post(path, json={"priority": "1", "colour": "red"}, headers=headers)
    assert_is_a_problem(answer, 422)
    assert [one["field"] for one in answer.json()["mistakes"]] == ["body.priority", "body.colour"]
    surrogate = service.post(
        path,
        content=b'{"priority": 1, "reason": "\\ud800"}',
        headers={**headers, "Content-Type": "application/json"},
    )
    assert surrogate.status_code in (422, 503)


def test_a_word_on_a_site_holds_for_ten_years_at_most(service: httpx.Client, issuer: Issuer) -> None:
    headers, drain = bearer(issuer.token(OPERATOR)), "/api/v1/sites/T2_CH_CERN/drain"
    for until in ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00"):
        answer = service.post(drain, json={"until": until}, headers=headers)
        assert "days away" in assert_is_a_problem(answer, 422)
    assert service.post(drain, json={"days": 3650}, headers=headers).status_code == 503


def test_the_service_listens_beyond_loopback_only_with_tls_or_a_front_end(tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    file.write_text("host: 0.0.0.0\n")
    with pytest.raises(UserError, match="expected tls or a proxy"):
        read_config(file)
    assert ApiConfig().host == "127.0.0.1"


def test_issuers_have_one_name_each_and_no_grant_is_for_a_name_that_nobody_can_have(tmp_path: Path) -> None:
    file, one = tmp_path / "api.yaml", "- {issuer: 'https://a.example.org', audiences: [here]}\n"
    file.write_text(f"issuers:\n{one}{one}")
    with pytest.raises(UserError, match="is there twice"):
        read_config(file)
    file.write_text(f"grants:\n- {{role: admin, dn: /DC=ch/CN={'a' * 200}}}\n")
    with pytest.raises(UserError, match=r"grants\[0\].dn"):
        read_config(file)


def test_every_mistake_of_the_configuration_is_told(tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    file.write_text(
        "issuers:\n- issuer: http://example.org\n  audiences: []\n  algorithms: [HS256]\n"
        "grants:\n- role: emperor\n  dn: nobody\n- role: admin\n"
        "- {role: admin, issuer: 'https://a.b', group: /x, name: y}\n"
    )
    with pytest.raises(UserError) as told:
        read_config(file)
    for field in (
        "issuers[0].issuer",
        "audiences",
        "algorithms",
        "grants[0].role",
        "grants[0].dn",
        "grants[1]",
        "grants[2]",
    ):
        assert field in str(told.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("/DC=ch/DC=cern/CN=Name", "/DC=ch/DC=cern/CN=Name"),
        ("CN=Name,DC=cern,DC=ch", "/DC=ch/DC=cern/CN=Name"),
        ("CN=a\\,b,DC=ch", "/DC=ch/CN=a,b"),
        (
            "emailAddress=a@cern.ch,serialNumber=7,CN=Name,DC=ch",
            "/DC=ch/CN=Name/serialNumber=7/emailAddress=a@cern.ch",
        ),
        ("CN=a/CN=b,DC=ch", None),
        ("/DC=ch/CN=" + "a" * 300, None),
        ("/DC=ch/CN=a\nb", None),
        ("nothing", None),
        ("", None),
    ],
)
def test_a_subject_has_one_spelling(written: str, read: str | None) -> None:
    assert spelled(written) == read
