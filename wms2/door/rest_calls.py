"""Calls of the REST service: who makes them, what its answers are, and what its no means."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from wms2.adapters.connect import our_credentials
from wms2.adapters.service import Answer, Service, retry_after
from wms2.config import Settings
from wms2.core.plain import plain_text
from wms2.errors import Contradiction, Missing, Unavailable, UserError
from wms2.patterns import REQUEST_NAME

PAGE = 1000


class Page(BaseModel):
    """A part of a listing."""

    next: int | None


T = TypeVar("T")
SomePage = TypeVar("SomePage", bound=Page)


class RestService(Service):
    """The service's no is a sentence for people, and is told as it is."""

    name: ClassVar[str] = "The REST service"

    def _error(self, answer: Answer) -> Exception:
        said = _detail(answer)
        if not said:
            return super()._error(answer)
        kinds: dict[int, type[UserError]] = {404: Missing, 409: Contradiction}
        if answer.status in (429, 503):
            return Unavailable(said, retry_after(answer))
        if answer.status in (401, 403):
            return UserError(f"{said} (you are who {self._setting()} says)")
        return kinds.get(answer.status, UserError)(said)


class RestCalls:
    """Who asks is whom the certificate or the token names, whatever an order says of its actor."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def call(self, method: str, path: str, **parts: Any) -> Answer:
        url = self._settings.api_url or ""
        async with RestService(f"{url.rstrip('/')}/api/v1", our_credentials(self._settings)) as service:
            return await service.call(method, path, **parts)

    async def look(self, kind: type[T], path: str, **params: Any) -> T:
        """What is found at an address."""
        return read(kind, await self.call("GET", path, params=params))

    async def act(self, method: str, path: str, action_id: str, **parts: Any) -> Answer:
        """Do something once, however often the call is sent."""
        key = re.sub(r"[^A-Za-z0-9_.:-]", "_", action_id)[-100:]
        return await self.call(method, path, headers={"Idempotency-Key": key}, **parts)

    async def pages(
        self, kind: type[SomePage], path: str, **asked: str | bool | Sequence[str] | None
    ) -> AsyncIterator[SomePage]:
        wanted = {name: value for name, value in asked.items() if value is not None}
        offset: int | None = 0
        while offset is not None:
            page = await self.look(kind, path, **wanted, limit=PAGE, offset=offset)
            yield page
            offset = page.next


def read(kind: type[T], answer: Answer) -> T:
    """What it says, as far as this WMS2 knows the words: figures that a model works out by itself are among them."""
    try:
        return TypeAdapter(kind).validate_json(answer.content, extra="ignore")
    except ValidationError:
        raise UserError(
            "the REST service answers otherwise than this WMS2 expects; is it another version?"
        ) from None


def checked(name: str) -> str:
    """The name of a request that can stand in an address."""
    if not REQUEST_NAME.fullmatch(name):
        raise Missing(f"there is no request named {name}; `wms2 request list` shows all")
    return name


def _detail(answer: Answer) -> str:
    try:
        said = json.loads(answer.content).get("detail")
    except (ValueError, AttributeError):
        return ""
    return plain_text(said)
