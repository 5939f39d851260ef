"""Rounds on the real pool, for tests: plan, run, and look at every event."""

import asyncio
import itertools
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.factories import simulation, snapshot
from tests.patience import PATIENCE_SEC
from wms2.activities.dags import DagActivities
from wms2.adapters.condor import Condor
from wms2.cli.by_hand import ByHand
from wms2.config import Settings
from wms2.core.planning import plan_round
from wms2.dagman.posts import attempt_clusters
from wms2.dagman.round_folder import RoundFile, write_round
from wms2.dagman.submit_files import round_include
from wms2.local import payload
from wms2.local.demo import merged_paths
from wms2.models.messages import SubmittedDag
from wms2.models.plan import Limits
from wms2.models.progress import DagOutcome, RoundProgress
from wms2.models.request import Request

_numbers = itertools.count()


class Gate:
    """Where jobs wait until the test opens it: what a test does to a round, it does in a state that it knows."""

    def __init__(self, settings: Settings) -> None:
        self.path = settings.home / "gates" / unique("gate")

    def before(self, *nodes: str, **where: str) -> list[dict[str, Any]]:
        """The faults that hold these nodes; without a node, every one that runs there."""
        return [{**where, "node": node, "until": str(self.path)} for node in nodes or (None,)]

    def open(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.touch()


class Round:
    """A planned round in a folder of its own, and a person's hands on it."""

    def __init__(self, settings: Settings, request: Request, **changes: Any) -> None:
        self.settings = settings
        self.request = request
        self.folder = settings.home / "submit" / request.request_name / "round_00"
        limits = {"log_scan_sec": 1, "status_sec": 1, "cool_off_sec": 0} | changes.pop("limits", {})
        plan = plan_round(snapshot(request, limits=Limits(**limits), **changes))
        self.planned: RoundFile = write_round(plan, self.folder)
        self.by_hand = ByHand(settings)
        self.condor = Condor(settings.condor_environment())

    @property
    def activities(self) -> DagActivities:
        return self.by_hand.activities

    async def start(self) -> SubmittedDag:
        return await self.by_hand.start_round(self.folder)

    async def until(self, dag: SubmittedDag, reached: Callable[[RoundProgress], bool]) -> RoundProgress:
        """Look until the progress is as wanted; a DAG that ends otherwise, or stands still, fails the test."""
        before = None
        async with asyncio.timeout(PATIENCE_SEC) as patience:
            while True:
                progress = (await self.activities.observe_dag(dag)).progress
                if reached(progress):
                    return progress
                if progress != before:
                    before = progress
                    patience.reschedule(asyncio.get_running_loop().time() + PATIENCE_SEC)
                if progress.outcome is not DagOutcome.RUNNING:
                    failures = await self.activities.explain_dag(dag)
                    pytest.fail(f"the DAG is {progress.outcome}, {progress}, {failures}")
                await asyncio.sleep(0.5)

    async def finish(self, dag: SubmittedDag) -> RoundProgress:
        return await self.until(dag, lambda progress: progress.outcome is not DagOutcome.RUNNING)

    async def run(self) -> RoundProgress:
        return await self.finish(await self.start())

    def allow(self, *sites: str) -> None:
        """As the worker does it: `round.inc` anew, by rename."""
        partial = self.folder / "round.inc.partial"
        partial.write_text(round_include(sites, 0))
        partial.rename(self.folder / "round.inc")

    def age_jobs_that_wait_for(self, site: str) -> None:
        """Let them have waited for a day. A limit that is short in real time would also strike at good sites."""
        which = (
            f'CMS_RequestName == "{self.request.request_name}" && DESIRED_Sites == "{site}" && JobStatus == 1'
        )
        since = str(int(time.time()) - 86400)
        subprocess.run(
            ["condor_qedit", "-constraint", which, "EnteredCurrentStatus", since],
            env=self.settings.condor_environment(), capture_output=True, check=False,
        )  # fmt: skip

    def priorities(self) -> dict[str, int]:
        """With which priority each node left the queue."""
        which = f'CMS_RequestName == "{self.request.request_name}"'
        answer = subprocess.run(
            ["condor_history", "-constraint", which, "-af", "DAGNodeName", "JobPrio"],
            env=self.settings.condor_environment(), capture_output=True, check=True, text=True,
        )  # fmt: skip
        pairs = (line.split() for line in answer.stdout.splitlines())
        return {node: int(priority) for node, priority in pairs}

    def site_of(self, unit: str) -> str:
        text = (self.folder / unit / "site.inc").read_text()
        return text.partition("elected_site = ")[2].strip()

    def has_begun(self, *nodes: str) -> bool:
        return has_begun(self.folder, *nodes)

    def attempts(self, node: str) -> list[int]:
        (folder,) = {path.parent for path in self.folder.glob(f"mg_*/{node}.*")} or {self.folder}
        return attempt_clusters(folder, node)

    def events(self) -> Counter[int]:
        """How often each event number is in the merged files of this round."""
        content = payload.check(merged_paths(self.settings.home, self.folder))
        assert content.wrong_values == 0
        return Counter(content.numbers.tolist())

    def assert_every_event_once(self) -> None:
        planned = {
            number
            for unit in self.planned.work_units
            for number in range(unit.first_event or 1, (unit.last_event or 0) + 1)
        }
        assert self.events() == Counter(planned)


def has_begun(folder: Path, *nodes: str) -> bool:
    """Whether each of these nodes runs or has run, as HTCondor's own logs say."""
    return all(
        any("Job executing" in log.read_text() for log in folder.glob(f"mg_*/{node}.log")) for node in nodes
    )


def unique(name: str) -> str:
    return f"{name}_{os.getpid()}_{next(_numbers)}"


def small_simulation(
    settings: Settings, name: str, *, step: dict[str, Any] | None = None, **changes: Any
) -> Request:
    """Three work units of two jobs of 20 events, unless told otherwise."""
    parameters = {"kb_per_event": 1.0, "fault_dir": str(settings.home / "faults" / unique(name))}
    fields: dict[str, Any] = {
        "request_name": unique(name),
        "total_events": 120,
        "splitting_params": {"events_per_job": 20, "events_per_lumi": 10},
        "size_per_event_kb": 1.0,
        "time_per_event_sec": 0.01,
        "merge_target_bytes": 40_000,
        "memory_mb": 500,
        "payload_config": {
            "steps": [{"name": "GEN", "type": "demo", "parameters": parameters | (step or {})}]
        },
    }
    return simulation(**(fields | changes))
