"""HTCondor: submitting, finding and removing DAGs, and jobs that clean up after them.

Queries and removals go through the bindings, submission through HTCondor's programs. Both block, so every method
hands its call to a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wms2.core.plain import plain_line
from wms2.errors import Unavailable, UserError
from wms2.models.site import Cores
from wms2.patterns import SITE_LENGTH, SITE_NAME

log = logging.getLogger(__name__)

SUBMIT_TIMEOUT_SEC = 120
RELEASE_SEC = 30
MOST_STRANGE = 100
"""How many names of sites that are none are told."""

_DAG_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,299}")
_SUBMITTED = re.compile(r"submitted to cluster (\d+)")
_PROJECTION = ["ClusterId", "JobStatus", "WMS2_DagId", "DAGNodeName", "DAGManJobId", "HoldReason"]
"""Little, because it is asked of thousands. How far a DAGMan is, its status file says, and sooner."""
_OF_HOLDS = ["HoldReasonCode", "NumHolds", "EnteredCurrentStatus"]
RUNNING, HELD = 2, 5
HELD_BY_A_PERSON = 1
"""The code of the reason."""


class CondorUnavailable(Unavailable):
    """The schedd or collector does not answer; try again later."""


class SubmissionRefused(Unavailable):
    """condor_submit_dag or condor_submit said no, and why."""


class DagmanAd(NamedTuple):
    """A DAGMan job in the queue: the outer one of a round, or that of a work unit (then `node` names it)."""

    cluster: int
    job_status: int
    tag: str | None = None
    """The outer one's own."""
    node: str | None = None
    hold_reason: str | None = None
    hold_code: int = 0
    holds: int = 0
    """How often it was held so far."""
    since: int = 0
    """When it came into the status that it has, by the clock of the schedd."""

    @property
    def held(self) -> bool:
        return self.job_status == HELD


