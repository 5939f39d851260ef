"""The folder of a round on the submit host: written whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from wms2.dagman.dag_files import GROUP_DAG, WORKFLOW_DAG, group_dag, workflow_dag
from wms2.dagman.submit_files import dagman_config, round_include, submit_files
from wms2.errors import UserError
from wms2.models.base import Model
from wms2.models.manifest import manifest_of
from wms2.models.plan import RoundPlan, Snapshot, WorkUnit, unit_name

ROUND_FILE, SNAPSHOT_FILE, MANIFEST_FILE = "round.json", "snapshot.json", "manifest.json"

_LAUNCHER = """#!{python} -ES
import sys
import tempfile

from post_script.__main__ import main

sys.exit(main())
"""


class RoundUnit(Model):
    """A work unit in a few words."""

    number: int
    events: int
    jobs: int
    first_event: int | None = None
    last_event: int | None = None

    @property
    def name(self) -> str:
        return unit_name(self.number)


class RoundFile(Model):
    """`round.json`: what was planned, in a few lines."""

    version: int = 1
    request: str
    round: int
    digest: str
    nodes: dict[str, int]
    edges: int
    work_units: tuple[RoundUnit, ...]
    problems: tuple[str, ...] = ()


def write_round(plan: RoundPlan, folder: Path) -> RoundFile:
    """Write all files of a round.

    They appear under the final name only when all are there: a crash leaves nothing that could be submitted.
    Writing the same plan again changes nothing; another plan in the same place is refused.
    """
    described = describe(plan)
    if folder.exists():
        _refuse_another_plan(folder, described)
        return described
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.partial-", dir=folder.parent))
    try:
        _write_files(plan, described, partial)
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not folder.exists():
            raise
        # Another process wrote the same round in the meantime.
        _refuse_another_plan(folder, described)
    return described


def _write_files(plan: RoundPlan, described: RoundFile, partial: Path) -> None:
    partial.chmod(0o755)
    for name, text in _shared_files(plan, described).items():
        (partial / name).write_text(text)
    _write_programs(partial)
    for unit in plan.work_units:
        _write_unit(partial / unit.name, unit, plan)
    os.sync()


def read_round(folder: Path) -> RoundFile:
    """What was planned in a folder; UserError when it holds no round."""
    try:
        return RoundFile.model_validate_json((folder / ROUND_FILE).read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} holds no planned round ({ROUND_FILE} is missing or unreadable); "
            "plan one with `wms2 request plan FILE --out DIR`"
        ) from error


def read_snapshot(folder: Path) -> Snapshot:
    """What the round in a folder was planned from; UserError when that is gone or was changed."""
    described = read_round(folder)
    try:
        snapshot = Snapshot.model_validate_json((folder / SNAPSHOT_FILE).read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / SNAPSHOT_FILE} is missing or unreadable; plan the round again") from error
    if snapshot.digest() != described.digest:
        raise UserError(
            f"{folder / SNAPSHOT_FILE} is not what the round was planned from; plan the round again"
        )
    return snapshot


def describe(plan: RoundPlan) -> RoundFile:
    units = plan.work_units
    return RoundFile(
        request=plan.snapshot.request.request_name,
        round=plan.snapshot.round,
        digest=plan.snapshot.digest(),
        nodes={
            "Landing": len(units),
            "Processing": plan.jobs,
            "Merge": len(units),
            "Cleanup": len(units),
        },
        edges=2 * plan.jobs + len(units),
        work_units=tuple(_planned(unit) for unit in units),
        problems=plan.problems,
    )


def _planned(unit: WorkUnit) -> RoundUnit:
    first, last = unit.event_range or (None, None)
    return RoundUnit(
        number=unit.number, events=unit.events, jobs=len(unit.jobs), first_event=first, last_event=last
    )


def _refuse_another_plan(folder: Path, described: RoundFile) -> None:
    if read_round(folder) != described:
        raise UserError(
            f"{folder} holds another plan already; choose another folder, or remove it if it is not running"
        )


def _shared_files(plan: RoundPlan, described: RoundFile) -> dict[str, str]:
    snapshot = plan.snapshot
    return {
        ROUND_FILE: described.model_dump_json(indent=1) + "\n",
        SNAPSHOT_FILE: snapshot.model_dump_json() + "\n",
        WORKFLOW_DAG: workflow_dag(plan),
        "dagman.config": dagman_config(snapshot),
        "round.inc": round_include(snapshot.sites, snapshot.request.priority),
        "policy.json": files("post_script").joinpath("policy.json").read_text(),
        **submit_files(plan),
    }


def _write_unit(folder: Path, unit: WorkUnit, plan: RoundPlan) -> None:
    folder.mkdir()
    (folder / GROUP_DAG).write_text(group_dag(unit, plan.snapshot.limits.status_sec))
    (folder / MANIFEST_FILE).write_text(manifest_of(unit, plan.snapshot).model_dump_json() + "\n")


def _write_programs(folder: Path) -> None:
    """Copies of the scripts and of the sandbox: an upgrade of WMS2 never changes a running DAG."""
    scripts = folder / "post_script"
    scripts.mkdir()
    for name, source in _modules("post_script"):
        (scripts / name).write_bytes(source.read_bytes())
    launcher = folder / "post"
    launcher.write_text(_LAUNCHER.format(python=_host_python()))
    launcher.chmod(0o755)
    archive = folder / "sandbox.pyz"
    archive.write_bytes(sandbox_archive())
    archive.chmod(0o755)


def _host_python() -> str:
    """The host's own interpreter: it starts fastest, and stays when WMS2 is upgraded."""
    return "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable


def sandbox_archive() -> bytes:
    """The sandbox as one executable file, the same bytes each time."""
    content = io.BytesIO()
    content.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", b"import sys\n\nfrom sandbox.__main__ import main\n\nsys.exit(main())\n")
        for name, source in _modules("sandbox"):
            _add(archive, f"sandbox/{name}", source.read_bytes())
    return content.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0)), content)


def _modules(package: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(files(package).iterdir(), key=lambda entry: entry.name):
        if entry.is_file() and not entry.name.endswith(".pyc"):
            yield entry.name, entry
