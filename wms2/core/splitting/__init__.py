"""Cutting the work of a round into jobs."""

from dataclasses import dataclass

from wms2.core.collector import collector_paused
from wms2.core.splitting.events import split_by_events, split_files_by_events
from wms2.core.splitting.files import split_by_files, whole_files
from wms2.core.splitting.intake import Intake, LeftOut, take_in
from wms2.core.splitting.lumis import split_by_events_in_lumis, split_by_lumis
from wms2.core.work_units import UnitBudget
from wms2.models.plan import Job, Snapshot
from wms2.models.splitting import SplittingAlgo


@dataclass(frozen=True, slots=True)
class Split:
    """The jobs of a round, in the order in which they are numbered, and the input that none of them reads."""

    jobs: list[Job]
    left_out: tuple[LeftOut, ...] = ()


def split(snapshot: Snapshot, budget: UnitBudget | None = None) -> Split:
    """Cut a round into jobs. The order of the input does not matter.

    Jobs that share files end up in one work unit. With a budget, there are no more of those together than it
    holds, where the files allow it.
    """
    with collector_paused():
        if snapshot.request.is_simulation:
            return Split(split_by_events(snapshot))
        intake = take_in(snapshot, whole_lumis=snapshot.request.splitting_algo.keeps_lumis_whole)
        return Split(_jobs(intake, snapshot, budget), intake.left_out)


def _jobs(intake: Intake, snapshot: Snapshot, budget: UnitBudget | None) -> list[Job]:
    if snapshot.pilot:
        # One job measures, and reads all that the pilot was given.
        return whole_files(intake, max(1, len(snapshot.inputs)))
    match snapshot.request.splitting_algo:
        case SplittingAlgo.FILE_BASED:
            return split_by_files(intake, snapshot)
        case SplittingAlgo.EVENT_BASED:
            return split_files_by_events(intake, snapshot)
        case SplittingAlgo.LUMI_BASED:
            return split_by_lumis(intake, snapshot, budget)
        case SplittingAlgo.EVENT_AWARE_LUMI:
            return split_by_events_in_lumis(intake, snapshot, budget)
