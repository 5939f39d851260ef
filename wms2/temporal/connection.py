"""A connection to Temporal that outlives its credentials: files that are renewed in place are read again."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time

from temporalio.client import Client

from wms2.config import Settings
from wms2.errors import UserError
from wms2.temporal.client import api_key, connect, tls_config

log = logging.getLogger(__name__)

LOOK_EVERY_SEC = 10.0


class Credentials:
    """The files by which Temporal knows WMS2, and WMS2 knows Temporal. To be made before the connection is."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known = self._digest()

    async def renewed(self) -> Client | None:
        """A client with what the files hold now, if that is news and Temporal lets it in.

        They are not written all at once: what does not fit yet is tried again the next time.
        """
        found = await asyncio.to_thread(self._digest)
        if found in (None, self._known):
            return None
        try:
            client = await connect(self._settings)
        except UserError as error:
            log.warning("the credentials for Temporal have changed, and those before are kept: %s", error)
            return None
        self._known = found
        return client

    async def wait_for_renewal(self) -> None:
        """Returns when they were renewed and Temporal takes them; not at all where they never are."""
        while await self.renewed() is None:
            await asyncio.sleep(LOOK_EVERY_SEC)

    def _digest(self) -> bytes | None:
        """None while one of the files cannot be read."""
        try:
            tls, key = tls_config(self._settings), api_key(self._settings)
        except UserError:
            return None
        parts = (tls.server_root_ca_cert, tls.client_cert, tls.client_private_key) if tls else ()
        return hashlib.sha256(repr((parts, key)).encode()).digest()


class Connection:
    """One for a process that asks Temporal for as long as it lives, and need not be told of a renewal."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._credentials: Credentials | None = None
        self._looked_at = 0.0
        self._renewal: asyncio.Task[None] | None = None

    async def client(self) -> Client:
        """Connected with the newest credentials; raises as `connect` does while there was never a connection."""
        async with self._connecting:
            if self._client is None:
                credentials = Credentials(self._settings)
                self._client = await connect(self._settings)
                self._credentials, self._looked_at = credentials, time.monotonic()
        if time.monotonic() - self._looked_at > LOOK_EVERY_SEC:
            self._looked_at = time.monotonic()
            # Nobody waits for it: the connection that there is goes on as long as Temporal lets it.
            self._renewal = self._renewal if self._is_renewing() else asyncio.create_task(self._renew())
        return self._client

    def _is_renewing(self) -> bool:
        return self._renewal is not None and not self._renewal.done()

    async def _renew(self) -> None:
        assert self._credentials is not None
        if client := await self._credentials.renewed():
            log.info("connected to Temporal anew, with the credentials that were renewed")
            self._client = client
