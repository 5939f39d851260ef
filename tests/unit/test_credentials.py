"""The credentials that jobs carry: how long they live, how they are taken over, what is done when they are old."""

import base64
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from post_script.policy import Failure, fitting_rules
from tests.unit.sandbox_kit import Site, manifest
from tests.wire import made_certificates
from wms2.adapters.job_credentials import JobCredentials, job_credentials_of
from wms2.config import configured_settings
from wms2.core.credentials import HeldCredential, low_life, no_submission, proxy_end, token_end
from wms2.dagman.include import set_credentials
from wms2.dagman.policy_file import default_policy
from wms2.dagman.submit_files import round_include

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


def token(ends_at: datetime, **claims: Any) -> bytes:
    parts = [{"alg": "none"}, {"exp": int(ends_at.timestamp()), **claims}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return b".".join([*coded, b"signature"]) + b"\n"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_certificates(tmp_path_factory.mktemp("certificates"), "job")


def openssl_end(certificate: Path) -> datetime:
    said = subprocess.run(
        ["openssl", "x509", "-noout", "-enddate", "-in", certificate],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return datetime.strptime(said.strip(), "notAfter=%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)


def test_a_proxy_ends_when_openssl_says_so(certificates: Path) -> None:
    assert proxy_end((certificates / "job.proxy").read_bytes()) == openssl_end(certificates / "job.pem")


def test_a_proxy_ends_with_the_first_of_its_certificates(certificates: Path, tmp_path: Path) -> None:
    key, long = tmp_path / "key", tmp_path / "long.pem"
    words = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "20000"]
    subprocess.run(
        ["openssl", "req", "-x509", *words, "-subj", "/CN=x", "-keyout", key, "-out", long],
        check=True, capture_output=True,
    )  # fmt: skip
    assert proxy_end(long.read_bytes()) == openssl_end(long)
    assert openssl_end(long).year > 2050, "which a certificate writes in another form"
    both = long.read_bytes() + (certificates / "job.proxy").read_bytes()
    assert proxy_end(both) == openssl_end(certificates / "job.pem")


def attributes(ends_at: datetime) -> str:
    """An attribute certificate of VOMS as openssl takes it: its period is the sixth of its first parts."""

    def element(kind: int, *parts: bytes) -> bytes:
        content = b"".join(parts)
        length = bytes([len(content)]) if len(content) < 128 else b"\x81" + bytes([len(content)])
        return bytes([kind]) + length + content

    period = [element(0x18, f"{at:%Y%m%d%H%M%SZ}".encode()) for at in (ends_at - timedelta(days=1), ends_at)]
    algorithm = element(0x30, bytes.fromhex("06092a864886f70d01010b0500"))
    issuer = element(0xA0, element(0x30, b""))
    number = element(0x02, b"\x01")
    info = element(0x30, number, element(0x30, b""), issuer, algorithm, number, element(0x30, *period))
    signed = element(0x30, info, algorithm, element(0x03, b"\x00signature"))
    return element(0x30, element(0x30, signed)).hex(":")


@pytest.mark.parametrize("hours", [5, 24 * 400])
def test_a_proxy_is_over_with_what_voms_said_of_its_owner(tmp_path: Path, hours: int) -> None:
    key, proxy = tmp_path / "key", tmp_path / "proxy.pem"
    ends_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)
    words = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "8"]
    extension = f"1.3.6.1.4.1.8005.100.100.5=DER:{attributes(ends_at)}"
    subprocess.run(
        ["openssl", "req", "-x509", *words, "-subj", "/CN=x", "-addext", extension, "-keyout", key, "-out", proxy],
        check=True, capture_output=True,
    )  # fmt: skip
    assert proxy_end(proxy.read_bytes()) == min(ends_at, openssl_end(proxy))


@given(st.binary(max_size=300))
def test_what_is_no_certificate_is_refused_and_breaks_nothing(content: bytes) -> None:
    framed = b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(content) + b"\n-----END CERTIFICATE-----\n"
    for text in (content, framed):
        with pytest.raises(ValueError, match=r"."):
            proxy_end(text)


def test_a_token_ends_when_it_says_so() -> None:
    assert token_end(token(NOW)) == NOW


@pytest.mark.parametrize("text", [b"", b"a.b", b"a.b.c", b"a.e30.c", b"a.W10.c", token(NOW, exp="soon")])
def test_what_is_no_token_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON Web Token with an end"):
        token_end(text)


