"""The submit files that all nodes of a round share, and the includes that tell nodes apart.

Each include has one writer at a time, and nothing is edited in place:
`round.inc` the worker, by rename; `site.inc` the group's PRE script and then its landing's POST, by rename;
`memory.inc` the nodes' POST scripts, one appended line each, the last one holds.
HTCondor reads them again at each submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wms2.dagman.classads import AttributeValue, attribute_lines
from wms2.models.plan import RoundPlan, Snapshot

LONGEST_WALL_MIN = 48 * 60
SMALLEST_DISK_KB = 500_000

# The site of the machine comes into the job's ad by this, whatever the schedd is configured to record.
_MACHINE = "job_machine_attrs = GLIDEIN_CMSSite\njob_machine_attrs_history_length = 1\n"
_INFORMATION = (
    "job_ad_information_attrs = MachineAttrGLIDEIN_CMSSite0, ExitCode, ExitBySignal, ExitSignal, "
    "MemoryUsage, ResidentSetSize, RemoteUserCpu, RemoteSysCpu, RemoteWallClockTime, RequestMemory, DAGNodeName\n"
)
_AT_ELECTED_SITE = (
    '+DESIRED_Sites = "$(elected_site)"\n'
    "requirements = stringListMember(TARGET.GLIDEIN_CMSSite, MY.DESIRED_Sites)\n"
)


def round_include(sites: Sequence[str], priority: int, credential: Path | None = None) -> str:
    """`round.inc`: what the worker may change while the round runs; it reaches nodes submitted later."""
    lines = [f"allowed_sites = {','.join(sites)}", f"round_priority = {priority}"]
    if credential is not None:
        lines.append(f"x509userproxy = {credential}")
    return "\n".join(lines) + "\n"


def dagman_config(snapshot: Snapshot) -> str:
    """Settings of the outer DAGMan, which hands them on to those of the work units."""
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


def submit_files(plan: RoundPlan) -> dict[str, str]:
    """File name -> text of the four submit files of a round."""
    snapshot = plan.snapshot
    mode = "pilot" if snapshot.pilot else "process"
    return {
        "landing.sub": _landing(snapshot),
        "proc.sub": _payload_job(plan, "Processing", mode, "manifest.json"),
        "merge.sub": _payload_job(plan, "Merge", "merge", "manifest.json, merge_input.json"),
        "cleanup.sub": _payload_job(plan, "Cleanup", "cleanup", "manifest.json, merge_input.json"),
    }


def _landing(snapshot: Snapshot) -> str:
    """A trivial job: where HTCondor puts it, the whole group follows."""
    return (
        "universe = vanilla\n"
        "executable = /bin/true\n"
        "transfer_executable = false\n"
        "include : ../round.inc\n"
        "include : site.inc\n"
        "request_cpus = 1\nrequest_memory = 128\nrequest_disk = 1024\n"
        '+DESIRED_Sites = "$(landing_sites)"\n'
        "requirements = stringListMember(TARGET.GLIDEIN_CMSSite, MY.DESIRED_Sites)\n"
        "+WMS2_LandingNode = true\n"
        + _attributes(snapshot, "Landing", 60)
        + _files(snapshot)
        + "should_transfer_files = YES\n"
        + "queue 1\n"
    )


def _payload_job(plan: RoundPlan, role: str, mode: str, inputs: str) -> str:
    snapshot = plan.snapshot
    request = snapshot.request
    gpus = "request_gpus = 1\n" if role == "Processing" and request.requires_gpu else ""
    return (
        "universe = vanilla\n"
        "executable = ../sandbox.pyz\n"
        f"arguments = {mode} $(node)\n"
        "include : ../round.inc\n"
        "include : site.inc\n"
        "include : memory.inc\n"
        f"request_cpus = {snapshot.sizing.cores if role == 'Processing' else 1}\n"
        f"request_memory = $($(node)_memory:{snapshot.sizing.memory_mb})\n"
        f"request_disk = {_disk_kb(plan)}\n"
        + gpus
        + _AT_ELECTED_SITE
        + _attributes(snapshot, role, _wall_minutes(plan))
        + _files(snapshot)
        + 'environment = "WMS2_SITE=$$(GLIDEIN_CMSSite:none) WMS2_CLUSTER=$(Cluster)"\n'
        "should_transfer_files = YES\n"
        "when_to_transfer_output = ON_EXIT\n"
        f"transfer_input_files = {inputs}\n"
        "transfer_output_files = report.json, FrameworkJobReport.xml\n"
        'transfer_output_remaps = "report.json = $(node).$(Cluster).report.json ; '
        'FrameworkJobReport.xml = $(node).$(Cluster).fjr.xml"\n'
        "queue 1\n"
    )


def _attributes(snapshot: Snapshot, role: str, wall_minutes: int) -> str:
    request = snapshot.request
    own: dict[str, AttributeValue] = {
        "CMS_RequestName": request.request_name,
        "CMS_WorkflowID": f"{request.request_name}-round-{snapshot.round}",
        "CMS_NodeRole": role,
        "MaxWallTimeMins": wall_minutes,
    }
    asked = dict(request.job_attributes)
    return (
        attribute_lines(asked | own)
        + '+JOB_GLIDEIN_CMSSite = "$$(GLIDEIN_CMSSite:none)"\n'
        + "priority = $(round_priority)\n"
        + _MACHINE
        + _INFORMATION
    )


def _files(snapshot: Snapshot) -> str:
    """Names carry the cluster id, so an attempt never writes over another; and how every job can end.

    A job that was evicted ends too, instead of starting again under the same cluster id: DAGMan makes a new
    attempt, and a first execution that lingers somewhere can never touch the files of the second.
    """
    idle, held = snapshot.limits.idle_sec, snapshot.limits.held_sec
    since = "(time() - EnteredCurrentStatus)"
    running = "(JobStatus == 2 || JobStatus == 6 || JobStatus == 7)"
    over = {
        "evicted": "(JobStatus == 1 && NumJobStarts > 0)",
        "idle": f"(JobStatus == 1 && {since} > {idle})",
        "held": f"(JobStatus == 5 && {since} > {held})",
        "wall": f"({running} && (time() - JobCurrentStartDate) > MaxWallTimeMins * 60)",
        "memory": "(JobStatus == 2 && (MemoryUsage ?: 0) > RequestMemory)",
        "disk": "(JobStatus == 2 && (DiskUsage ?: 0) > RequestDisk)",
    }
    reason = (
        f'ifThenElse({over["evicted"]}, strcat("WMS2 evicted at ", DESIRED_Sites), '
        f'ifThenElse({over["idle"]}, strcat("WMS2 idle at ", DESIRED_Sites), '
        f'ifThenElse({over["held"]}, strcat("WMS2 held: ", HoldReason ?: "no reason given"), '
        f'ifThenElse({over["wall"]}, "WMS2 wall time above MaxWallTimeMins", '
        f'ifThenElse({over["memory"]}, "WMS2 memory above RequestMemory", "WMS2 disk above RequestDisk")))))'
    )
    return (
        "output = $(node).$(Cluster).out\n"
        "error = $(node).$(Cluster).err\n"
        "log = $(node).log\n"
        f"periodic_remove = {' || '.join(over.values())}\n"
        f"+PeriodicRemoveReason = {reason}\n"
    )


def _wall_minutes(plan: RoundPlan) -> int:
    """Twice the longest job's estimate and half an hour: a slow machine is no failure."""
    longest = max(job.events for unit in plan.work_units for job in unit.jobs)
    estimate = longest * plan.snapshot.sizing.time_per_event_sec / plan.snapshot.sizing.cores
    return min(LONGEST_WALL_MIN, int(2 * estimate / 60) + 30)


def _disk_kb(plan: RoundPlan) -> int:
    """Twice what the largest job reads and writes, and never less than a working area needs."""
    per_event = plan.snapshot.sizing.size_per_event_kb
    largest = max(
        sum(part.size_bytes for part in job.files) / 1000 + job.events * per_event
        for unit in plan.work_units
        for job in unit.jobs
    )
    merging = max(unit.events for unit in plan.work_units) * per_event
    return max(SMALLEST_DISK_KB, int(2 * max(largest, merging)))
