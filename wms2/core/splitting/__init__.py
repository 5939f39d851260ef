"""Cutting the work of a round into jobs."""

from collections.abc import Callable

from wms2.core.splitting.events import split_by_events, split_files_by_events
from wms2.core.splitting.files import split_by_files
from wms2.errors import UserError
from wms2.models.plan import Job, Snapshot
from wms2.models.splitting import SplittingAlgo


def split(snapshot: Snapshot) -> list[Job]:
    """The jobs of a round, in the order in which they are numbered."""
    if snapshot.request.is_simulation:
        return split_by_events(snapshot)
    return _splitter(snapshot.request.splitting_algo)(snapshot)


def _splitter(algorithm: SplittingAlgo) -> Callable[[Snapshot], list[Job]]:
    splitters = {
        SplittingAlgo.FILE_BASED: split_by_files,
        SplittingAlgo.EVENT_BASED: split_files_by_events,
    }
    if algorithm not in splitters:
        known = ", ".join(sorted(splitters))
        raise UserError(f"splitting by {algorithm} is not available yet; use one of: {known}")
    return splitters[algorithm]
