"""Logging in to Rucio: a password or a certificate is exchanged for a token, which is used for an hour."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from wms2.adapters.credentials import Certificate, Password
from wms2.adapters.service import Answer, Service, TimeLimits
from wms2.errors import NotFound, Refused, Unavailable

TOKEN = "X-Rucio-Auth-Token"  # noqa: S105 - the name of a header
EXPIRES = "X-Rucio-Auth-Token-Expires"
TOKEN_USE = 0.9
"""The part of a token's life after which it is renewed."""


@dataclass(frozen=True)
class _Token:
    text: str = field(repr=False)
    renew_at: float


class AuthServer(Service):
    """Where Rucio's tokens are made."""

    name = "Rucio"

    def __init__(
        self, url: str, account: str, credentials: Password | Certificate, times: TimeLimits | None = None
    ) -> None:
        certificate = credentials if isinstance(credentials, Certificate) else None
        super().__init__(url, certificate, times=times)
        self._account = account
        self._password = credentials if isinstance(credentials, Password) else None

    async def token(self) -> _Token:
        account = {"X-Rucio-Account": self._account}
        if self._password is None:
            answer = await self.call("GET", "auth/x509", headers=account)
        else:
            user = {"X-Rucio-Username": self._password.user, "X-Rucio-Password": self._password.password}
            answer = await self.call("GET", "auth/userpass", headers={**account, **user})
        now = time.time()
        try:
            life = parsedate_to_datetime(answer.headers[EXPIRES]).timestamp() - now
            return _Token(answer.headers[TOKEN], now + TOKEN_USE * life)
        except (KeyError, ValueError):
            raise Unavailable(f"Rucio at {self._url} answered a login without a token") from None

    def _kind(self, answer: Answer) -> type[Exception]:
        kind = super()._kind(answer)
        # What is not there is not what the caller wanted: the URL is wrong.
        return Refused if kind is NotFound else kind

    def _reason(self, answer: Answer) -> str:
        return str(answer.headers.get("ExceptionMessage", ""))

    @property
    def setting(self) -> str:
        """Where a person says who logs in."""
        if self._password is not None:
            return "WMS2_RUCIO_ACCOUNT, WMS2_RUCIO_USER and WMS2_RUCIO_PASSWORD"
        return "WMS2_RUCIO_ACCOUNT and WMS2_RUCIO_CERTIFICATE or WMS2_CERTIFICATE"

    def _setting(self) -> str:
        return self.setting

    def _secrets(self) -> Iterator[str]:
        if self._password is not None:
            yield self._password.password


class TokenLogin:
    """A token of Rucio's own, made anew when it has little time left or was refused; once for all calls."""

    def __init__(self, server: AuthServer) -> None:
        self._server = server
        self._token: _Token | None = None
        self._one_login = asyncio.Lock()
        self._used: deque[str] = deque(maxlen=3)

    async def headers(self) -> dict[str, str]:
        async with self._one_login:
            if self._token is None or time.time() > self._token.renew_at:
                self._token = await self._server.token()
                self._used.append(self._token.text)
            return {TOKEN: self._token.text}

    def renews(self, refused: Mapping[str, str]) -> bool:
        if self._token is not None and self._token.text == refused[TOKEN]:
            self._token = None
        return True

    def secrets(self) -> Iterator[str]:
        yield from self._used
