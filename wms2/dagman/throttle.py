"""`dagman.config`: how much each DAGMan of a round may have under way.

The outer DAGMan hands it on to those of the work units, and each keeps to it for itself: a round has as many idle jobs
as its work units that run, times the limit.
"""

from __future__ import annotations

import re
from pathlib import Path

from wms2.models.plan import Snapshot

DAGMAN_CONFIG = "dagman.config"

_IDLE = re.compile(r"^DAGMAN_MAX_JOBS_IDLE = \d+$", re.MULTILINE)


def dagman_config(snapshot: Snapshot) -> str:
    limits = snapshot.limits
    return (
        f"DAGMAN_MAX_JOBS_IDLE = {limits.jobs_idle}\n"
        f"DAGMAN_MAX_JOBS_SUBMITTED = {limits.jobs_submitted}\n"
        f"DAGMAN_MAX_PRE_SCRIPTS = {limits.scripts_per_group}\n"
        f"DAGMAN_MAX_POST_SCRIPTS = {limits.scripts_per_group}\n"
        f"DAGMAN_USER_LOG_SCAN_INTERVAL = {limits.log_scan_sec}\n"
        "DAGMAN_MAX_SUBMITS_PER_INTERVAL = 100\n"
        "DAGMAN_RESET_RETRIES_UPON_RESCUE = True\n"
        "DAGMAN_ALWAYS_RUN_POST = False\n"
        "DAGMAN_USE_STRICT = 0\n"
    )


def set_idle_jobs(folder: Path, idle_jobs: int) -> None:
    """How many jobs each DAGMan may keep idle, from the next submission of the round on. No DAG of it may run."""
    path = folder / DAGMAN_CONFIG
    text = path.read_text()
    changed = _IDLE.sub(f"DAGMAN_MAX_JOBS_IDLE = {idle_jobs:d}", text)
    if changed != text:
        partial = path.with_suffix(".partial")
        partial.write_text(changed)
        partial.rename(path)
