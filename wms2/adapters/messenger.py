"""The messenger knows who can be told, and takes each digest to its address, by mail or by webhook."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wms2.adapters.mail import Mailer, NotSent
from wms2.adapters.webhook import Poster
from wms2.config import Settings
from wms2.errors import UserError
from wms2.models.contacts import Contacts, is_mail, read_contacts
from wms2.models.notice import Digest


@dataclass(frozen=True)
class Messenger:
    contacts: Contacts
    mailer: Mailer | None

    async def send(self, digest: Digest) -> None:
        """Raises NotSent when it did not arrive, or when nobody can say."""
        await self._carrier(digest.address).send(digest)

    def _carrier(self, address: str) -> Mailer | Poster:
        if is_mail(address):
            if self.mailer is None:
                raise NotSent("there is no mail server; set WMS2_SMTP_HOST and WMS2_SMTP_SENDER")
            return self.mailer
        webhook = self.contacts.webhooks.get(address)
        if webhook is None:
            raise NotSent(f"there is no webhook named {address} in the contacts file")
        return Poster(address, webhook)


def messenger_of(settings: Settings) -> Messenger | None:
    """The messenger that was configured; None when notifications are off, and then nothing of it is looked at."""
    return None if settings.notify == "off" else make_messenger(settings)


def contacts_of(settings: Settings) -> Contacts | None:
    """Who is told of what is recorded; None when notifications are off."""
    return None if settings.notify == "off" else read_contacts(_contacts_file(settings))


def make_messenger(settings: Settings) -> Messenger:
    """The messenger, whether notifications are on or off; a UserError says all that is missing."""
    contacts = read_contacts(_contacts_file(settings))
    mistakes = _mistakes(settings, contacts)
    if mistakes:
        raise UserError(f"Notifications cannot be sent: {'; '.join(mistakes)}.")
    if settings.smtp_host is None or settings.smtp_sender is None:
        return Messenger(contacts, None)
    mailer = Mailer(
        host=settings.smtp_host,
        sender=settings.smtp_sender,
        security=settings.smtp_security,
        port=settings.smtp_port,
        user=settings.smtp_user,
        password=settings.smtp_password,
    )
    return Messenger(contacts, mailer)


def _contacts_file(settings: Settings) -> Path:
    if settings.contacts is None:
        raise UserError(
            "No contacts file: name it with WMS2_CONTACTS; a worker needs none while WMS2_NOTIFY=off."
        )
    return settings.contacts


def _mistakes(settings: Settings, contacts: Contacts) -> list[str]:
    mistakes = []
    mails = any(map(is_mail, contacts.addresses))
    needs = mails or settings.smtp_host is not None or settings.smtp_sender is not None
    for name in ("smtp_host", "smtp_sender"):
        if needs and getattr(settings, name) is None:
            mistakes.append(f"WMS2_{name.upper()} is missing, and mail needs it")
    if settings.smtp_password is not None and settings.smtp_user is None:
        mistakes.append("WMS2_SMTP_USER is missing, and WMS2_SMTP_PASSWORD is given")
    if settings.smtp_user is not None and settings.smtp_security == "none":
        mistakes.append(
            "WMS2_SMTP_SECURITY is none, and the password would travel readable; set starttls or tls"
        )
    return mistakes
