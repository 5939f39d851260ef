"""The file that says where the REST service listens, who is let in, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from wms2.api.subjects import LONGEST
from wms2.errors import UserError
from wms2.models.base import Flag, Model
from wms2.models.document import parse_document, read_text
from wms2.models.mistakes import RequestFileError, mistakes_of
from wms2.models.request import Priority, Request
from wms2.patterns import DistinguishedName, Word

LOOPBACK = "127.0.0.1"
SECRET_LENGTH = 16


class Role(StrEnum):
    """Each may do what those before it may."""

    REQUESTOR = "requestor"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _safe_url(url: str) -> str:
    parts = urlsplit(url)
    plain = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if not parts.hostname or parts.username or not (parts.scheme == "https" or plain):
        raise ValueError("expected an address that begins with https://")
    return url


SafeUrl = Annotated[str, AfterValidator(_safe_url)]
Claim = Annotated[str, Field(min_length=1, max_length=200)]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(lambda text: ip_network(text))]
# Signatures with a key that only the issuer has: a shared secret, and none at all, are not among them.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class Issuer(Model):
    """Whose tokens are believed, and what they must say."""

    issuer: SafeUrl = Field(description="its name, as its tokens have it")
    audiences: tuple[Claim, ...] = Field(min_length=1, description="tokens must be meant for one of these")
    algorithms: tuple[Algorithm, ...] = Field(("RS256", "ES256"), min_length=1, description="how it signs")
    profile: Literal["wlcg", "oidc"] = Field("wlcg", description="wlcg: its tokens must have a wlcg.ver")
    required_scopes: tuple[Claim, ...] = Field((), description="scopes that every token must have")
    name_claim: Claim | None = Field(None, description="the claim with the user name, if it is trusted")
    jwks_url: SafeUrl | None = Field(None, description="where its keys are, if it does not say so itself")


class Grant(Model):
    """A role for a certificate's subject; or for an issuer's subject, group or scope."""

    role: Role = Field(description="requestor, operator or admin")
    name: Word | None = Field(None, description="the user name that its requests have as requestor")
    dn: DistinguishedName | None = Field(None, max_length=LONGEST, description="the subject of a certificate")
    issuer: SafeUrl | None = Field(None, description="the issuer of a token")
    subject: Claim | None = Field(None, description="the sub of a token")
    group: Claim | None = Field(None, description="a group of wlcg.groups or groups")
    scope: Claim | None = Field(None, description="a scope of a token")

    @model_validator(mode="after")
    def _for_whom(self) -> Self:
        claims = [one for one in (self.subject, self.group, self.scope) if one is not None]
        if (self.dn is None) is (self.issuer is None) or len(claims) != (1 if self.issuer else 0):
            raise ValueError("expected a dn, or an issuer with one of subject, group and scope")
        if self.name is not None and not (self.dn or self.subject):
            raise ValueError("expected a name only beside a dn or a subject: others stand for many people")
        return self


class Tls(Model):
    certificate: Path = Field(description="the server's certificate, with its chain")
    key: Path = Field(description="its key")
    client_ca: Path | None = Field(
        None, description="the authorities of client certificates: a file, or a folder"
    )
    revoked: Path | None = Field(
        None, description="lists of client certificates that were revoked (CRL): a file, or a folder"
    )
    proxy_certificates: Flag = Field(False, description="whether proxies of client certificates are taken")

    @model_validator(mode="after")
    def _revoked_by_somebody(self) -> Self:
        if self.revoked is not None and self.client_ca is None:
            raise ValueError("expected a client_ca beside revoked: no certificates of clients are taken")
        return self


class Proxy(Model):
    """A front end that checks certificates and tells whose they were."""

    addresses: tuple[Network, ...] = Field(min_length=1, description="where it calls from")
    secret_file: Path = Field(description="the file with the secret that it sends along")

    def secret(self) -> str:
        secret = read_text(self.secret_file).strip()
        if len(secret) < SECRET_LENGTH or not secret.isascii() or not secret.isprintable():
            raise UserError(
                f"{self.secret_file} holds no secret of at least {SECRET_LENGTH} plain characters; write one"
            )
        return secret


class ApiConfig(Model):
    """What is not given is closed."""

    host: str = Field(LOOPBACK, description="the address to listen on")
    port: Annotated[int, Field(strict=True, ge=0, le=65535)] = Field(8460, description="and the port")
    tls: Tls | None = Field(None, description="the certificate to show, and whose certificates to believe")
    proxy: Proxy | None = Field(None, description="a front end whose word on certificates is believed")
    issuers: tuple[Issuer, ...] = Field((), max_length=50, description="whose tokens are believed")
    grants: tuple[Grant, ...] = Field((), max_length=10_000, description="who may do what")
    highest_priority: Priority = Field(
        Request.model_fields["priority"].default,
        description="the highest priority that requestors may ask for; operators may ask for any",
    )
    largest_body: Annotated[int, Field(strict=True, ge=1000, le=100_000_000)] = Field(
        2_000_000, description="how many bytes a call may bring"
    )
    calls_per_min: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        1200, description="how many calls one identity may make in a minute"
    )
    strangers_per_min: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        120, description="how many calls of nobody that is known one address may make in a minute"
    )

    @model_validator(mode="after")
    def _one_of_each_name(self) -> Self:
        names = [one.issuer for one in self.issuers]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"expected one issuer of each name, and {twice[0]} is there twice")
        return self

    @model_validator(mode="after")
    def _not_open(self) -> Self:
        if not is_loopback(self.host) and self.tls is None and self.proxy is None:
            raise ValueError(
                f"expected tls or a proxy: {self.host} is beyond loopback, and nothing would be secret"
            )
        return self

    def issuer(self, name: object) -> Issuer | None:
        return next((one for one in self.issuers if one.issuer == name), None)


def read_config(path: Path) -> ApiConfig:
    """What the file says, or an error with all of its mistakes. Relative paths are below its folder."""
    document = parse_document(read_text(path), str(path))
    try:
        config = ApiConfig.model_validate(document)
    except ValidationError as error:
        raise RequestFileError(mistakes_of(error, _fields_beside), str(path)) from None
    return _placed(config, path.parent)


def _placed(config: ApiConfig, folder: Path) -> ApiConfig:
    tls, proxy = config.tls, config.proxy
    if tls is not None:
        files = {name: folder / value for name, value in tls if isinstance(value, Path)}
        tls = tls.model_copy(update=files)
    if proxy is not None:
        proxy = proxy.model_copy(update={"secret_file": folder / proxy.secret_file})
    return config.model_copy(update={"tls": tls, "proxy": proxy})


def _fields_beside(location: Sequence[str | int]) -> Mapping[str, str]:
    parts: dict[str | int, type[BaseModel]] = {"issuers": Issuer, "grants": Grant, "tls": Tls, "proxy": Proxy}
    model = parts.get(location[0], ApiConfig) if len(location) > 1 else ApiConfig
    return {name: info.description or "" for name, info in model.model_fields.items()}
