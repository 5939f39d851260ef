"""What the adapters of all services have in common: connections, logins, limits, and what an answer means."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from wms2.adapters.credentials import Certificate, ClientContext, TokenFile, TokenReader
from wms2.adapters.limits import RateLimit
from wms2.adapters.rows import BrokenAnswer, streamed_rows, whole_rows
from wms2.adapters.silence import Silence
from wms2.errors import BrokenRequest, NotFound, Refused, Unauthorised, Unavailable, UserError

# At DEBUG it writes down the headers of answers, and Rucio's tokens are among them.
logging.getLogger("httpcore").setLevel(logging.INFO)

PER_SEC = 50.0
AT_ONCE = 8
LARGEST_ANSWER = 64 * 1024 * 1024
LONGEST_WAIT_SEC = 3600.0
REASON_LENGTH = 500
PASSING = {408, 425, 429}
KINDS: Mapping[int, type[Refused]] = {
    400: BrokenRequest,
    401: Unauthorised,
    403: Unauthorised,
    404: NotFound,
    405: BrokenRequest,
    406: BrokenRequest,
    410: NotFound,
    411: BrokenRequest,
    413: BrokenRequest,
    414: BrokenRequest,
    415: BrokenRequest,
    422: BrokenRequest,
}

Row = TypeVar("Row")
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class TimeLimits:
    """In seconds. A long list may take as long as it needs, but no service may be silent for long."""

    connect: float = 10
    silence: float = 120
    call: float = 600
    """A whole call, from the wait for its turn to the last byte of its answer; of a list the wait alone."""
    rest: float = 30
    """For how long a service is left alone that let somebody wait in vain."""


@dataclass(frozen=True)
class Answer:
    """An answer that was read to its end."""

    method: str
    path: str
    status: int
    headers: httpx.Headers = field(repr=False)
    content: bytes = field(repr=False)

    def json(self) -> Any:
        """What it says, in JSON; a BrokenAnswer where it says something else."""
        try:
            return json.loads(self.content)
        except ValueError:
            raise BrokenAnswer("something that is no JSON") from None


class Login(Protocol):
    """Says in the headers of a call who makes it."""

    async def headers(self) -> dict[str, str]: ...

    def renews(self, refused: Mapping[str, str]) -> bool:
        """Whether the next headers are others than these, which the service did not take."""
        ...

    def secrets(self) -> Iterator[str]: ...


class NoLogin:
    """For a service that knows who calls by the certificate, or need not know."""

    async def headers(self) -> dict[str, str]:
        return {}

    def renews(self, refused: Mapping[str, str]) -> bool:  # noqa: ARG002
        return False

    def secrets(self) -> Iterator[str]:
        return iter(())


class BearerLogin:
    """A token from a file."""

    def __init__(self, source: TokenFile, header: str = "Authorization", prefix: str = "Bearer ") -> None:
        self._reader = TokenReader(source)
        self._header = header
        self._prefix = prefix

    async def headers(self) -> dict[str, str]:
        return {self._header: f"{self._prefix}{self._reader.token()}"}

    def renews(self, refused: Mapping[str, str]) -> bool:
        return refused[self._header] != f"{self._prefix}{self._reader.token()}"

    def secrets(self) -> Iterator[str]:
        return self._reader.seen()


class Service:
    """A service at a URL. One object serves a whole process, which shares its connections and its limits.

    Its errors are those of `wms2.errors`: Unavailable when trying again may help, a Refused when it does not.
    """

    name: ClassVar[str]

    def __init__(
        self,
        url: str,
        credentials: Certificate | TokenFile | None = None,
        limit: RateLimit | None = None,
        times: TimeLimits | None = None,
    ) -> None:
        self._url = checked_url(url, self.name)
        self._credentials = credentials
        self._limit = limit or RateLimit(PER_SEC, AT_ONCE)
        self._times = times or TimeLimits()
        self._silence = Silence(self._times.rest)
        self._login: Login = BearerLogin(credentials) if isinstance(credentials, TokenFile) else NoLogin()
        certificate = credentials if isinstance(credentials, Certificate) else None
        self._context = ClientContext(self._url, certificate)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(self._times.silence, connect=self._times.connect),
            # As many connections as it takes: how many calls there are at once is limited elsewhere.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=30),
            # A proxy that the environment names would see credentials, and does not know this machine's services.
            trust_env=False,
            verify=self._context.ssl,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.aclose()

    async def call(self, method: str, path: str, **parts: Any) -> Answer:
        """The answer to a call that was granted. `parts` are those of httpx: params, json, headers."""
        with self._told(path):
            async with (
                asyncio.timeout(self._times.call),
                self._limit.turn(),
                self._answer(method, path, **parts) as answer,
            ):
                return await _read(answer)

    async def objects(self, kind: TypeAdapter[list[Row]], method: str, path: str, **parts: Any) -> list[Row]:
        """The rows of a short list."""
        with self._told(path):
            return whole_rows(await self.call(method, path, **parts), kind)

    async def document(self, kind: TypeAdapter[Kind], method: str, path: str, **parts: Any) -> Kind:
        """An answer that is one JSON value."""
        with self._told(path):
            return checked(kind, (await self.call(method, path, **parts)).json())

    async def stream(
        self, kind: TypeAdapter[list[Row]], method: str, path: str, **parts: Any
    ) -> AsyncGenerator[list[Row], None]:
        """The rows of a long list, some at a time; never all of them are in memory. All come, or it raises."""
        with self._told(path):
            async with asyncio.timeout(self._times.call) as patience, self._limit.turn():
                patience.reschedule(None)
                async with self._answer(method, path, **parts) as answer:
                    async for rows in streamed_rows(answer, kind):
                        yield rows

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **parts: Any
    ) -> AsyncIterator[httpx.Response]:
        """An answer that has begun and is no refusal."""
        if left := self._silence.left_sec():
            raise Unavailable(f"{self.name} at {self._url} {self._silence.reason}", left)
        for is_last in (False, True):
            login = await self._login.headers()
            self._context.refresh()
            asked = {**(headers or {}), **login}
            call = self._client.build_request(method, f"{self._url}/{path}", headers=asked, **parts)
            answer = await self._client.send(call, stream=True)
            self._silence.heard()
            try:
                if not is_last and self._login_expired(answer) and self._login.renews(login):
                    continue
                if not answer.is_success:
                    raise self._error(await _read(answer))
                yield answer
                return
            finally:
                await answer.aclose()

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Trouble on the way, in the words of `wms2.errors`. Nothing of a call is shown: it holds secrets."""
        since = time.monotonic()
        try:
            yield
        except httpx.RequestError as error:
            if isinstance(error, httpx.TimeoutException):
                self._silence.waited_in_vain(since)
            why = self._shown(str(error)) or type(error).__name__
            if "CERTIFICATE_VERIFY_FAILED" in why:
                why += "; SSL_CERT_FILE or SSL_CERT_DIR names the authorities that are trusted"
            raise Unavailable(f"{self.name} at {self._url} does not answer {path}: {why}") from None
        except TimeoutError:
            self._silence.waited_in_vain(since)
            raise Unavailable(
                f"{self.name} at {self._url} does not answer {path}: it took longer than {self._times.call} s"
            ) from None
        except BrokenAnswer as broken:
            raise Unavailable(f"{self.name} at {self._url} answered {path} with {broken}") from None

    def _login_expired(self, answer: httpx.Response) -> bool:
        return answer.status_code == httpx.codes.UNAUTHORIZED

    def _error(self, answer: Answer) -> Exception:
        """What an answer that is no success means."""
        kind = self._kind(answer)
        call = f"{answer.method} {answer.path}"
        reason = self._shown(self._reason(answer)).rstrip(".")
        if kind is Unavailable:
            said = f"{self.name} at {self._url} answered {call} with {answer.status}"
            said = f"{said}: {reason}" if reason else said
            later = retry_after(answer)
            if later is not None:
                self._silence.was_asked_for(later)
            return Unavailable(said, later)
        if 300 <= answer.status < 400:
            return Refused(f"{self.name} at {self._url} sends {call} elsewhere: check its URL")
        reason = reason or httpx.codes.get_reason_phrase(answer.status)
        said = f"{self.name} refused {call} with {answer.status}: {reason}"
        return kind(f"{said}; check {self._setting()}" if kind is Unauthorised else said)

    def _kind(self, answer: Answer) -> type[Exception]:
        if answer.status >= 500 or answer.status in PASSING:
            return Unavailable
        return KINDS.get(answer.status, Refused)

    def _reason(self, answer: Answer) -> str:  # noqa: ARG002
        """Why it said no, in its own words."""
        return ""

    def _setting(self) -> str:
        """Where a person says who WMS2 is for this service."""
        by = {Certificate: "WMS2_CERTIFICATE and WMS2_KEY", TokenFile: "WMS2_TOKEN_FILE"}
        return by.get(type(self._credentials), "WMS2_CERTIFICATE or WMS2_TOKEN_FILE")

    def _secrets(self) -> Iterator[str]:
        return self._login.secrets()

    def _shown(self, text: str) -> str:
        """What somebody else wrote, as one short line without the secrets that it may repeat."""
        for secret in self._secrets():
            text = text.replace(secret, "***")
        line = " ".join(text.split())
        return line if len(line) <= REASON_LENGTH else f"{line[:REASON_LENGTH]}..."


async def _read(answer: httpx.Response) -> Answer:
    content = bytearray()
    async for piece in answer.aiter_bytes():
        content += piece
        if len(content) > LARGEST_ANSWER:
            raise BrokenAnswer(f"more than {LARGEST_ANSWER} bytes")
    asked = answer.request
    return Answer(asked.method, asked.url.path, answer.status_code, answer.headers, bytes(content))


def checked(kind: TypeAdapter[Kind], value: Any) -> Kind:
    """The value as what it should be; a BrokenAnswer where it is something else."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BrokenAnswer(f"what it should not have ({where or 'all of it'}: {first['msg']})") from None


def checked_url(url: str, service: str) -> str:
    """A URL that can be used, and shown: a password in it would be in every error."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise UserError(f"The URL of {service} must be http(s)://host/path, without a user and a password.")
    return url.rstrip("/")


def retry_after(answer: Answer) -> float | None:
    """After how many seconds the service wants to be asked again, if it says so and it is not too long."""
    said = answer.headers.get("Retry-After", "").strip()
    try:
        wait = float(said) if said.isdecimal() else parsedate_to_datetime(said).timestamp() - time.time()
    except (ValueError, TypeError):
        return None
    return min(max(wait, 0.0), LONGEST_WAIT_SEC)
