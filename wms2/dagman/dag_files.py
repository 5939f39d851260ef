"""`workflow.dag`, one node a work unit, and `group.dag`, the jobs of a work unit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wms2.dagman.throttle import DAGMAN_CONFIG
from wms2.models.plan import RoundPlan, WorkUnit
from wms2.models.policy import MOST_ATTEMPTS

GIVE_UP, ABORT, NOT_YET, SKIP = 42, 43, 75, 77
"""What a script answers to DAGMan: no further attempt; stop the whole DAG; ask me again; the node is done already."""

SPARE_RETRIES = 6
"""For failures that are not the node's own: those of its site, and jobs that somebody removed."""
MOST_RETRIES = 2 * MOST_ATTEMPTS + SPARE_RETRIES
"""As many as anybody can ask for while the DAG runs: attempts of the node, beside them those of a rule or a handler.
The POST script counts, by the policy as it is then; DAGMan must never be the first to give up."""
CLEANUP_RETRIES = 1

LEAST_DEFER_SEC, MOST_DEFER_SEC = 5, 300
SCRIPTS_PER_SEC = 20
"""How many POST scripts a second may ask whether their node has cooled off, should all nodes fail at once."""
WORKFLOW_DAG, GROUP_DAG = "workflow.dag", "group.dag"
SUBMIT_FILE = f"{WORKFLOW_DAG}.condor.sub"
"""How DAGMan itself is submitted: written by condor_submit_dag, so it is there once that was tried."""


def workflow_dag(plan: RoundPlan) -> str:
    """The outer DAG. Scripts of a node with DIR run in that folder, hence `../`."""
    limits = plan.snapshot.limits
    units = "".join(_outer_node(unit) for unit in plan.work_units)
    return (
        f"CONFIG {DAGMAN_CONFIG}\n"
        f"NODE_STATUS_FILE {WORKFLOW_DAG}.status {limits.status_sec}\n"
        f"{units}"
        f"MAXJOBS WorkUnit {limits.concurrent_work_units}\n"
    )


def _outer_node(unit: WorkUnit) -> str:
    name = unit.name
    return (
        f"SUBDAG EXTERNAL {name} {GROUP_DAG} DIR {name}\n"
        f"SCRIPT PRE {name} ../post prepare $JOB\n"
        f"PRE_SKIP {name} {SKIP}\n"
        f"SCRIPT POST {name} ../post judge $JOB $RETURN $RETRY $MAX_RETRIES\n"
        f"RETRY {name} 1 UNLESS-EXIT {GIVE_UP}\n"
        f"ABORT-DAG-ON {name} {ABORT} RETURN 1\n"
        f"CATEGORY {name} WorkUnit\n"
    )


class GroupSettings(NamedTuple):
    """What the groups of a round have in common."""

    status_sec: int
    defer_sec: int
    """How often a POST script that waits for a node to cool off is asked again."""


def group_settings(plan: RoundPlan) -> GroupSettings:
    limits = plan.snapshot.limits
    often = max(limits.cool_off_sec, plan.jobs // SCRIPTS_PER_SEC, LEAST_DEFER_SEC)
    return GroupSettings(limits.status_sec, min(often, MOST_DEFER_SEC))


def group_dag(unit: WorkUnit, settings: GroupSettings) -> str:
    """Landing, then the processing nodes at the elected site, then merge, then cleanup."""
    nodes = [name for name, _ in unit.nodes()]
    return (
        f"NODE_STATUS_FILE {GROUP_DAG}.status {settings.status_sec}\n"
        + _node("landing", "landing")
        + "".join(_node(name, "proc") for name in nodes)
        + _node("merge", "merge")
        + "SCRIPT PRE merge ../post collect\n"
        + f"PRE_SKIP merge {SKIP}\n"
        + _node("cleanup", "cleanup", CLEANUP_RETRIES)
        + _edges(nodes)
        + 'VARS ALL_NODES node="$(JOB)"\n'
        + f"SCRIPT DEFER {NOT_YET} {settings.defer_sec} "
        + "POST ALL_NODES ../post node $JOB $RETURN $JOBID $RETRY $MAX_RETRIES $DAGID\n"
        + f"ABORT-DAG-ON ALL_NODES {ABORT} RETURN 1\n"
    )


def _node(name: str, role: str, retries: int = MOST_RETRIES) -> str:
    return f"JOB {name} ../{role}.sub\nRETRY {name} {retries} UNLESS-EXIT {GIVE_UP}\n"


def _edges(nodes: Iterable[str]) -> str:
    listed = " ".join(nodes)
    return f"PARENT landing CHILD {listed}\nPARENT {listed} CHILD merge\nPARENT merge CHILD cleanup\n"
