"""The contacts file: who is told of what, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from wms2.models.base import Model
from wms2.models.document import parse_document, read_text
from wms2.models.mistakes import Mistake, RequestFileError, did_you_mean, found, mistakes_of
from wms2.models.notice import Audience, Reason
from wms2.patterns import MAIL_ADDRESS, MAIL_ADDRESS_LENGTH, WORD, SiteName, Word

LONGEST_URL = 2000
MOST_ADDRESSES = 50
_SECRETS = "webhooks."


def is_mail(address: str) -> bool:
    """Whether it is a mail address; else it is the name of a webhook."""
    return "@" in address


def _address(address: str) -> str:
    fits = (MAIL_ADDRESS if is_mail(address) else WORD).fullmatch(address)
    if len(address) > MAIL_ADDRESS_LENGTH or not fits:
        raise ValueError("expected a mail address, or the name of a webhook")
    return address


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("expected an address that begins with https:// or http://")
    return url


Addresses = Annotated[tuple[Annotated[str, AfterValidator(_address)], ...], Field(max_length=MOST_ADDRESSES)]


class Webhook(Model):
    """An address for programs. Its URL may be a secret by itself, so neither is ever shown."""

    url: Annotated[str, AfterValidator(_url)] = Field(repr=False, description="where notices are posted to")
    secret: str | None = Field(
        None, min_length=1, repr=False, description="what the messages are signed with"
    )


class Contacts(Model):
    """Addresses are mail addresses, or names of webhooks. `read_contacts` makes one from a file."""

    operators: Addresses = Field((), description="who looks after all requests")
    requestors: dict[Word, Addresses] = Field({}, description="addresses for each requestor's name")
    sites: dict[SiteName, Addresses] = Field({}, description="addresses for each site's name")
    webhooks: dict[Word, Webhook] = Field({}, description="a url, and a secret, for each name")
    silent: dict[Audience, tuple[Reason, ...]] = Field(
        {}, description="reasons that an audience does not hear of"
    )

    def hears(self, audience: Audience, reason: Reason) -> bool:
        return reason not in self.silent.get(audience, ())

    @property
    def addresses(self) -> frozenset[str]:
        """All there are."""
        lists = (self.operators, *self.requestors.values(), *self.sites.values())
        return frozenset(address for listed in lists for address in listed)


def read_contacts(path: Path) -> Contacts:
    """The contacts that a file holds, or an error with all of its mistakes."""
    document = parse_document(read_text(path), str(path))
    mistakes = list(_unknown_webhooks(document))
    try:
        contacts = Contacts.model_validate(document)
    except ValidationError as error:
        mistakes += [_without_secrets(mistake) for mistake in mistakes_of(error, _fields_beside)]
    if mistakes:
        first = {mistake.field: mistake for mistake in reversed(mistakes)}
        raise RequestFileError(list(reversed(first.values())), str(path))
    return contacts


def _unknown_webhooks(document: Mapping[str, Any]) -> Iterator[Mistake]:
    """Looks at the plain document, so that these mistakes are found beside all others."""
    webhooks = document.get("webhooks")
    known = [name for name in webhooks if isinstance(name, str)] if isinstance(webhooks, dict) else []
    for place, addresses in _lists_of(document):
        for number, address in enumerate(addresses if isinstance(addresses, list) else []):
            if isinstance(address, str) and not is_mail(address) and address not in known:
                problem = f"expected a mail address, or a name below webhooks{did_you_mean(address, known)}"
                yield Mistake(f"{place}[{number}]", f"{problem}, found {found(address)}")


def _lists_of(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "operators", document.get("operators")
    for kind in ("requestors", "sites"):
        named = document.get(kind)
        for name, addresses in named.items() if isinstance(named, dict) else ():
            yield f"{kind}.{name}", addresses


def _without_secrets(mistake: Mistake) -> Mistake:
    """Whoever reads a log of this is not to learn how to post there."""
    if not mistake.field.startswith(_SECRETS):
        return mistake
    return Mistake(mistake.field, mistake.problem.partition(", found ")[0])


def _fields_beside(location: Sequence[str | int]) -> Mapping[str, str]:
    model: type[BaseModel] = Webhook if location[0] == "webhooks" and len(location) > 1 else Contacts
    return {name: info.description or "" for name, info in model.model_fields.items()}
