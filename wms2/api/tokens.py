"""Bearer tokens: who made them, for whom, what they allow and until when. The issuers' keys are fetched and kept."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import jwt
from jwt import PyJWK
from pydantic import TypeAdapter, ValidationError

from wms2.api.config import ApiConfig, Issuer, SafeUrl
from wms2.errors import Unavailable

log = logging.getLogger(__name__)

LONGEST_TOKEN = 16_000
LEEWAY_SEC = 30
KEYS_HOLD_SEC = 3600.0
STALE_KEYS_HOLD_SEC = 24 * 3600.0
ASK_AGAIN_SEC = 60.0
FETCH_SEC = 5.0
LARGEST_ANSWER = 1_000_000
WLCG_VERSIONS = "1."
JWK = dict[str, Any]
"""A key as its issuer tells it."""
_URL: TypeAdapter[str] = TypeAdapter(SafeUrl)


class TokenRefused(Exception):
    """One sentence that says why a token is not believed; nothing of the token is in it."""


class Tokens:
    """Believes the tokens of the configured issuers, and of nobody else."""

    def __init__(self, config: ApiConfig) -> None:
        self._config = config
        self._keys = {one.issuer: Keys(one) for one in config.issuers}

    async def claims(self, token: str) -> dict[str, Any]:
        """What a token says that is believed; a TokenRefused says why it is not."""
        header, named = _opened(token)
        issuer = self._config.issuer(named)
        if issuer is None:
            raise TokenRefused("the token's issuer is not among those that are believed here")
        if header.get("alg") not in issuer.algorithms:
            raise TokenRefused(f"the token is signed otherwise than by {', '.join(issuer.algorithms)}")
        said = await self._keys[issuer.issuer].find(header.get("kid"))
        claims = _verified(token, _key(said, header["alg"]), issuer)
        _check_profile(claims, issuer)
        return claims


def scopes_of(claims: dict[str, Any]) -> frozenset[str]:
    said = claims.get("scope")
    return frozenset(said.split() if isinstance(said, str) else ())


def _opened(token: str) -> tuple[dict[str, Any], object]:
    """Its header and the issuer that it names, neither of them believed yet."""
    if len(token) > LONGEST_TOKEN:
        raise TokenRefused("the token is too long to be one")
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        return jwt.get_unverified_header(token), claims.get("iss")
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise TokenRefused("the token is no JSON web token") from None


def _verified(token: str, key: PyJWK, issuer: Issuer) -> dict[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(issuer.algorithms),
            audience=list(issuer.audiences),
            issuer=issuer.issuer,
            leeway=LEEWAY_SEC,
            options={"require": ["exp", "iss", "sub", "aud"]},
        )
    except jwt.ExpiredSignatureError:
        raise TokenRefused("the token has expired; get a new one") from None
    except jwt.InvalidAudienceError:
        raise TokenRefused(f"the token is not meant for {' or '.join(issuer.audiences)}") from None
    except jwt.MissingRequiredClaimError as error:
        raise TokenRefused(f"the token has no {error.claim}") from None
    except (jwt.PyJWTError, ValueError, TypeError):
        raise TokenRefused("the token's signature or one of its times is wrong") from None
    return claims


def _check_profile(claims: dict[str, Any], issuer: Issuer) -> None:
    if issuer.profile == "wlcg" and not str(claims.get("wlcg.ver", "")).startswith(WLCG_VERSIONS):
        raise TokenRefused("the token has no wlcg.ver that is known here")
    if missing := set(issuer.required_scopes) - scopes_of(claims):
        raise TokenRefused(f"the token lacks the scope {sorted(missing)[0]}")


@dataclass
class Keys:
    """The keys of one issuer, fetched when they are needed first, when they are old, and when a new one is named."""

    issuer: Issuer
    _known: dict[str | None, JWK] = field(default_factory=dict)
    _fetched_at: float | None = None
    _tried_at: float | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find(self, kid: object) -> JWK:
        if self._has_no_fresh(kid):
            # Only who needs an answer of the issuer waits for it.
            async with self._lock:
                if self._has_no_fresh(kid):
                    await self._refresh()
        if self._is_older_than(STALE_KEYS_HOLD_SEC):
            raise Unavailable(f"the keys of {self.issuer.issuer} cannot be fetched", ASK_AGAIN_SEC)
        if kid is None and len(self._known) == 1:
            return next(iter(self._known.values()))
        if not isinstance(kid, str) or kid not in self._known:
            raise TokenRefused("the token is signed with a key that its issuer does not have")
        return self._known[kid]

    def _has_no_fresh(self, kid: object) -> bool:
        return self._is_older_than(KEYS_HOLD_SEC) or kid not in self._known

    def _is_older_than(self, seconds: float) -> bool:
        return self._fetched_at is None or time.monotonic() - self._fetched_at > seconds

    async def _refresh(self) -> None:
        """At most once a minute, whoever asks: a stranger must not make us call an issuer as often as they like."""
        if self._tried_at is not None and time.monotonic() - self._tried_at < ASK_AGAIN_SEC:
            return
        self._tried_at = time.monotonic()
        try:
            async with asyncio.timeout(FETCH_SEC), _client() as client:
                self._known = _usable(await _document(client, await self._where(client)))
            self._fetched_at = time.monotonic()
        except (
            httpx.HTTPError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            TimeoutError,
            jwt.PyJWTError,
        ) as error:
            # Keys that are known hold for a day without news.
            log.warning("The keys of %s cannot be fetched: %s", self.issuer.issuer, type(error).__name__)

    async def _where(self, client: httpx.AsyncClient) -> str:
        if self.issuer.jwks_url is not None:
            return self.issuer.jwks_url
        url = f"{self.issuer.issuer.rstrip('/')}/.well-known/openid-configuration"
        document = await _document(client, url)
        if document.get("issuer") != self.issuer.issuer:
            raise ValueError("it says that it is somebody else")
        try:
            return _URL.validate_python(document["jwks_uri"])
        except ValidationError:
            raise ValueError("its keys are at no safe address") from None


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=FETCH_SEC, trust_env=False, follow_redirects=False)


async def _document(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    async with client.stream("GET", url) as answer:
        answer.raise_for_status()
        content = bytearray()
        async for piece in answer.aiter_bytes():
            content += piece
            if len(content) > LARGEST_ANSWER:
                raise ValueError("the answer is too long")
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("the answer is no object")
    return document


def _usable(document: dict[str, Any]) -> dict[str | None, JWK]:
    """Public keys for signatures, by their names."""
    keys: dict[str | None, JWK] = {}
    for said in document["keys"]:
        # Those of kinds that are not known are others' to use.
        with suppress(jwt.PyJWTError):
            key = PyJWK(said)
            if key.key_type in ("RSA", "EC", "OKP") and key.public_key_use != "enc":
                keys[key.key_id] = said
    if not keys:
        raise ValueError("none of its keys can be used")
    return keys


def _key(said: JWK, algorithm: str) -> PyJWK:
    """For the algorithm that it is for; an RSA key that names none may be for any that the issuer uses."""
    is_open = said.get("kty") == "RSA" and not said.get("alg")
    try:
        return PyJWK(said, algorithm if is_open else None)
    except jwt.PyJWTError:
        raise TokenRefused("the token is signed otherwise than its issuer's key is for") from None