class Condor:
    """The pool that a condor configuration names. One pool a process: the bindings keep it for themselves."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**os.environ, **environment}
        self._config = environment.get("CONDOR_CONFIG", "")
        self._lock = threading.Lock()
        self._bindings: Any = None
        self._strange: set[str] = set()
        """Names of sites that are none, each of which is told once."""

    async def submit_dag(self, dag: Path, dag_id: str, *, lock: int) -> int:
        """Submit a DAG tagged with `dag_id`; its cluster id. It does not look whether that was done before.

        `lock` is the descriptor of the round's lock: it stays held until the programs that submit have ended,
        even if this process dies before.
        """
        return await asyncio.to_thread(self._submit_dag, dag, dag_id, lock)

    async def submit_sweep(self, folder: Path, submit_file: str, tag: str, *, lock: int) -> int:
        """Submit the cleanup of a folder as a job of its own, tagged; its cluster id. `lock` as for a DAG."""
        return await asyncio.to_thread(self._submit_sweep, folder, submit_file, tag, lock)

    async def queued_sweeps(self, request: str, round_number: int) -> set[str]:
        """The tags of the jobs in the queue that clean up after a round."""
        constraint = f'regexp("^{_checked(request)}:{round_number:d}:sweep_[0-9_]+$", WMS2_SweepId)'
        ads = await self._call(lambda htcondor: htcondor.Schedd().query(constraint, ["WMS2_SweepId"]))
        return {str(ad["WMS2_SweepId"]) for ad in ads}

    async def queued_attempts(self, request: str, round_number: int) -> dict[str, int]:
        """Tag -> cluster of the DAGMans of a round that are in the queue, whichever attempt they are."""
        constraint = f'regexp("^{_checked(request)}:{round_number:d}:[0-9]+$", WMS2_DagId)'
        ads = await self._call(
            lambda htcondor: htcondor.Schedd().query(constraint, ["ClusterId", "WMS2_DagId"])
        )
        return {str(ad["WMS2_DagId"]): int(ad["ClusterId"]) for ad in ads}

    async def tagged_dags(self) -> dict[str, int]:
        """Tag -> cluster of all outer DAGMans in the queue that carry one, whoever submitted them."""
        ads = await self._call(
            lambda htcondor: htcondor.Schedd().query(
                "WMS2_DagId =!= undefined && JobUniverse == 7", ["ClusterId", "WMS2_DagId"]
            )
        )
        return {str(ad["WMS2_DagId"]): int(ad["ClusterId"]) for ad in ads}

    async def find_finished(self, dag_id: str, since: float) -> int | None:
        """The cluster of the DAGMan that carried this tag and left the queue after `since`, by this host's clock."""
        constraint = f'WMS2_DagId == "{_checked(dag_id)}"'
        # History is read backwards; nothing that ended before the round was planned can be its DAG.
        stop = f"EnteredCurrentStatus < {int(since)}"
        ads = await self._call(
            lambda htcondor: list(htcondor.Schedd().history(constraint, ["ClusterId"], match=1, since=stop))
        )
        return int(ads[0]["ClusterId"]) if ads else None

    async def dagmans(self, cluster: int, dag_id: str) -> list[DagmanAd]:
        """The outer DAGMan of that cluster, if it is queued and carries the tag, and those of its work units."""
        own = f'(ClusterId == {cluster:d} && WMS2_DagId == "{_checked(dag_id)}")'
        constraint = f"{own} || (DAGManJobId == {cluster:d} && JobUniverse == 7)"
        ads = await self._call(
            lambda htcondor: htcondor.Schedd().query(constraint, [*_PROJECTION, *_OF_HOLDS])
        )
        return [_dagman_ad(ad, cluster) for ad in ads]

    async def queued_dagmans(self) -> dict[int, list[DagmanAd]]:
        """All DAGMans in the queue that belong to a tagged one, by the cluster of that one."""
        ads = await self._call(
            lambda htcondor: htcondor.Schedd().query(
                "JobUniverse == 7 && (WMS2_DagId =!= undefined || DAGManJobId =!= undefined)", _PROJECTION
            )
        )
        queued: dict[int, list[DagmanAd]] = {}
        for ad in ads:
            outer = ad.get("DAGManJobId") or ad["ClusterId"]
            # Others have jobs in the queue as well, which may say anything of themselves.
            if type(outer) is int:
                queued.setdefault(outer, []).append(_dagman_ad(ad, outer))
        return queued

    async def remove_dag(self, cluster: int, dag_id: str, reason: str) -> None:
        """condor_rm of the outer DAGMan; it and those of its work units write their rescue files.

        A held DAGMan of a work unit would write none, so it is released first and given time to run again.
        """
        if held := [ad for ad in await self.dagmans(cluster, dag_id) if ad.held]:
            for ad in held:
                await self.release(ad.cluster, reason)
            await self._until_running(cluster, dag_id)
        for ad in await self.dagmans(cluster, dag_id):
            if ad.node is None:
                await self._act("Remove", ad.cluster, reason)

    async def release(self, cluster: int, reason: str) -> None:
        """condor_release of one job."""
        await self._act("Release", cluster, reason)

    async def remove_orphans(self, cluster: int, dag_id: str, reason: str) -> None:
        """Remove DAGMans of work units whose outer one has gone without them."""
        for ad in await self.dagmans(cluster, dag_id):
            await self._act("Remove", ad.cluster, reason)

    async def _until_running(self, cluster: int, dag_id: str) -> None:
        """A DAGMan that does not start again in time is removed as it is: its unit then begins anew."""
        for _ in range(RELEASE_SEC):
            if all(ad.job_status == RUNNING for ad in await self.dagmans(cluster, dag_id)):
                return
            await asyncio.sleep(1)

    async def set_priority(self, request: str, round_number: int, priority: int) -> None:
        """Give the jobs of a round that are in the queue this priority."""
        which = f'CMS_WorkflowID == "{_checked(request)}-round-{round_number:d}" && JobPrio != {priority:d}'

        def edit(htcondor: Any) -> None:
            schedd = htcondor.Schedd()
            try:
                schedd.edit(which, "JobPrio", f"{priority:d}")
            except htcondor.HTCondorException:
                # HTCondor says the same when there is no such job, which is all that was wanted.
                if schedd.query(which, ["ClusterId"], limit=1):
                    raise

        await self._call(edit)

    async def sites(self) -> list[str]:
        """The sites whose slots the collector knows."""
        return sorted(await self.cores())

    async def cores(self) -> dict[str, Cores]:
        """The cores of each site whose slots the collector knows. Dynamic slots have what they took of theirs.

        Slots say themselves where they are: one with a name that no site can have keeps no other from being used.
        """
        ads = await self._call(
            lambda htcondor: htcondor.Collector().query(
                htcondor.AdType.Startd,
                "GLIDEIN_CMSSite =!= undefined",
                ["GLIDEIN_CMSSite", "Cpus", "State"],
            )
        )
        total, running = Counter[str](), Counter[str]()
        for ad in ads:
            site, cpus = self._site_of(ad), ad.get("Cpus")
            if site is None or type(cpus) is not int:
                continue
            total[site] += cpus
            running[site] += cpus if ad.get("State") == "Claimed" else 0
        return {site: Cores(total[site], running[site]) for site in total}

    def _site_of(self, ad: Mapping[str, Any]) -> str | None:
        said = ad["GLIDEIN_CMSSite"]
        if isinstance(said, str) and len(said) <= SITE_LENGTH and SITE_NAME.fullmatch(said):
            return said
        strange = plain_line(str(said), SITE_LENGTH)
        if strange not in self._strange and len(self._strange) < MOST_STRANGE:
            self._strange.add(strange)
            log.warning(
                "slots of the pool are not used: they say that they are at %r, which is no site", strange
            )
        return None

    async def schedds(self) -> set[str]:
        """The schedds that the collector knows, by name."""
        ads = await self._call(
            lambda htcondor: htcondor.Collector().query(htcondor.AdType.Schedd, "true", ["Name"])
        )
        return {str(ad["Name"]) for ad in ads}

    async def schedd_name(self) -> str:
        """The schedd of this host, as its configuration has it."""
        ad = await self._call(lambda htcondor: htcondor.Collector().locate(htcondor.DaemonType.Schedd))
        return str(ad["Name"])

    async def _act(self, action: str, cluster: int, reason: str) -> None:
        constraint = f"ClusterId == {cluster:d}"
        await self._call(
            lambda htcondor: htcondor.Schedd().act(
                getattr(htcondor.JobAction, action), constraint, reason=reason
            )
        )

    async def _call(self, ask: Any) -> Any:
        return await asyncio.to_thread(self._blocking_call, ask)

    def _blocking_call(self, ask: Any) -> Any:
        with self._lock:
            htcondor = self._loaded()
            try:
                return ask(htcondor)
            except (htcondor.HTCondorException, OSError, RuntimeError) as error:
                raise CondorUnavailable(
                    f"HTCondor does not answer ({error}); `wms2 status` shows the stack, `wms2 up` starts it"
                ) from error

    def _loaded(self) -> Any:
        """The bindings read their configuration when they are imported, so the environment comes first."""
        if self._bindings is None:
            if self._config:
                os.environ["CONDOR_CONFIG"] = self._config
            import htcondor2

            htcondor2.reload_config()
            self._bindings = htcondor2
        return self._bindings

    def _submit_dag(self, dag: Path, dag_id: str, lock: int) -> int:
        # Two steps, because condor_submit_dag does not hand the lock on to the condor_submit that it starts.
        self._run(
            "condor_submit_dag",
            # A crash after the submit file was written and before the job was queued leaves that file behind.
            *("-no_submit", "-update_submit", "-batch-name", _checked(dag_id)),
            *("-append", f'+WMS2_DagId="{_checked(dag_id)}"', dag.name),
            folder=dag.parent,
            lock=lock,
        )
        return self._queue(f"{dag.name}.condor.sub", folder=dag.parent, lock=lock)

    def _submit_sweep(self, folder: Path, submit_file: str, tag: str, lock: int) -> int:
        # The node's name is what DAGMan would have given it.
        told = ("-append", "node = cleanup", "-append", f'+WMS2_SweepId="{_checked(tag)}"')
        return self._queue(*told, submit_file, folder=folder, lock=lock)

    def _queue(self, *arguments: str, folder: Path, lock: int) -> int:
        said = self._run("condor_submit", *arguments, folder=folder, lock=lock)
        if match := _SUBMITTED.search(said):
            return int(match[1])
        raise SubmissionRefused(
            f"condor_submit did not say how {folder / arguments[-1]} was queued: {_last_line(said)}"
        )

    def _run(self, *command: str, folder: Path, lock: int) -> str:
        """What a program of HTCondor said. One that is late goes on alone, and keeps the lock until it is done."""
        try:
            program = subprocess.Popen(
                command,
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(lock,),
            )
        except FileNotFoundError as error:
            raise UserError(
                f"{command[0]} is not on the PATH; start the local stack with `wms2 up`, or install HTCondor"
            ) from error
        try:
            said, complained = program.communicate(timeout=SUBMIT_TIMEOUT_SEC)
        except subprocess.TimeoutExpired as error:
            raise CondorUnavailable(f"{command[0]} did not come back in {SUBMIT_TIMEOUT_SEC} s") from error
        if program.returncode != 0:
            reason = _last_line(complained) or _last_line(said) or "no reason given"
            raise SubmissionRefused(f"{command[0]} refused what is in {folder}: {reason}")
        return said


def _checked(dag_id: str) -> str:
    if not _DAG_ID.fullmatch(dag_id):
        raise ValueError(f"{dag_id!r} is no DAG id")
    return dag_id


def _dagman_ad(ad: Mapping[str, Any], outer: int) -> DagmanAd:
    cluster = int(ad["ClusterId"])
    return DagmanAd(
        cluster=cluster,
        job_status=int(ad["JobStatus"]),
        tag=ad.get("WMS2_DagId"),
        node=None if cluster == outer else ad.get("DAGNodeName"),
        hold_reason=ad.get("HoldReason"),
        hold_code=ad.get("HoldReasonCode", 0),
        holds=ad.get("NumHolds", 0),
        since=ad.get("EnteredCurrentStatus", 0),
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
