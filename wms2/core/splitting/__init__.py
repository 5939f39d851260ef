"""Cutting the work of a round into jobs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wms2.core.collector import collector_paused
from wms2.core.splitting.events import split_by_events, split_files_by_events
from wms2.core.splitting.files import split_by_files, whole_files
from wms2.core.splitting.intake import Intake, LeftOut, take_in
from wms2.core.splitting.lumis import split_by_events_in_lumis, split_by_lumis
from wms2.models.plan import Job, Snapshot
from wms2.models.splitting import SplittingAlgo

_SPLITTERS: Mapping[SplittingAlgo, Callable[[Intake, Snapshot], list[Job]]] = {
    SplittingAlgo.FILE_BASED: split_by_files,
    SplittingAlgo.EVENT_BASED: split_files_by_events,
    SplittingAlgo.LUMI_BASED: split_by_lumis,
    SplittingAlgo.EVENT_AWARE_LUMI: split_by_events_in_lumis,
}


@dataclass(frozen=True, slots=True)
class Split:
    """The jobs of a round, in the order in which they are numbered, and the input that none of them reads."""

    jobs: list[Job]
    left_out: tuple[LeftOut, ...] = ()


def split(snapshot: Snapshot) -> Split:
    """Cut a round into jobs. The order of the input does not matter."""
    with collector_paused():
        if snapshot.request.is_simulation:
            return Split(split_by_events(snapshot))
        algorithm = snapshot.request.splitting_algo
        intake = take_in(snapshot, whole_lumis=algorithm.keeps_lumis_whole)
        if snapshot.pilot:
            # One job measures, and reads all that the pilot was given.
            return Split(whole_files(intake, max(1, len(snapshot.inputs))), intake.left_out)
        return Split(_SPLITTERS[algorithm](intake, snapshot), intake.left_out)
