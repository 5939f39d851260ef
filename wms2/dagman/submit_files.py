"""The submit files that all nodes of a round share, and the includes that tell nodes apart.

Each include has one writer at a time, and nothing is edited in place:
`round.inc` the worker, by rename; `site.inc` the group's PRE script and then its landing's POST, by rename;
`memory.inc` the nodes' POST scripts, one appended line each, the last one holds.
HTCondor reads them again at each submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wms2.core.sizing import (
    LEAST_DISK_MB,
    job_sec,
    merge_disk_mb,
    merge_memory_mb,
    merge_sec,
    processing_disk_mb,
)
from wms2.dagman.classads import AttributeValue, attribute_lines
from wms2.models.parameter_set import pset_files
from wms2.models.plan import RoundPlan, Snapshot
from wms2.models.request import Request

PILEUP_FILE = "pileup.json.gz"
LONGEST_WALL_MIN = 48 * 60
CLEANUP_SEC = 1800
MARGIN = 1.2
"""The watchdog in the job ends it at its limits and sends a report. Where HTCondor has to end it, nothing is sent."""

# The site of the machine comes into the job's ad by this, whatever the schedd is configured to record.
_MACHINE = "job_machine_attrs = GLIDEIN_CMSSite\njob_machine_attrs_history_length = 1\n"
_INFORMATION = (
    "job_ad_information_attrs = MachineAttrGLIDEIN_CMSSite0, ExitCode, ExitBySignal, ExitSignal, "
    "MemoryUsage, ResidentSetSize, RemoteUserCpu, RemoteSysCpu, RemoteWallClockTime, RequestMemory, RequestCpus, "
    "DAGNodeName\n"
)
# One that was evicted matches nothing any more: it would start again before anybody looks whether it is to end.
_WHERE = "requirements = stringListMember(TARGET.GLIDEIN_CMSSite, MY.DESIRED_Sites) && (MY.NumJobStarts ?: 0) == 0\n"
_AT_ELECTED_SITE = '+DESIRED_Sites = "$(elected_site)"\n' + _WHERE


def round_include(sites: Sequence[str], priority: int) -> str:
    """`round.inc`: what the worker may change while the round runs; it reaches nodes submitted later."""
    return f"allowed_sites = {','.join(sites)}\nround_priority = {priority}\n"


class _Needs(NamedTuple):
    """What a kind of job asks for."""

    cores: int
    memory_mb: int
    disk_mb: int
    wall_sec: float
    """The estimate."""
    gpus: str = ""

    @property
    def wall_minutes(self) -> int:
        """Twice the estimate and half an hour: a slow machine is no failure."""
        return min(LONGEST_WALL_MIN, int(2 * self.wall_sec / 60) + 30)


def submit_files(plan: RoundPlan) -> dict[str, str]:
    """File name -> text of the four submit files of a round."""
    snapshot, sizing = plan.snapshot, plan.snapshot.sizing
    mode, small = "pilot" if snapshot.pilot else "process", merge_memory_mb(sizing)
    processing = _Needs(
        sizing.cores,
        sizing.memory_mb,
        processing_disk_mb(plan),
        _processing_sec(plan),
        _gpus(snapshot.request),
    )
    merge = _Needs(1, small, merge_disk_mb(plan), merge_sec(plan))
    cleanup = _Needs(1, small, LEAST_DISK_MB, CLEANUP_SEC)
    brought = [PILEUP_FILE] if snapshot.pileups else []
    brought += [file.name for file in pset_files(snapshot.request.payload_config)]
    to_process = ", ".join(["manifest.json", *(f"../{name}" for name in brought)])
    to_merge = "manifest.json, merge_input.json"
    return {
        "landing.sub": _landing(snapshot),
        "proc.sub": _payload_job(snapshot, "Processing", mode, to_process, processing),
        "merge.sub": _payload_job(snapshot, "Merge", "merge", to_merge, merge),
        "cleanup.sub": _payload_job(snapshot, "Cleanup", "cleanup", to_merge, cleanup),
    }


def _gpus(request: Request) -> str:
    """A GPU with the memory, for the CUDA runtime and of one of the capabilities that the request names.

    HTCondor takes versions of two numbers only.
    """
    asked = request.gpu_params
    if not request.requires_gpu or asked is None:
        return ""
    capabilities = ", ".join(dict.fromkeys(map(_two_numbers, asked.cuda_capabilities)))
    return (
        "request_gpus = 1\n"
        f"gpus_minimum_memory = {asked.gpu_memory_mb}\n"
        f"gpus_minimum_runtime = {_two_numbers(asked.cuda_runtime)}\n"
        f"require_gpus = member(Capability, {{{capabilities}}})\n"
    )


def _two_numbers(version: str) -> str:
    """11.2 of 11.2.152, 11.0 of 11"""
    return ".".join([*version.split("."), "0"][:2])


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
        + _WHERE
        + "+WMS2_LandingNode = true\n"
        + _attributes(snapshot, "Landing", 60)
        + _files(snapshot)
        + "should_transfer_files = YES\n"
        + "queue 1\n"
    )


def _payload_job(snapshot: Snapshot, role: str, mode: str, inputs: str, needs: _Needs) -> str:
    """Memory is raised for a node by a line in `memory.inc`."""
    return (
        "universe = vanilla\n"
        "executable = ../sandbox.pyz\n"
        f"arguments = {mode} $(node)\n"
        "include : ../round.inc\n"
        "include : site.inc\n"
        "include : memory.inc\n"
        f"request_cpus = {needs.cores}\n"
        f"request_memory = $($(node)_memory:{needs.memory_mb})\n"
        f"request_disk = {needs.disk_mb * 1000}\n"
        + needs.gpus
        + _AT_ELECTED_SITE
        + _attributes(snapshot, role, needs.wall_minutes)
        + _files(snapshot)
        + 'environment = "WMS2_SITE=$$(GLIDEIN_CMSSite:none) WMS2_CLUSTER=$(Cluster)"\n'
        "should_transfer_files = YES\n"
        "when_to_transfer_output = ON_EXIT\n"
        f"transfer_input_files = {inputs}$(job_token)\n"
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

    HTCondor's limits are the last resort, with a margin above those of the watchdog in the job. A job that was evicted
    ends too, instead of starting again under the same cluster id: DAGMan makes a new
    attempt, and a first execution that lingers somewhere can never touch the files of the second.
    """
    idle, held = snapshot.limits.idle_sec, snapshot.limits.held_sec
    since = "(time() - EnteredCurrentStatus)"
    running = "(JobStatus == 2 || JobStatus == 6 || JobStatus == 7)"
    over = {
        "evicted": "(JobStatus == 1 && NumJobStarts > 0)",
        "idle": f"(JobStatus == 1 && {since} > {idle})",
        "held": f"(JobStatus == 5 && {since} > {held})",
        "wall": f"({running} && (time() - JobCurrentStartDate) > {MARGIN} * MaxWallTimeMins * 60)",
        "memory": f"(JobStatus == 2 && (MemoryUsage ?: 0) > {MARGIN} * RequestMemory)",
        "disk": f"(JobStatus == 2 && (DiskUsage ?: 0) > {MARGIN} * RequestDisk)",
    }
    reason = (
        f'ifThenElse({over["evicted"]}, strcat("WMS2 evicted at ", DESIRED_Sites), '
        f'ifThenElse({over["idle"]}, strcat("WMS2 idle at ", DESIRED_Sites), '
        f'ifThenElse({over["held"]}, strcat("WMS2 held: ", HoldReason ?: "no reason given"), '
        f'ifThenElse({over["wall"]}, "WMS2 wall time far above MaxWallTimeMins", '
        f'ifThenElse({over["memory"]}, "WMS2 memory far above RequestMemory", "WMS2 disk far above RequestDisk")))))'
    )
    return (
        "output = $(node).$(Cluster).out\n"
        "error = $(node).$(Cluster).err\n"
        "log = $(node).log\n"
        f"periodic_remove = {' || '.join(over.values())}\n"
        f"+PeriodicRemoveReason = {reason}\n"
    )


def _processing_sec(plan: RoundPlan) -> float:
    """Of the longest job. A pilot is there because estimates may be wrong: it has its time to measure in any case."""
    snapshot = plan.snapshot
    estimate = job_sec(snapshot.sizing, max(job.events for unit in plan.work_units for job in unit.jobs))
    return max(estimate, snapshot.pilot.time_budget_sec) if snapshot.pilot else estimate
