"""The folder of a round on the submit host: written whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from pydantic_core import to_json

from wms2.dagman.dag_files import (
    GROUP_DAG,
    SUBMIT_FILE,
    WORKFLOW_DAG,
    GroupSettings,
    group_dag,
    group_settings,
    workflow_dag,
)
from wms2.dagman.include import ROUND_INCLUDE
from wms2.dagman.placing import flush_file_system, flush_names, partial_name
from wms2.dagman.policy_file import POLICY_FILE, policy_text
from wms2.dagman.snapshot_file import Frozen, freeze, read_frozen
from wms2.dagman.submit_files import PILEUP_FILE, round_include, submit_files
from wms2.dagman.throttle import DAGMAN_CONFIG, dagman_config
from wms2.errors import UserError
from wms2.models.base import Model
from wms2.models.manifest import Manifests
from wms2.models.parameter_set import pset_files
from wms2.models.plan import RoundPlan, Snapshot, WorkUnit, unit_name

ROUND_FILE, SNAPSHOT_FILE, MANIFEST_FILE = "round.json", "snapshot.jsonl", "manifest.json"

_LAUNCHER = """#!{python} -ES
import sys

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
    priority: int = 0
    nodes: dict[str, int]
    edges: int
    work_units: tuple[RoundUnit, ...]
    problems: tuple[str, ...] = ()

    @cached_property
    def events(self) -> int:
        return sum(unit.events for unit in self.work_units)


def write_round(
    plan: RoundPlan, folder: Path, frozen: Frozen | None = None, psets: Mapping[str, bytes] | None = None
) -> RoundFile:
    """Write all files of a round; `frozen` is the file of the plan's snapshot where there is one already.

    `psets` are the configurations that the request brings along, by the name of their file.

    They appear under the final name only when all are there: a crash leaves nothing that could be submitted.
    Writing the same plan again changes nothing; another plan in the same place is refused.
    """
    with partial_name(folder) as partial:
        partial.mkdir()
        described = describe(plan, _place_snapshot(plan, partial / SNAPSHOT_FILE, frozen))
        if folder.exists():
            _refuse_another_plan(folder, described)
            return described
        _write_psets(plan.snapshot, psets or {}, partial)
        _write_files(plan, described, partial)
        flush_file_system(partial)
        partial.rename(folder)
        flush_names(folder.parent)
    return described


def discard_round(folder: Path) -> None:
    """Remove a round that was written and never handed to DAGMan; one that was is left as it is."""
    if folder.exists() and not (folder / SUBMIT_FILE).exists():
        shutil.rmtree(folder)


def _place_snapshot(plan: RoundPlan, path: Path, frozen: Frozen | None) -> str:
    """The digest of what the round was planned from, which from now on is in its folder."""
    if frozen is None:
        return freeze(plan.snapshot, path).digest
    try:
        os.link(frozen.path, path)
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(frozen.path, path)
    return frozen.digest


def _write_files(plan: RoundPlan, described: RoundFile, folder: Path) -> None:
    for name, text in _shared_files(plan, described).items():
        (folder / name).write_text(text)
    if plan.snapshot.pileups:
        (folder / PILEUP_FILE).write_bytes(pileup_file(plan.snapshot))
    _write_programs(folder)
    manifests, settings = Manifests(plan.snapshot), group_settings(plan)
    for unit in plan.work_units:
        _write_unit(folder / unit.name, unit, manifests, settings)


def _write_psets(snapshot: Snapshot, psets: Mapping[str, bytes], folder: Path) -> None:
    """Each once for all jobs of the round, and the very one that the request names."""
    for file in pset_files(snapshot.request.payload_config):
        content = psets.get(file.name, b"")
        if hashlib.sha256(content).hexdigest() != file.digest:
            raise UserError(f"the configuration {file.name} is missing, or not the one that was imported")
        (folder / file.name).write_bytes(content)


def read_round(folder: Path) -> RoundFile:
    """What was planned in a folder; UserError when it holds no round."""
    try:
        return RoundFile.model_validate_json((folder / ROUND_FILE).read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} holds no planned round ({ROUND_FILE} is missing or unreadable); "
            "plan one with `wms2 request plan FILE --out DIR`"
        ) from error


def read_snapshot(folder: Path) -> Frozen:
    """What the round in a folder was planned from; UserError when that is gone or was changed."""
    described = read_round(folder)
    path = folder / SNAPSHOT_FILE
    frozen = read_frozen(path)
    if frozen is None:
        raise UserError(f"{path} is missing; plan the round again")
    if frozen.digest != described.digest:
        raise UserError(f"{path} is not what the round was planned from; plan the round again")
    return frozen


def describe(plan: RoundPlan, digest: str) -> RoundFile:
    """The round in a few words; the digest is that of the frozen snapshot."""
    units = plan.work_units
    return RoundFile(
        request=plan.snapshot.request.request_name,
        round=plan.snapshot.round,
        digest=digest,
        priority=plan.snapshot.priority,
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
    if not (folder / ROUND_FILE).is_file():
        raise UserError(
            f"{folder} is there already and holds no round; choose a folder that is not there yet"
        )
    if read_round(folder) != described:
        raise UserError(
            f"{folder} holds another plan already; choose another folder, or remove it if it is not running"
        )


def _shared_files(plan: RoundPlan, described: RoundFile) -> dict[str, str]:
    snapshot = plan.snapshot
    return {
        ROUND_FILE: described.model_dump_json(indent=1) + "\n",
        WORKFLOW_DAG: workflow_dag(plan),
        DAGMAN_CONFIG: dagman_config(snapshot),
        ROUND_INCLUDE: round_include(snapshot.sites, snapshot.priority),
        POLICY_FILE: policy_text(snapshot),
        **submit_files(plan),
    }


def pileup_file(snapshot: Snapshot) -> bytes:
    """`pileup.json.gz`, the same bytes each time: the files of all pile-up, for the sandbox of processing jobs."""
    content = to_json({"version": 1, "datasets": snapshot.pileups})
    return gzip.compress(content, compresslevel=6, mtime=0)


def _write_unit(folder: Path, unit: WorkUnit, manifests: Manifests, settings: GroupSettings) -> None:
    folder.mkdir()
    (folder / GROUP_DAG).write_text(group_dag(unit, settings))
    (folder / MANIFEST_FILE).write_bytes(manifests.text(unit))


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
        # The rules of the round are a file of its own: the default ones are not needed beside them.
        if entry.is_file() and entry.name.endswith((".py", ".sh")):
            yield entry.name, entry
