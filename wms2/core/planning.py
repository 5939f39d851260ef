"""From a frozen snapshot to the plan of a round: the same snapshot always gives the same plan."""

import math
from collections.abc import Iterator, Sequence

from wms2.core.collector import collector_paused
from wms2.core.splitting import Split, split
from wms2.core.splitting.intake import LeftOut
from wms2.core.work_units import group_jobs, oversized, unit_budget
from wms2.errors import UserError
from wms2.models.base import LARGEST_EVENT, LARGEST_LUMI
from wms2.models.plan import PileUp, RoundPlan, Snapshot, WorkUnit
from wms2.models.request import Request
from wms2.models.splitting import SplittingAlgo, generated_lumis
from wms2.patterns import LFN_LENGTH

LFN_ENDING = 80
"""The most that work unit, node and cluster add to an LFN base, a dataset's name and a module."""


def plan_round(snapshot: Snapshot) -> RoundPlan:
    """Split, group, and say what was left out.

    Raises UserError when nothing would run: an empty DAG helps nobody.
    """
    _check_sites(snapshot)
    _check_event_numbers(snapshot)
    _check_lumi_numbers(snapshot)
    _check_names(snapshot)
    taken, work = _work(snapshot)
    if not work.jobs:
        reason = "; ".join(map(str, work.left_out)) or "the input has no files"
        raise UserError(f"{snapshot.request.request_name} has nothing to run: {reason}")
    with collector_paused():
        grouped = group_jobs(work.jobs, taken)
        units = _one_round(grouped, taken)
    later = _left(snapshot, units, grouped[len(units) :])
    return RoundPlan(snapshot, units, tuple(_problems(taken, work.left_out, units)), later)


def _work(snapshot: Snapshot) -> tuple[Snapshot, Split]:
    """Jobs over the fresh files, or, when none can be made of them, over those that were tried before."""
    budget = unit_budget(snapshot)
    work = split(snapshot, budget)
    if work.jobs or not snapshot.attempted:
        return snapshot, work
    again = snapshot.model_copy(update={"inputs": snapshot.attempted, "attempted": ()})
    second = split(again, budget)
    return again, Split(second.jobs, (*work.left_out, *second.left_out))


def _one_round(units: Sequence[WorkUnit], snapshot: Snapshot) -> tuple[WorkUnit, ...]:
    """The first units, as many as a round takes. A file is in one unit only, so none is cut in two."""
    nodes = files = 0
    for count, unit in enumerate(units):
        nodes += unit.node_count
        enough = snapshot.files is not None and files >= snapshot.files
        if count and (enough or nodes > snapshot.limits.nodes_per_round):
            return tuple(units[:count])
        files += _files(unit)
    return tuple(units)


def _left(snapshot: Snapshot, units: Sequence[WorkUnit], waiting: Sequence[WorkUnit]) -> int:
    if snapshot.request.is_simulation:
        return snapshot.events - sum(unit.events for unit in units)
    return sum(map(_files, waiting))


def _files(unit: WorkUnit) -> int:
    return len({part.lfn for job in unit.jobs for part in job.files})


def events_to_generate(wanted: int, filter_efficiency: float) -> int:
    """How many events must be generated so that `wanted` are expected to pass the filter."""
    return math.ceil(wanted / filter_efficiency)


def allowed_sites(request: Request, known: list[str], pileups: Sequence[PileUp] = ()) -> tuple[str, ...]:
    """The known sites that the request's lists allow and that have all of the pile-up, in a fixed order.

    Raises UserError when the pile-up leaves none of them.
    """
    wanted = set(request.site_whitelist) if request.site_whitelist else set(known)
    allowed = (wanted & set(known)) - set(request.site_blacklist)
    for pileup in () if request.trust_pu_sitelists else pileups:
        left = allowed.intersection(pileup.sites)
        if allowed and not left:
            raise UserError(_no_site_for(request, pileup, allowed))
        allowed = left
    return tuple(sorted(allowed))


def _no_site_for(request: Request, pileup: PileUp, allowed: set[str]) -> str:
    where = f"is at {', '.join(pileup.sites)}" if pileup.sites else "is nowhere as a whole"
    return (
        f"{request.request_name} may run nowhere: its pile-up {pileup.dataset} {where}, and the sites that could run "
        f"it otherwise are {', '.join(sorted(allowed))}; place it there, change the site lists, or set "
        "trust_pu_sitelists"
    )


def _check_sites(snapshot: Snapshot) -> None:
    if not snapshot.sites:
        raise UserError(
            f"{snapshot.request.request_name} may run nowhere: its site lists and the known sites have none "
            "in common; change site_whitelist or site_blacklist, or name sites that exist"
        )


def _check_event_numbers(snapshot: Snapshot) -> None:
    if snapshot.first_event + snapshot.events - 1 > LARGEST_EVENT:
        raise UserError(
            f"{snapshot.request.request_name} needs event numbers above {LARGEST_EVENT}; ask for fewer"
        )


def _check_lumi_numbers(snapshot: Snapshot) -> None:
    if not snapshot.request.is_simulation:
        return
    lumis = generated_lumis(snapshot.events, snapshot.events_per_job, snapshot.request.events_per_lumi)
    if snapshot.first_lumi + lumis - 1 > LARGEST_LUMI:
        raise UserError(
            f"{snapshot.request.request_name} needs lumi section numbers above {LARGEST_LUMI}; ask for more events in "
            "each, or for fewer events"
        )


def _check_names(snapshot: Snapshot) -> None:
    """What jobs add to an LFN base must still fit: a file that cannot be registered must not be made."""
    request = snapshot.request
    for output in request.outputs:
        for base in (request.merged_lfn_base, request.unmerged_lfn_base):
            if len(base) + len(output.dataset) + len(output.module) + LFN_ENDING > LFN_LENGTH:
                raise UserError(
                    f"{request.request_name}: file names of {output.dataset} below {base} would be longer than "
                    f"{LFN_LENGTH} characters; shorten the LFN base or the dataset's name"
                )


def _problems(snapshot: Snapshot, left_out: Sequence[LeftOut], units: Sequence[WorkUnit]) -> Iterator[str]:
    yield from map(str, left_out)
    listed = {pileup.dataset for pileup in snapshot.pileups}
    for dataset in snapshot.request.pileup_datasets:
        if dataset not in listed:
            yield (
                f"where the pile-up {dataset} is, and its files, is not known here: jobs can mix it in only when the "
                "round is planned by a worker, which asks Rucio and DBS"
            )
    if empty := sorted(file.lfn for file in snapshot.inputs if file.events == 0):
        yield f"{len(empty)} files have no events (for example {empty[0]})"
    if large := oversized(units, snapshot):
        yield (
            f"{len(large)} work units are larger than the merge target or have more than "
            f"{snapshot.limits.jobs_per_work_unit} jobs, because all their jobs read one file, or files that share "
            f"lumi sections (for example {large[0].name} "
            f"with {len(large[0].jobs)} jobs); {_advice(snapshot.request)}"
        )


def _advice(request: Request) -> str:
    """What is left to do where one file alone, or files that share lumi sections, give more than a unit should have."""
    by_lumis = request.splitting_algo is SplittingAlgo.LUMI_BASED
    return f"more {'lumis_per_job' if by_lumis else 'events_per_job'} give them fewer jobs"
