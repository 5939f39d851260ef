"""Telling people: what waits in the outbox is put into digests, and each is taken to its address."""

from __future__ import annotations

import logging
from datetime import timedelta
from uuid import UUID

from sqlalchemy import Engine
from temporalio import activity

from wms2.activities.database import DatabaseActivities
from wms2.adapters.mail import NotSent
from wms2.adapters.messenger import Messenger
from wms2.db import notices
from wms2.models.notice import DigestState

log = logging.getLogger(__name__)


class NoticeActivities(DatabaseActivities):
    """Without a messenger, notifications are off: nothing is claimed and nothing is sent."""

    def __init__(
        self, engine: Engine, messenger: Messenger | None, most_tries: int, between_runs: timedelta
    ) -> None:
        super().__init__(engine)
        self._messenger = messenger
        self._most_tries = most_tries
        self._between_runs = between_runs

    @activity.defn
    async def claim_digests(self) -> list[UUID]:
        """The digests that are due. They are recorded, so that whoever sends them sends the same."""
        return [] if self._messenger is None else await self.record(notices.claim_digests)

    @activity.defn
    async def send_digest(self, digest_id: UUID) -> DigestState:
        """Send it and say so in the record. Who dies in between leaves it to be sent once more, under the same id."""
        digest = await self.record(notices.open_digest, digest_id)
        if digest is None:
            return DigestState.SENT
        if self._messenger is None:
            return DigestState.SENDING
        try:
            await self._messenger.send(digest)
        except Exception as error:  # Whatever it was: one digest must not keep the others from being sent.
            said = str(error) if isinstance(error, NotSent) else f"{type(error).__name__}: {error}"
            log.warning("digest %s was not sent: %s", digest_id, said)
            return await self.record(
                notices.mark_failed, digest_id, said, self._most_tries, self._between_runs
            )
        return await self.record(notices.mark_sent, digest_id)
