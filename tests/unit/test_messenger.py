"""Mail and webhooks against real servers on this machine, in good health and in trouble."""

import asyncio
import logging
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.mailbox import Mailbox, hook, mailbox
from wms2.adapters.mail import Mailer, NotSent
from wms2.adapters.messenger import Messenger, contacts_of, make_messenger, messenger_of
from wms2.adapters.webhook import Poster, signature
from wms2.config import Settings, configured_settings
from wms2.core.notices import trial_digest
from wms2.errors import UserError
from wms2.models.contacts import Contacts, Webhook
from wms2.models.notice import Digest

AT = datetime(2026, 11, 16, 14, 2, tzinfo=UTC)
ID = UUID("3d3cbd0e-9f0c-4f0e-8a25-c9ad2a3c2b54")
MAIL, HOOK = "operators@example.org", "chat"
DIGEST = Digest(id=ID, address=MAIL, subject="WMS2: Grüße", body="Ein Gruß\n.\n" + "x" * 2000 + "\n", at=AT)
NOWHERE = "http://127.0.0.1:1/token"


@pytest.fixture
async def box() -> AsyncIterator[Mailbox]:
    async with mailbox() as box:
        yield box


def mailer(box: Mailbox, **changes: Any) -> Mailer:
    fields = {"host": "127.0.0.1", "sender": "wms2@example.org", "security": "none", "port": box.port}
    return Mailer(**(fields | changes))


# Mail


async def test_a_mail_arrives_as_it_was_written(box: Mailbox) -> None:
    await mailer(box).send(DIGEST)
    (mail,) = box.mails
    assert (mail["From"], mail["To"], mail["Subject"]) == ("wms2@example.org", MAIL, "WMS2: Grüße")
    assert mail["Message-ID"] == f"<{ID}@example.org>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert parsedate_to_datetime(mail["Date"]) == AT
    assert mail.get_content().splitlines() == DIGEST.body.splitlines()
    assert box.recipients == [MAIL]


async def test_the_same_digest_is_the_same_mail_byte_for_byte(box: Mailbox) -> None:
    await mailer(box).send(DIGEST)
    await mailer(box).send(DIGEST)
    assert len(set(box.raw)) == 1


async def test_a_server_that_says_no_is_quoted_in_one_line(box: Mailbox) -> None:
    box.answer = "554 relay\x07 denied"
    with pytest.raises(NotSent, match=r"127\.0\.0\.1 refused the mail: 554 relay. denied"):
        await mailer(box).send(DIGEST)
    box.refused = {MAIL}
    with pytest.raises(NotSent, match="refused the address: 550"):
        await mailer(box).send(DIGEST)


async def test_a_server_that_is_away_or_talks_nonsense_is_not_waited_for() -> None:
    async with mailbox() as gone:
        pass
    with pytest.raises(NotSent, match=r"does not take mail: .*refused"):
        await mailer(gone).send(DIGEST)

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 what\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        with pytest.raises(NotSent):
            await mailer(gone, port=server.sockets[0].getsockname()[1]).send(DIGEST)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mail")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-keyout", "mail.key", "-out", "mail.pem", "-subj", "/CN=mail", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder / "mail.pem"


