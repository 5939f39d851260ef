"""DAGs that a submit host still has in its queue although their rounds are over: it was away when they were closed."""

from __future__ import annotations

import asyncio
import logging

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from wms2.adapters.condor import Condor
from wms2.db.dags import dags_of_closed_rounds
from wms2.db.session import transaction
from wms2.errors import Unavailable

log = logging.getLogger(__name__)


async def remove_leftovers(condor: Condor, engine: Engine) -> list[str]:
    """Remove the DAGs of closed rounds from this host's queue, and no others. Returns their tags.

    Nothing that they produce would be credited. A schedd or a database that does not answer is no error: then
    nothing is removed now.
    """
    removed: list[str] = []
    try:
        queued = await condor.tagged_dags()
        for dag_id in await asyncio.to_thread(_closed, engine, queued):
            log.warning("%s is in the queue and its round is closed: removing it", dag_id)
            await condor.remove_dag(queued[dag_id], dag_id, "its round is closed")
            removed.append(dag_id)
    except (Unavailable, SQLAlchemyError) as error:
        log.warning("DAGs of closed rounds were not looked for: %s", error)
    return removed


def _closed(engine: Engine, queued: dict[str, int]) -> list[str]:
    with transaction(engine) as session:
        return dags_of_closed_rounds(session, queued)
