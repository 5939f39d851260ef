"""`workflow.dag`, one node a work unit, and `group.dag`, the jobs of a work unit."""

from __future__ import annotations

from collections.abc import Iterable

from wms2.models.plan import RoundPlan, WorkUnit

GIVE_UP, ABORT, SKIP = 42, 43, 77
"""What a script answers to DAGMan: no further attempt; stop the whole DAG; the node is done already."""

RETRIES = {"landing": 3, "proc": 3, "merge": 2, "cleanup": 1}
WORKFLOW_DAG, GROUP_DAG = "workflow.dag", "group.dag"


def workflow_dag(plan: RoundPlan) -> str:
    """The outer DAG. Scripts of a node with DIR run in that folder, hence `../`."""
    limits = plan.snapshot.limits
    units = "".join(_outer_node(unit) for unit in plan.work_units)
    return (
        "CONFIG dagman.config\n"
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


def group_dag(unit: WorkUnit, status_sec: int) -> str:
    """Landing, then the processing nodes at the elected site, then merge, then cleanup."""
    nodes = [name for name, _ in unit.nodes()]
    return (
        f"NODE_STATUS_FILE {GROUP_DAG}.status {status_sec}\n"
        + _node("landing", "landing")
        + "".join(_node(name, "proc") for name in nodes)
        + _node("merge", "merge")
        + "SCRIPT PRE merge ../post collect\n"
        + f"PRE_SKIP merge {SKIP}\n"
        + _node("cleanup", "cleanup")
        + _edges(nodes)
        + 'VARS ALL_NODES node="$(JOB)"\n'
        + "SCRIPT POST ALL_NODES ../post node $JOB $RETURN $JOBID $RETRY $MAX_RETRIES\n"
        + f"ABORT-DAG-ON ALL_NODES {ABORT} RETURN 1\n"
    )


def _node(name: str, role: str) -> str:
    return f"JOB {name} ../{role}.sub\nRETRY {name} {RETRIES[role]} UNLESS-EXIT {GIVE_UP}\n"


def _edges(nodes: Iterable[str]) -> str:
    listed = " ".join(nodes)
    return f"PARENT landing CHILD {listed}\nPARENT {listed} CHILD merge\nPARENT merge CHILD cleanup\n"
