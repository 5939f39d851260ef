"""Mail, over SMTP."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from typing import Literal

from wms2.core.plain import plain_line
from wms2.errors import Unavailable
from wms2.models.notice import Digest

TIMEOUT_SEC = 20.0
PORTS = {"none": 25, "starttls": 587, "tls": 465}


class NotSent(Unavailable):
    """A message did not reach its server, or was refused there; try again later."""


@dataclass(frozen=True)
class Mailer:
    """A mail server, and whom its mails are from."""

    host: str
    sender: str
    security: Literal["starttls", "tls", "none"] = "starttls"
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    async def send(self, digest: Digest) -> None:
        """One mail to one address. When it is unknown whether the server took it, that is a NotSent too."""
        await asyncio.to_thread(self._send, self.message(digest))

    def message(self, digest: Digest) -> EmailMessage:
        """The mail. The same digest is always the same mail, with the same Message-ID."""
        mail = EmailMessage(policy=SMTP)
        mail["From"] = self.sender
        mail["To"] = digest.address
        mail["Subject"] = digest.subject
        mail["Date"] = digest.at
        mail["Message-ID"] = f"<{digest.id}@{self.sender.partition('@')[2]}>"
        # So that no holiday note answers, and no list takes it for a person.
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(digest.body, cte="quoted-printable")
        return mail

    def _send(self, mail: EmailMessage) -> None:
        try:
            with self._connected() as server:
                server.send_message(mail)
        except smtplib.SMTPRecipientsRefused as error:
            answers = (f"{code} {_words(said)}" for code, said in error.recipients.values())
            raise NotSent(f"{self.host} refused the address: {'; '.join(answers)}") from None
        except smtplib.SMTPResponseException as error:
            answer = f"{error.smtp_code} {_words(error.smtp_error)}"
            raise NotSent(f"{self.host} refused the mail: {answer}") from None
        except (OSError, smtplib.SMTPException) as error:
            said = plain_line(str(error)) or type(error).__name__
            raise NotSent(f"{self.host} does not take mail: {said}") from None

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        port = self.port or PORTS[self.security]
        trusted = ssl.create_default_context()
        if self.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(self.host, port, timeout=TIMEOUT_SEC, context=trusted)
        else:
            server = smtplib.SMTP(self.host, port, timeout=TIMEOUT_SEC)
        try:
            if self.security == "starttls":
                server.starttls(context=trusted)
            if self.user is not None:
                server.login(self.user, self.password or "")
            yield server
        finally:
            # The mail is taken by now, or is not: a bad farewell changes nothing.
            with suppress(OSError, smtplib.SMTPException):
                server.quit()


def _words(answer: bytes | str) -> str:
    return plain_line(answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer)
