"""What the routes work with: the door to requests, with an end to every wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

from fastapi import Depends
from starlette.requests import Request as Call
from temporalio.client import Client

from wms2.adapters.messenger import contacts_of
from wms2.api.callers import Caller, NotAllowed
from wms2.api.config import ApiConfig
from wms2.config import Settings
from wms2.db.notices import telling
from wms2.db.session import connect as connect_database
from wms2.door.direct import DirectDoor
from wms2.errors import Silent, UserError
from wms2.models.request import RequestRecord
from wms2.temporal.connection import Connection

log = logging.getLogger(__name__)

THREADS = 16
FILE_THREADS = 2
DOCUMENT_THREADS = 2
ANSWER_SEC = 10.0
"""After so long without an answer of a server the caller is told so."""

P = ParamSpec("P")
R = TypeVar("R")


class Service(DirectDoor):
    """One for the process. The servers may come and go: each call finds out anew."""

    tells_where = False

    def __init__(self, settings: Settings, config: ApiConfig) -> None:
        engine = connect_database(settings.needed("database_url"), answer_sec=ANSWER_SEC, connections=THREADS)
        super().__init__(telling(engine, contacts_of(settings)), self._client, settings)
        self.config = config
        self._threads = ThreadPoolExecutor(THREADS, "api")
        self._file_threads = ThreadPoolExecutor(FILE_THREADS, "api-files")
        self._document_threads = ThreadPoolExecutor(DOCUMENT_THREADS, "api-documents")
        self._connection = Connection(settings)

    async def apart(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As any door does, while other calls are answered, and in bounded time: a TimeoutError after that."""
        return await _in_time(self._threads, partial(work, *args, **kwargs))

    async def of_files(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `apart`, for what reads files: a file system that hangs takes no thread from anybody else."""
        return await _in_time(self._file_threads, partial(work, *args, **kwargs))

    async def of_documents(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `apart`, for what reads a request's document: many long ones keep nobody from looking at theirs."""
        return await _in_time(self._document_threads, partial(work, *args, **kwargs))

    async def seen(self, caller: Caller, name: str) -> RequestRecord:
        """The request, if the caller may see it: operators see all, requestors their own."""
        record = await self.record(name)
        if not (caller.sees_all or caller.owns(record.request)):
            raise NotAllowed(f"{name} is somebody else's request; {caller.identity} may see their own")
        return record

    async def check_sees(self, caller: Caller, name: str) -> None:
        """The same where nothing of the request is needed; for those who see all there is nothing to look up."""
        if not caller.sees_all:
            await self.seen(caller, name)

    async def close(self) -> None:
        for threads in (self._threads, self._file_threads, self._document_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        self.engine.dispose()

    async def _client(self) -> Client:
        try:
            # Whoever waits for another's attempt waits no longer than for their own.
            async with asyncio.timeout(ANSWER_SEC):
                return await self._connection.client()
        except UserError as error:
            # No mistake of the caller's, and nothing for them to read: it may name servers and files of ours.
            log.warning("Temporal cannot be called: %s", error)
            if isinstance(error, Silent):
                raise Silent("Temporal does not answer; ask again in a moment") from None
            raise Silent("the service cannot call Temporal; its log tells those who run it why") from None


async def _in_time(threads: ThreadPoolExecutor, work: Callable[[], R]) -> R:
    async with asyncio.timeout(ANSWER_SEC):
        return await asyncio.get_running_loop().run_in_executor(threads, work)


async def the_service(call: Call) -> Service:
    # As all that a route depends on: a plain function would be sent through a thread.
    service: Service = call.app.state.service
    return service


Inside = Annotated[Service, Depends(the_service)]
