"""Names and patterns that the scripts share. All paths are relative to the folder of the work unit."""

from __future__ import annotations

MANIFEST = "manifest.json"
SITE_INCLUDE, MEMORY_INCLUDE, ROUND_INCLUDE = "site.inc", "memory.inc", "../round.inc"
POLICY = "../policy.json"
PILEUP = "../pileup.json.gz"
VERDICT = "verdict.json"
MERGE_INPUT, MERGE_OUTPUT = "merge_input.json", "merge_output.json"
REMOVALS = "removals.json"
LOST = "lost.json"

DONE, RETRY, GIVE_UP, ABORT, NOT_YET = 0, 1, 42, 43, 75
"""What a script answers to DAGMan."""
SKIP = 77
"""What a PRE script answers when its node is done already: DAGMan runs neither job nor POST."""

SPARE_RETRIES = 6
"""Beside the node's own attempts, for failures that are not its own. DAGMan is given more than anybody can ask for."""

NOT_SUBMITTED, REMOVED, LOG_ERROR, PRE_FAILED = -1001, -1002, -1003, -1004
"""What DAGMan says of a job instead of an exit code."""


# How a reason begins that the job's own limits gave, and one that HTCondor gives to those of a pool.
_BY_RULE = ("WMS2 ", "The job attribute ", "The system macro ")
# What HTCondor says when somebody had the job removed, or the DAG that it belongs to.
_BY_SOMEBODY = ("(by user ", "via condor_rm", "Python-initiated action", "OtherJobRemoveRequirements", "DAG ")


def is_stop(reason: str) -> bool:
    """Whether a job was removed for no fault of its own. A pool may word the reasons of its rules as it likes."""
    if reason.startswith(_BY_RULE):
        return False
    return not reason or any(words in reason for words in _BY_SOMEBODY)


def is_site_name(text: object) -> bool:
    """T2_US_Purdue. A site comes from a job ad, that is from outside, and goes into a submit file."""
    if not isinstance(text, str) or not text.isascii() or len(text) > 100:
        return False
    tier, *parts = text.split("_")
    return (
        tier in ("T0", "T1", "T2", "T3")
        and len(parts) > 1
        and len(parts[0]) == 2
        and parts[0].isalpha()
        and parts[0].isupper()
        and all(part.isalnum() for part in parts[1:])
    )


def role_of(node: str) -> str:
    """proc of proc_000001"""
    return node.partition("_")[0]


def report_path(node: str, cluster: int) -> str:
    return f"{node}.{cluster}.report.json"


def job_report_path(node: str, cluster: int) -> str:
    return f"{node}.{cluster}.fjr.xml"


def attempt_path(node: str, cluster: int) -> str:
    return f"{node}.{cluster}.post.json"


def newest_path(node: str) -> str:
    return f"{node}.post.json"
