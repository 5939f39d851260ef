"""From a frozen snapshot to the plan of a round: the same snapshot always gives the same plan."""

import math

from wms2.core.splitting import split
from wms2.core.splitting.location import unplaced
from wms2.core.work_units import group_jobs
from wms2.errors import UserError
from wms2.models.base import LARGEST_EVENT
from wms2.models.plan import RoundPlan, Snapshot
from wms2.models.request import Request
from wms2.patterns import LFN_LENGTH

LFN_ENDING = 80
"""The most that work unit, node and cluster add to an LFN base, a dataset's name and a module."""


def plan_round(snapshot: Snapshot) -> RoundPlan:
    """Split, group, and say what was left out.

    Raises UserError when nothing would run: an empty DAG helps nobody.
    """
    _check_sites(snapshot)
    _check_event_numbers(snapshot)
    _check_names(snapshot)
    units = group_jobs(split(snapshot), snapshot)
    problems = tuple(_problems(snapshot))
    if not units:
        reason = "; ".join(problems) or "the input has no files"
        raise UserError(f"{snapshot.request.request_name} has nothing to run: {reason}")
    return RoundPlan(snapshot, units, problems)


def events_to_generate(wanted: int, filter_efficiency: float) -> int:
    """How many events must be generated so that `wanted` are expected to pass the filter."""
    return math.ceil(wanted / filter_efficiency)


def allowed_sites(request: Request, known: list[str]) -> tuple[str, ...]:
    """The known sites that the request's lists allow, in a fixed order."""
    wanted = set(request.site_whitelist) if request.site_whitelist else set(known)
    return tuple(sorted((wanted & set(known)) - set(request.site_blacklist)))


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


def _problems(snapshot: Snapshot) -> list[str]:
    problems = []
    if missing := unplaced(snapshot):
        examples = ", ".join(file.lfn for file in missing[:3])
        problems.append(f"{len(missing)} files are at no allowed site (for example {examples})")
    if empty := [file for file in snapshot.inputs if file.events == 0]:
        problems.append(f"{len(empty)} files have no events (for example {empty[0].lfn})")
    return problems
