"""A worker node for tests: a site with its storage, and jobs that run the real wrapper in folders of their own."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import zipapp
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from xml.etree import ElementTree

from tests.patience import PATIENCE_SEC

REPOSITORY = Path(__file__).parents[2]
RESOURCES = Path(__file__).parents[1] / "resources"
SITE = "T2_US_Purdue"
CLUSTER = 1234
PREFIX = "3f9a1c2e"
# No site-packages: what runs on a worker node has the standard library only.
BARE_PYTHON = (sys.executable, "-I", "-S")

Record = dict[str, Any]


@cache
def archive() -> Path:
    """sandbox.pyz, as the submit host hands it out."""
    folder = Path(mkdtemp(prefix="wms2-sandbox-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = folder / "sandbox.pyz"
    zipapp.create_archive(
        REPOSITORY,
        target,
        interpreter="/usr/bin/env python3",
        main="sandbox.__main__:main",
        filter=lambda path: path.parts[0] == "sandbox" and path.suffix != ".pyc",
    )
    return target


@dataclass(frozen=True)
class Finished:
    """A job that has ended."""

    status: int
    report: Record
    fjr: ElementTree.Element
    folder: Path
    stdout: str
    stderr: str

    @property
    def fjr_code(self) -> int:
        error = self.fjr.find("FrameworkError")
        return 0 if error is None else int(error.attrib["ExitStatus"])


class Site:
    """A site below a temporary folder, and the jobs that run there."""

    def __init__(self, folder: Path, name: str = SITE) -> None:
        self.folder = folder
        self.name = name
        self.storage = folder / "storage" / name
        self.storage.mkdir(parents=True)
        self.siteconf = folder / "siteconf" / name
        self.siteconf.mkdir(parents=True)
        self.describe([{"protocol": "file", "access": "site-rw", "prefix": str(self.storage)}])
        self._jobs = 0

    def describe(self, protocols: list[Record]) -> None:
        volume = {"site": self.name, "volume": "V", "rse": self.name, "type": "DISK", "protocols": protocols}
        (self.siteconf / "storage.json").write_text(json.dumps([volume]))

    def path(self, lfn: str) -> Path:
        return Path(f"{self.storage}{lfn}")

    def files(self) -> list[str]:
        """Everything on the storage, as LFNs."""
        found = (path for path in self.storage.rglob("*") if path.is_file())
        return sorted("/" + str(path.relative_to(self.storage)) for path in found)

    def environment(self, cluster: int, **extra: str) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "WMS2_SITE": self.name,
            "WMS2_CLUSTER": str(cluster),
            "WMS2_SITECONFIG_ROOT": str(self.siteconf.parent),
            "WMS2_SOFTWARE_PYTHON": sys.executable,
            **extra,
        }

    def job_folder(self, **files: Any) -> Path:
        """A scratch folder that holds manifest.json and the like."""
        self._jobs += 1
        folder = self.folder / f"job_{self._jobs}"
        folder.mkdir()
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / f"{name}.json").write_text(text)
        return folder

    def start(
        self, mode: str, node: str, folder: Path, cluster: int = CLUSTER, **environment: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*BARE_PYTHON, str(archive()), mode, node],
            cwd=folder,
            env=self.environment(cluster, **environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, mode: str, node: str, folder: Path, cluster: int = CLUSTER, **environment: str) -> Finished:
        return finish(self.start(mode, node, folder, cluster, **environment), folder)

    def process(self, manifest: Record, node: str = "proc_000001", **options: Any) -> Finished:
        return self.run("process", node, self.job_folder(manifest=manifest), **options)


def finish(child: subprocess.Popen[str], folder: Path) -> Finished:
    stdout, stderr = child.communicate(timeout=PATIENCE_SEC)
    report = json.loads((folder / "report.json").read_text())
    fjr = ElementTree.parse(folder / "FrameworkJobReport.xml").getroot()
    return Finished(child.returncode, report, fjr, folder, stdout, stderr)


def output(module: str = "RAWSIMoutput", step: str = "GEN", tier: str = "GEN-SIM") -> Record:
    return {
        "module": module,
        "dataset": f"/Prim/Era-proc-v1/{tier}",
        "step": step,
        "unmerged_base": f"/store/unmerged/Era/Prim/{tier}/proc-v1/000003",
        "merged_base": f"/store/mc/Era/Prim/{tier}/proc-v1/000003",
        "file_prefix": PREFIX,
    }


def step(name: str = "GEN", type: str = "demo", **parameters: Any) -> Record:
    return {"name": name, "type": type, "parameters": parameters}


def event_range(first: int = 1201, last: int = 1300, first_lumi: int = 31, per_lumi: int = 40) -> Record:
    return {
        "events": last - first + 1,
        "run": 1,
        "first_event": first,
        "last_event": last,
        "first_lumi": first_lumi,
        "events_per_lumi": per_lumi,
        "files": [],
    }


def of_files(files: list[Record], lumis: Record | None = None) -> Record:
    kept = ("lfn", "size_bytes", "events", "first_event", "last_event")
    plain = [{"first_event": None, "last_event": None, **file} for file in files]
    plain = [{key: file[key] for key in kept} for file in plain]
    return {"events": sum(file["events"] for file in files), "files": plain, "lumis": lumis}


def manifest(**changes: Any) -> Record:
    """One node of a hundred simulated events, one step, one output; any part can be replaced."""
    steps = changes.pop("steps", None) or [step(kb_per_event=0.2)]
    merge = changes.pop("merge", None)
    return {
        "version": 1,
        "request": "demo_mc",
        "round": 0,
        "work_unit": 3,
        "name": "mg_000003",
        "sites": [SITE],
        "cores": 1,
        "payload": {"steps": steps, **({"merge": merge} if merge else {})},
        "outputs": [output()],
        "merge_target_bytes": 4_000_000_000,
        "merge_copy_fraction": 0.75,
        "nodes": {"proc_000001": event_range()},
        "pilot": None,
        **changes,
    }
