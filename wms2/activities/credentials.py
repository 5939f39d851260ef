"""The credentials of jobs on a submit host: kept fresh, handed out, and told of when they are not."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from wms2.activities.alerts import sound
from wms2.adapters.job_credentials import JobCredentials
from wms2.core.credentials import low_life, no_submission
from wms2.core.notices import credential_happening
from wms2.dagman.include import set_credentials
from wms2.db.notices import queue
from wms2.db.session import transaction
from wms2.errors import Unavailable
from wms2.temporal.runtime import meter

log = logging.getLogger(__name__)

REFRESH_EVERY_SEC = 300.0


def hand_out_credentials(credentials: JobCredentials | None, folder: Path) -> None:
    """To the jobs of a round that are submitted from now on, the newest that they can carry.

    Nothing is submitted with one that would not outlive the first jobs.
    """
    if credentials is None:
        set_credentials(folder, None, None)
        return
    if why := no_submission(credentials.refresh(), datetime.now(UTC)):
        raise Unavailable(why)
    set_credentials(folder, credentials.proxy, credentials.token)


async def keep_credentials_fresh(credentials: JobCredentials, engine: Engine, host: str) -> None:
    """Until it is cancelled: what was renewed is taken over, and who lives not much longer is reported."""
    while True:
        await asyncio.to_thread(refresh_credentials, credentials, engine, host)
        await asyncio.sleep(REFRESH_EVERY_SEC)


def refresh_credentials(credentials: JobCredentials, engine: Engine, host: str) -> None:
    now = datetime.now(UTC)
    ends = meter().create_gauge(
        "wms2_credential_end_timestamp_seconds", "When a credential of jobs on this host is over"
    )
    for held in credentials.refresh():
        end = int(held.ends_at.timestamp()) if held.ends_at else 0
        ends.set(end, {"host": host, "credential": held.kind})
        if words := low_life(held, now):
            sound("credential", f"{held.name} on {host}", words)
            try:
                with transaction(engine) as session:
                    queue(session, credential_happening(held.name, host, words, now))
            except SQLAlchemyError as error:
                log.warning("nobody was told of it: %s", error)
        elif held.problem:
            log.warning("%s on %s was not renewed: %s", held.name, host, held.problem)