@pytest.mark.parametrize(
    ("hours", "told", "refused"),
    [
        (13, "", False),
        (11.5, "ends in 11 h 30 min", False),
        (1, "nothing is submitted", True),
        (-1, "ends already", True),
    ],
)
def test_below_twelve_hours_somebody_is_told_and_below_two_nothing_is_submitted(
    hours: float, told: str, refused: bool
) -> None:
    held = HeldCredential("the proxy", NOW + timedelta(hours=hours))
    assert (told in low_life(held, NOW)) if told else low_life(held, NOW) == ""
    assert bool(no_submission([held], NOW)) == refused


def test_one_that_cannot_be_used_is_told_with_the_reason_and_nothing_is_submitted() -> None:
    held = HeldCredential("the proxy", None, "/x cannot be used: No such file or directory")
    assert no_submission([held], NOW) == (
        "the proxy cannot be used, nothing is submitted; /x cannot be used: No such file or directory; "
        "look after the program that renews it"
    )


def test_what_was_renewed_is_taken_over_by_rename_and_what_is_broken_is_not(tmp_path: Path) -> None:
    source, copy = tmp_path / "token", tmp_path / "submit/.credentials/job.token"
    credentials = JobCredentials(None, source, tmp_path / "submit")
    (held,) = credentials.refresh()
    assert (held.ends_at, held.problem) == (None, f"{source} cannot be used: No such file or directory")
    source.write_bytes(token(NOW))
    (held,) = credentials.refresh()
    assert (held.ends_at, held.problem, copy.read_bytes()) == (NOW, "", token(NOW))
    assert (copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    first = copy.stat().st_ino
    credentials.refresh()
    assert copy.stat().st_ino == first, "what is the same is left"
    source.write_bytes(token(NOW)[:10])
    (held,) = credentials.refresh()
    assert (held.ends_at, "no JSON Web Token" in held.problem) == (NOW, True)
    source.write_bytes(token(NOW + timedelta(days=1)))
    (held,) = credentials.refresh()
    assert held.ends_at == NOW + timedelta(days=1)
    assert list(copy.parent.iterdir()) == [copy]


def test_a_link_that_names_a_new_file_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).write_bytes(token(NOW + timedelta(days=number)))
    link = tmp_path / "link"
    link.symlink_to("1")
    monkeypatch.setenv("WMS2_JOB_TOKEN", str(link))
    credentials = job_credentials_of(configured_settings(tmp_path / "home"))
    assert credentials is not None
    credentials.refresh()
    link.unlink()
    link.symlink_to("2")
    assert [held.ends_at for held in credentials.refresh()] == [NOW + timedelta(days=2)]


def test_without_a_setting_jobs_carry_nothing(tmp_path: Path) -> None:
    assert job_credentials_of(configured_settings(tmp_path)) is None


def test_a_round_names_what_its_jobs_carry_once_and_only_as_long_as_they_do(tmp_path: Path) -> None:
    include = tmp_path / "round.inc"
    include.write_text(round_include(["T2_DE_DESY"], 7))
    for _ in range(2):
        set_credentials(tmp_path, Path("/c/job.proxy"), Path("/c/job.token"))
    assert include.read_text() == round_include(["T2_DE_DESY"], 7) + (
        "x509userproxy = /c/job.proxy\njob_token = , /c/job.token\n"
    )
    set_credentials(tmp_path, None, None)
    assert include.read_text() == round_include(["T2_DE_DESY"], 7)


@pytest.mark.parametrize("code", [8001, 8020, 8021, 8028, 60307, 60311, 60321, 60322, 60324])
@pytest.mark.parametrize(
    "message",
    [
        "[ERROR] Server responded with an error: the proxy certificate has expired",
        "SRM: No valid credential found",
        "HTTP 401: invalid token",
    ],
)
def test_an_error_about_a_credential_is_of_the_infrastructure_whatever_its_code(
    code: int, message: str
) -> None:
    (rule, *_) = fitting_rules(default_policy()["rules"], Failure(code, message))
    assert (rule["name"], rule["category"]) == ("credential", "infrastructure")


def test_a_payload_finds_the_token_that_its_job_carries(tmp_path: Path) -> None:
    site = Site(tmp_path)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncp "$BEARER_TOKEN_FILE" {tmp_path}/found\n'
        f'exec {site.environment(1)["WMS2_SOFTWARE_PYTHON"]} "$@"\n'
    )
    python.chmod(0o755)
    folder = site.job_folder(manifest=manifest())
    (folder / "job.token").write_bytes(token(NOW))
    job = site.run("process", "proc_000001", folder, WMS2_SOFTWARE_PYTHON=str(python))
    assert job.report["exit_code"] == 0
    assert (tmp_path / "found").read_bytes() == token(NOW)
