"""A mail server and a webhook on this machine, for tests that tell people something."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from http.server import BaseHTTPRequestHandler
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.stand_in import served


@dataclass
class Mailbox:
    """What a mail server took. With an `answer` it says that instead of taking it."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    answer: str | None = None
    """To the mail itself."""
    refused: set[str] = field(default_factory=set)
    """Addresses that it does not know."""

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return "550 no such user\r\n here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.answer is not None:
            return self.answer
        assert isinstance(envelope.content, bytes)
        mail = message_from_bytes(envelope.content, policy=SMTP_POLICY)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.raw.append(envelope.content)
        self.recipients += envelope.rcpt_tos
        self.encrypted.append(session.ssl is not None)
        return "250 taken"

    def login(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, told: Any
    ) -> AuthResult:
        assert isinstance(told, LoginPassword)
        self.logins.append((told.login.decode(), told.password.decode()))
        return AuthResult(success=self.logins[-1] == ("wms2", "secret"), handled=False)

    @property
    def ids(self) -> list[str]:
        return [str(mail["Message-ID"]) for mail in self.mails]

    @property
    def texts(self) -> list[str]:
        return [mail.get_content() for mail in self.mails]


@asynccontextmanager
async def mailbox(starttls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[Mailbox]:
    """A mail server on a free port; `ssl` encrypts from the first byte."""
    box, loop = Mailbox(), asyncio.get_running_loop()

    def smtp() -> SMTP:
        return SMTP(
            box, loop=loop, hostname="localhost", tls_context=starttls, authenticator=box.login,
            auth_require_tls=starttls is not None,
        )  # fmt: skip

    server = await loop.create_server(smtp, "127.0.0.1", 0, **options)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()


@dataclass
class Hook:
    """What was posted; it answers with `code`."""

    url: str = ""
    code: int = 200
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(body) for body in self.bodies]


@contextmanager
def hook() -> Iterator[Hook]:
    """A webhook on a free port."""
    known = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            known.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            known.headers.append(dict(self.headers))
            self.send_response(known.code)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with served(Handler) as url:
        known.url = f"{url}/post?token=hidden"
        yield known
