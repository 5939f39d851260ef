"""Who calls: by a certificate, by a front end's word on one, or by a token. And what they may do."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from starlette.requests import Request as Call

from wms2.api.config import ApiConfig, Grant, Role, is_loopback
from wms2.api.subjects import LONGEST, spelled
from wms2.api.tls import CLIENT_SUBJECT
from wms2.api.tokens import TokenRefused, Tokens, scopes_of
from wms2.models.request import Request
from wms2.patterns import WORD

PROXY_SECRET, PROXY_SUBJECT, PROXY_VERIFIED = "x-proxy-secret", "x-ssl-client-s-dn", "x-ssl-client-verify"


class NotKnown(Exception):
    """Nobody that is known here; the sentence says why."""


class NotAllowed(Exception):
    """Somebody who is known, and may not do this."""


@dataclass(frozen=True)
class Caller:
    """`identity` is what the audit trail says; `name` and `dn` are how requests name their requestor."""

    identity: str
    role: Role
    name: str | None = None
    dn: str | None = None

    def owns(self, request: Request) -> bool:
        by_name = self.name is not None and request.requestor == self.name
        return by_name or (self.dn is not None and request.requestor_dn == self.dn)

    @property
    def sees_all(self) -> bool:
        return self.role.rank >= Role.OPERATOR.rank


class Doorkeeper:
    """Tells who calls. A header of the caller's choosing is never believed."""

    def __init__(self, config: ApiConfig) -> None:
        self._config = config
        self._tokens = Tokens(config)
        self._secret = config.proxy.secret() if config.proxy else None

    async def caller(self, call: Call) -> Caller:
        """Raises NotKnown or NotAllowed."""
        self._check_way(call)
        _check_not_from_a_page(call)
        given = call.headers.getlist("authorization")
        if given:
            return await self._by_token(given)
        subject = _shown_certificate(call) or self._told_certificate(call)
        if subject is None:
            raise NotKnown("show a client certificate that is trusted here, or a bearer token")
        return self._by_certificate(subject)

    def _check_way(self, call: Call) -> None:
        """Without TLS only this machine and the front end may call: secrets would travel in the open."""
        peer = _address(call)
        if self._config.tls is None and not (is_loopback(peer) or self._is_proxy(peer)):
            raise NotKnown("call the front end; this address speaks to it alone")

    def _is_proxy(self, peer: str) -> bool:
        proxy = self._config.proxy
        try:
            return proxy is not None and any(ip_address(peer) in network for network in proxy.addresses)
        except ValueError:
            return False

    async def _by_token(self, given: list[str]) -> Caller:
        scheme, _, token = given[0].partition(" ")
        if len(given) != 1 or scheme.lower() != "bearer" or not token.strip():
            raise NotKnown("give one Authorization header with a bearer token")
        try:
            claims = await self._tokens.claims(token.strip())
        except TokenRefused as refused:
            raise NotKnown(str(refused)) from None
        # All of the issuer but its scheme: two of them may be at one host.
        identity = f"{claims['sub']}@{claims['iss'].partition('://')[2].rstrip('/')}"
        if not claims["sub"].strip() or len(identity) > LONGEST or not identity.isprintable():
            raise NotKnown("the token's sub is empty, too long, or has characters that cannot be shown")
        grants = [grant for grant in self._config.grants if _fits(grant, claims)]
        return _granted(identity, grants, self._claimed_name(claims))

    def _claimed_name(self, claims: dict[str, Any]) -> str | None:
        issuer = self._config.issuer(claims["iss"])
        name = claims.get(issuer.name_claim) if issuer and issuer.name_claim else None
        return name if isinstance(name, str) and WORD.fullmatch(name) else None

    def _told_certificate(self, call: Call) -> str | None:
        """The word of the front end; of anybody else's such headers no notice is taken."""
        if self._secret is None or not self._is_proxy(_address(call)):
            return None
        secrets, subjects, verified = (
            call.headers.getlist(name) for name in (PROXY_SECRET, PROXY_SUBJECT, PROXY_VERIFIED)
        )
        if len(secrets) != 1 or not hmac.compare_digest(secrets[0].encode(), self._secret.encode()):
            return None
        return spelled(subjects[0]) if verified == ["SUCCESS"] and len(subjects) == 1 else None

    def _by_certificate(self, subject: str) -> Caller:
        return _granted(subject, [one for one in self._config.grants if one.dn == subject], dn=subject)


def _check_not_from_a_page(call: Call) -> None:
    """Browsers show their user's certificate for whichever page asks them to call."""
    if call.method not in ("GET", "HEAD") and "origin" in call.headers:
        raise NotAllowed("a web page changes nothing here; make this call from a program, without an Origin")


def _shown_certificate(call: Call) -> str | None:
    """The subject of the certificate that TLS has checked."""
    subject: str | None = getattr(call.state, CLIENT_SUBJECT, None)
    return subject


def _fits(grant: Grant, claims: dict[str, Any]) -> bool:
    if grant.issuer != claims["iss"]:
        return False
    if grant.subject is not None:
        return bool(grant.subject == claims["sub"])
    return grant.group in _groups_of(claims) if grant.group is not None else grant.scope in scopes_of(claims)


def _groups_of(claims: dict[str, Any]) -> list[Any]:
    said = claims.get("wlcg.groups", claims.get("groups"))
    return said if isinstance(said, list) else []


def _granted(identity: str, grants: list[Grant], name: str | None = None, dn: str | None = None) -> Caller:
    if not grants:
        raise NotAllowed(f"{identity} has no role here; ask for a grant")
    role = max((grant.role for grant in grants), key=lambda role: role.rank)
    given = next((grant.name for grant in grants if grant.name is not None), name)
    return Caller(identity, role, given, dn)


def _address(call: Call) -> str:
    return call.client.host if call.client else ""
