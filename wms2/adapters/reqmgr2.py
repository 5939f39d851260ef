"""ReqMgr2, where people ask the experiment for work, and the cache of configurations beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import TypeAdapter

from wms2.adapters.credentials import Certificate, TokenFile
from wms2.adapters.limits import RateLimit
from wms2.adapters.parallel import in_order
from wms2.adapters.service import Answer, Service, TimeLimits
from wms2.errors import NotFound, Refused

CALLS_AT_ONCE = 4
NAMES_AT_ONCE = 20
"""Names are long, and stand in the address of a call."""
JSON = {"Accept": "application/json"}
CONFIG_CACHE = "couchdb/reqmgr_config_cache"

Document = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """A configuration of the experiment's program, and what may be changed in it."""

    pset: bytes = field(repr=False)
    tweak: Document = field(repr=False)


@dataclass(slots=True)
class _Result:
    result: list[dict[str, Document]]


@dataclass(slots=True)
class _ConfigDocument:
    pset_tweak_details: Document | None = None


_RESULT = TypeAdapter(_Result)
_CONFIG = TypeAdapter(_ConfigDocument)


class ReqMgr2(Service):
    """A ReqMgr2 server; the URL is such as https://host/reqmgr2. Its configurations are at the same host, unless
    `config_url` says where."""

    name = "ReqMgr2"

    def __init__(
        self,
        url: str,
        credentials: Certificate | TokenFile | None = None,
        limit: RateLimit | None = None,
        times: TimeLimits | None = None,
        config_url: str | None = None,
    ) -> None:
        super().__init__(url, credentials, limit, times)
        beside = f"{self._url.removesuffix(urlsplit(self._url).path)}/{CONFIG_CACHE}"
        self._configs = ConfigCache(config_url or beside, credentials, self._limit, times)

    async def close(self) -> None:
        await super().close()
        await self._configs.close()

    async def request(self, name: str) -> Document | None:
        """A request as ReqMgr2 has it; None for one that it does not know."""
        return (await self._found(_path(name))).get(name)

    async def requests(self, status: str, wms_backend: str | None = None, **filters: str) -> list[Document]:
        """The requests in a status, by name; of one backend only where that is named.

        `filters` are ReqMgr2's own: team, request_type, requestor, campaign and so on.
        """
        # Most requests are somebody else's, and a request is long: only a word of each is asked for at first.
        found = await self._found("data/request", status=status, mask="wms_backend", **filters)
        is_asked = wms_backend is not None
        names = (
            name for name in sorted(found) if not is_asked or found[name].get("wms_backend") == wms_backend
        )
        async with aclosing(in_order(self.request, names, CALLS_AT_ONCE)) as answers:
            return [document async for _, document in answers if document is not None]

    async def statuses(self, names: Sequence[str]) -> dict[str, str]:
        """What requests are there, by name; without those that it does not know."""
        there: dict[str, str] = {}
        for first in range(0, len(names), NAMES_AT_ONCE):
            some = list(names[first : first + NAMES_AT_ONCE])
            found = await self._found("data/request", name=some, mask="RequestStatus")
            there |= {name: str(document.get("RequestStatus")) for name, document in found.items()}
        return there

    async def set_status(self, name: str, status: str) -> None:
        """Report how far a request is. Refused when it cannot be that after what it is now."""
        try:
            await self.call("PUT", _path(name), json={"RequestStatus": status}, headers=JSON)
        except Refused:
            known = await self.request(name)
            if known is None:
                raise NotFound(f"ReqMgr2 has no request {name}") from None
            if known.get("RequestStatus") != status:
                raise

    async def config(self, config_cache_id: str) -> Config:
        """The configuration of that id, as it is to be shipped to jobs."""
        return await self._configs.config(config_cache_id)

    async def _found(self, path: str, **query: str | list[str]) -> dict[str, Document]:
        answer = await self.document(_RESULT, "GET", path, params=query, headers=JSON)
        return {name: document for part in answer.result for name, document in part.items()}

    def _reason(self, answer: Answer) -> str:
        return str(answer.headers.get("X-Error-Detail", ""))


class ConfigCache(Service):
    """The CouchDB database of configurations."""

    name = "the cache of configurations"

    async def config(self, config_cache_id: str) -> Config:
        path = quote(config_cache_id, safe="")
        document = await self.document(_CONFIG, "GET", path, headers=JSON)
        pset = await self.call("GET", f"{path}/configFile")
        return Config(pset.content, document.pset_tweak_details or {})


def _path(name: str) -> str:
    return f"data/request/{quote(name, safe='')}"