@pytest.fixture
def secure(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_mail_is_encrypted_and_its_sender_logs_in(
    security: str, secure: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    how: dict[str, Any] = {"starttls": {"starttls": secure}, "tls": {"ssl": secure}}[security]
    async with mailbox(**how) as box:
        good = mailer(box, security=security, user="wms2", password="secret")
        await good.send(DIGEST)
        assert box.logins == [("wms2", "secret")]
        assert security == "tls" or box.encrypted == [True]
        with pytest.raises(NotSent) as refused:
            await replace(good, password="hush").send(DIGEST)
        assert "hush" not in str(refused.value)
        assert "hush" not in repr(replace(good, password="hush"))
        assert len(box.mails) == 1


async def test_a_server_that_nobody_vouches_for_gets_no_password(secure: ssl.SSLContext) -> None:
    async with mailbox(starttls=secure) as box:
        with pytest.raises(NotSent, match="certificate"):
            await mailer(box, security="starttls", user="wms2", password="secret").send(DIGEST)
        assert box.logins == []


async def test_a_server_without_encryption_gets_no_password(box: Mailbox) -> None:
    with pytest.raises(NotSent, match="STARTTLS"):
        await mailer(box, security="starttls", user="wms2", password="secret").send(DIGEST)
    assert box.logins == []


# Webhooks


def posted(url: str, secret: str | None = None) -> Poster:
    return Poster(HOOK, Webhook(url=url, secret=secret))


async def test_a_document_is_posted_with_its_key_and_signed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    digest = trial_digest(HOOK, ID, AT)
    with hook() as known:
        await posted(known.url, "hush").send(digest)
        await posted(known.url).send(digest)
    assert known.bodies == [digest.body.encode()] * 2
    signed, unsigned = known.headers
    assert signed["Idempotency-Key"] == unsigned["Idempotency-Key"] == str(ID)
    assert signed["Content-Type"] == "application/json"
    assert signed["X-WMS2-Signature"] == signature("hush", known.bodies[0])
    assert "X-WMS2-Signature" not in unsigned


def test_the_signature_is_the_usual_one() -> None:
    expected = "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
    assert signature("key", b"The quick brown fox jumps over the lazy dog") == expected


@pytest.mark.parametrize("code", [302, 404, 500])
async def test_any_answer_but_a_good_one_is_a_failure_and_no_redirection_is_followed(code: int) -> None:
    with hook() as known:
        known.code = code
        with pytest.raises(NotSent, match=f"webhook chat answered {code}"):
            await posted(known.url).send(DIGEST)
        assert len(known.bodies) == 1


async def test_a_webhook_that_is_away_is_told_without_its_url() -> None:
    with pytest.raises(NotSent) as error:
        await posted(NOWHERE).send(DIGEST)
    assert "webhook chat does not answer" in str(error.value)
    assert "token" not in str(error.value) + repr(posted(NOWHERE))


# Settings


async def test_a_digest_goes_where_its_address_says(box: Mailbox) -> None:
    with hook() as known:
        messenger = Messenger(Contacts(webhooks={HOOK: Webhook(url=known.url)}), mailer(box))
        for address in (MAIL, HOOK):
            await messenger.send(trial_digest(address, ID, AT))
    assert (len(box.mails), len(known.bodies)) == (1, 1)
    with pytest.raises(NotSent, match="no webhook named gone"):
        await messenger.send(trial_digest("gone", ID, AT))
    with pytest.raises(NotSent, match="WMS2_SMTP_HOST"):
        await Messenger(Contacts(), None).send(trial_digest(MAIL, ID, AT))


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def settings(text: str = f"operators: [{MAIL}]", **given: str) -> Settings:
        path = tmp_path / "contacts.yaml"
        path.write_text(text)
        for name, value in ({"notify": "on", "contacts": str(path)} | given).items():
            monkeypatch.setenv(f"WMS2_{name.upper()}", value)
        return configured_settings()

    return settings


def test_off_is_the_default_and_then_nothing_is_looked_at(configured: Any) -> None:
    assert Settings().notify == "off"
    broken = configured("nonsense", notify="off", contacts="/nowhere")
    assert messenger_of(broken) is None
    assert contacts_of(broken) is None


def test_all_that_is_missing_for_mail_is_told_at_once(configured: Any) -> None:
    with pytest.raises(UserError, match=r"SMTP_HOST.*SMTP_SENDER.*SMTP_USER"):
        messenger_of(configured(smtp_password="secret"))
    with pytest.raises(UserError, match="readable"):
        messenger_of(configured(smtp_host="mail", smtp_sender=MAIL, smtp_user="me", smtp_security="none"))
    with pytest.raises(UserError, match="WMS2_SMTP_SENDER: expected a mail address"):
        configured(smtp_sender="nobody")


def test_webhooks_alone_need_no_mail_server(configured: Any) -> None:
    messenger = messenger_of(configured('operators: [chat]\nwebhooks: {chat: {url: "http://x"}}'))
    assert messenger is not None
    assert messenger.mailer is None


def test_the_password_is_never_shown(configured: Any) -> None:
    settings = configured(
        smtp_host="mail", smtp_sender=MAIL, smtp_user="me", smtp_password="xyzzy", smtp_port="2525"
    )
    messenger = make_messenger(settings)
    assert messenger.mailer is not None
    assert (messenger.mailer.password, messenger.mailer.port) == ("xyzzy", 2525)
    assert "xyzzy" not in repr(settings) + repr(messenger)


def test_on_without_a_contacts_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_NOTIFY", "on")
    with pytest.raises(UserError, match="WMS2_CONTACTS"):
        messenger_of(configured_settings())
