"""What a POST script costs, beside a bare interpreter: DAGMan starts one for every attempt of every node."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.case import Case
from post_script.files import write_json
from post_script.group import prepare
from wms2.core.planning import plan_round
from wms2.core.sizing import sizing_of
from wms2.dagman.round_folder import write_round
from wms2.models.plan import Snapshot
from wms2.models.request import Request

SITE = "T2_US_Purdue"
PYTHON = "/usr/bin/python3"
NODE = "proc_000000"
LOG = """\
000 ({cluster}.000.000) 2026-01-01 00:00:00 Job submitted from host: <127.0.0.1:9618?addrs=127.0.0.1-9618&alias=submit>
    DAG Node: {node}
...
001 ({cluster}.000.000) 2026-01-01 00:00:10 Job executing on host: <127.0.0.1:9618?addrs=127.0.0.1-9618>
...
005 ({cluster}.000.000) 2026-01-01 00:01:00 Job terminated.
\t(1) Normal termination (return value {status})
\t\tUsr 0 00:00:41, Sys 0 00:00:01  -  Run Remote Usage
...
028 ({cluster}.000.000) 2026-01-01 00:01:00 Job ad information event triggered.
MachineAttrGLIDEIN_CMSSite0 = "{site}"
RequestMemory = 2048
TriggerEventTypeNumber = 5
...
"""


@dataclass
class Costs:
    """Of many runs of a program, in milliseconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def figures(self, name: str) -> dict[str, float]:
        """The least, which is what the program takes, and the middle, which is what this machine made of it."""
        return {
            f"{name}_wall_ms": round(min(self.wall), 2),
            f"{name}_cpu_ms": round(min(self.cpu), 2),
            f"{name}_cpu_median_ms": round(median(self.cpu), 2),
        }


@dataclass
class Attempts:
    """A group's folder in which attempts have ended, and what it cost to judge them."""

    folder: Path
    code: int
    count: int
    bare: Costs = field(default_factory=Costs)
    post: Costs = field(default_factory=Costs)

    def command(self, cluster: int) -> list[str]:
        return ["../post", "node", NODE, str(self.code % 256), f"{cluster}.0", "0", "9", "1"]


def prepare_attempts(code: int, count: int, folder: Path) -> Attempts:
    write_round(plan_round(_snapshot()), folder / "round")
    unit = folder / "round/mg_000000"
    os.chdir(unit)
    prepare("mg_000000")
    (unit / "site.inc").write_text(f"landing_sites = {SITE}\navoid_sites =\nelected_site = {SITE}\n")
    for cluster in range(1, count + 1):
        with (unit / f"{NODE}.log").open("w" if cluster == 1 else "a") as log:
            log.write(LOG.format(cluster=cluster, node=NODE, site=SITE, status=code % 256))
        write_json(f"{NODE}.{cluster}.report.json", _report(cluster, code))
    return Attempts(unit, code, count)


def _snapshot() -> Snapshot:
    request = Request.model_validate(
        {
            "request_name": "bench",
            "requestor": "bench",
            "campaign": "Bench",
            "acquisition_era": "Run2024A",
            "processing_string": "Bench",
            "primary_dataset": "MinBias",
            "total_events": 100,
            "outputs": [
                {
                    "module": "out",
                    "tier": "GEN",
                    "step": "GEN",
                    "dataset": "/MinBias/Run2024A-Bench-v1/GEN",
                }
            ],
            "splitting_algo": "EventBased",
            "splitting_params": {"events_per_job": 100},
            "payload_config": {"steps": [{"name": "GEN", "type": "demo"}]},
        }
    )
    return Snapshot(request=request, events=100, sites=(SITE,), sizing=sizing_of(request, None))


def _report(cluster: int, code: int) -> dict[str, object]:
    lumis = [{"run": 1, "lumi": number, "events": 10} for number in range(1, 11)]
    output = {
        "module": "out", "dataset": "/MinBias/Run2024A-Bench-v1/GEN", "site": SITE, "size_bytes": 1, "events": 100,
        "lfn": "/store/unmerged/Run2024A/MinBias/GEN/Bench-v1/000000/a.root", "adler32": "00000001", "lumis": lumis,
        "parents": [], "merged_from": [],
    }  # fmt: skip
    step = {"name": "GEN", "exit_code": code, "wall_sec": 50.0, "events_read": 0, "events_written": 100}
    return {
        "version": 1, "node": NODE, "cluster": cluster, "site": SITE, "exit_code": code, "steps": [step],
        "exit_message": "" if code == 0 else "it broke", "outputs": [] if code else [output], "inputs": [],
        "wall_sec": 50.0, "cpu_sec": 42.0, "peak_rss_mb": 900, "pilot": None,
    }  # fmt: skip


def run_attempts(prepared: Attempts) -> Mapping[str, int]:
    """Each beside a bare interpreter, so that a busy moment of the machine meets both."""
    # The first one writes the compiled scripts, as the first of a round does.
    _run(prepared.command(1), Costs())
    for cluster in range(2, prepared.count + 1):
        # An attempt is judged beside the earlier ones of its node; here each is the first.
        (prepared.folder / f"{NODE}.{cluster - 1}.post.json").unlink()
        _run([PYTHON, "-c", "pass"], prepared.bare)
        _run(prepared.command(cluster), prepared.post)
    return {"attempts": prepared.count - 1}


def _run(command: list[str], costs: Costs) -> None:
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    costs.wall.append(1000 * (time.perf_counter() - begun))
    costs.cpu.append(1000 * (used.ru_utime + used.ru_stime))


def ratios(measured: Attempts, _cpu_sec: float) -> Mapping[str, float]:
    """The POST script's cost by that of `python3 -c pass`."""
    bare, post = measured.bare, measured.post
    return {
        **bare.figures("bare"),
        **post.figures("post"),
        "wall_ratio": round(min(post.wall) / min(bare.wall), 2),
        "cpu_ratio": round(min(post.cpu) / min(bare.cpu), 2),
    }


def _case(name: str, code: int) -> Case:
    return Case(
        name,
        "attempts",
        (100,),
        lambda size, folder: prepare_attempts(code, size, folder),
        run_attempts,
        ratios,
    )


CASES = (_case("success", 0), _case("failure", 60324), _case("failure with patterns", 8001))
