"""Names and patterns that the scripts share. All paths are relative to the folder of the work unit."""

from __future__ import annotations

import re

MANIFEST = "manifest.json"
SITE_INCLUDE, MEMORY_INCLUDE, ROUND_INCLUDE = "site.inc", "memory.inc", "../round.inc"
POLICY = "../policy.json"
VERDICT = "verdict.json"
MERGE_INPUT, MERGE_OUTPUT = "merge_input.json", "merge_output.json"
REMOVALS = "removals.json"
LOST = "lost.json"

DONE, RETRY, GIVE_UP, ABORT = 0, 1, 42, 43
"""What a script answers to DAGMan."""
SKIP = 77
"""What a PRE script answers when its node is done already: DAGMan runs neither job nor POST."""

# The site comes from a job ad, that is from outside, and goes into a submit file.
SITE_NAME = re.compile(r"T[0-3]_[A-Z]{2}_[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*")


def report_path(node: str, cluster: int) -> str:
    return f"{node}.{cluster}.report.json"


def attempt_path(node: str, cluster: int) -> str:
    return f"{node}.{cluster}.post.json"


def newest_path(node: str) -> str:
    return f"{node}.post.json"
