"""What a round left on storage, read from its folder, and the folders of the jobs that remove it.

Such a folder lies beside those of the work units and looks like one of them, with a cleanup as its only node. So the
round's own `cleanup.sub` serves: the same limits, the same credentials, the same sandbox.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from wms2.core.plain import plain_line
from wms2.core.removals import UnitLeavings, shared_out
from wms2.dagman.include import MEMORY_INCLUDE
from wms2.dagman.outputs import read_merge_output
from wms2.dagman.placing import partial_name
from wms2.dagman.posts import part, read_object
from wms2.dagman.round_folder import MANIFEST_FILE, RoundFile, RoundUnit
from wms2.models.removal import FileList, LeftFile

REMOVALS_FILE = "removals.json"
"""In a work unit's folder: what its cleanup left."""
SWEEP_FILE, LEFT_FILE = "sweep.json", "left.json"
"""In a round's folder: what is to be removed since it was closed, and what could not be, when that is over."""
CLEANUP, CLEANUP_SUBMIT = "cleanup", "cleanup.sub"
NO_WORD = "no word came back from the job that was to remove it"

_REPORT = re.compile(r"[a-z]+(?:_\d+)?\.\d+\.report\.json")
_POST = re.compile(r"[a-z]+(?:_\d+)?\.\d+\.post\.json")
_OUR_REASON = re.compile(r"^\s+(WMS2 .*)$", re.MULTILINE)


def leavings(folder: Path, planned: RoundFile) -> list[UnitLeavings]:
    """What each work unit of a round says of its files on storage. Records that are lost or torn say nothing."""
    return [_unit_leavings(folder, planned, unit) for unit in planned.work_units]


def _unit_leavings(folder: Path, planned: RoundFile, unit: RoundUnit) -> UnitLeavings:
    """The list of its cleanup is enough where it is produced; else all that any attempt has staged out."""
    own = folder / unit.name
    listed = read_object(own / REMOVALS_FILE)
    named = list(_files(listed, "files"))
    removed: set[tuple[str, str]] = set()
    if listed is None or read_merge_output(folder, planned, unit) is None:
        for report in _records(own, _REPORT):
            named += [*_files(report, "outputs"), *_files(report, "left")]
            removed |= {(file.site, file.lfn) for file in _files(report, "removed")}
        for post in _records(own, _POST):
            named += [*_files(part(post, "produced"), "outputs"), *_files(post, "left")]
    return UnitLeavings(named, removed, _own_names(own) if named else ())


def _records(folder: Path, names: re.Pattern[str]) -> Iterator[dict[str, Any]]:
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if names.fullmatch(path.name):
                yield read_object(path) or {}


def _files(record: dict[str, Any] | None, key: str) -> Iterator[LeftFile]:
    """The files in a list of a record, which name their site themselves, or are where the whole record is from."""
    record = record or {}
    listed = record.get(key)
    for entry in listed if isinstance(listed, list) else []:
        file = {"lfn": entry} if isinstance(entry, str) else entry
        if not isinstance(file, dict):
            continue
        reason = plain_line(file.get("reason")) or "of an attempt that was not accepted"
        try:
            yield LeftFile(lfn=file.get("lfn"), site=file.get("site") or record.get("site"), reason=reason)
        except ValidationError:
            continue


def _own_names(unit_folder: Path) -> tuple[str, ...]:
    outputs = (read_object(unit_folder / MANIFEST_FILE) or {}).get("outputs")
    return tuple(
        f"{output[base]}/{output['file_prefix']}_"
        for output in (outputs if isinstance(outputs, list) else [])
        for base in ("unmerged_base", "merged_base")
    )


def read_list(path: Path) -> FileList:
    """A list that WMS2 itself has written."""
    return FileList.model_validate_json(path.read_bytes())


def write_list(path: Path, listed: FileList) -> None:
    with partial_name(path) as partial:
        partial.write_text(listed.model_dump_json(indent=1) + "\n")
        partial.rename(path)


def rounds_to_sweep(submit_root: Path) -> list[Path]:
    """The rounds below a folder that left something on storage and are not done with it."""
    listed = submit_root.glob(f"*/round_*/{SWEEP_FILE}")
    return sorted(path.parent for path in listed if not (path.parent / LEFT_FILE).exists())


class SweepJob(NamedTuple):
    """A job that removes files at one site, and its folder."""

    folder: Path
    files: Sequence[LeftFile]

    @property
    def was_submitted(self) -> bool:
        log = self.folder / f"{CLEANUP}.log"
        return log.exists() and log.stat().st_size > 0

    @property
    def has_reported(self) -> bool:
        return self._report() is not None

    @property
    def ended_at(self) -> float:
        """By this host's clock; when nothing was heard of it since, when it was made ready."""
        return max(path.stat().st_mtime for path in self.folder.iterdir())

    def left(self) -> list[LeftFile]:
        """What it did not remove, each with the newest reason."""
        report = self._report() or {}
        removed = {file.lfn for file in _files(report, "removed")}
        why = {file.lfn: file.reason for file in _files(report, "left")}
        silent = self._reason_in_log() or NO_WORD
        return [
            file.model_copy(update={"reason": why.get(file.lfn, silent)})
            for file in self.files
            if file.lfn not in removed
        ]

    def _report(self) -> dict[str, Any] | None:
        return next(_records(self.folder, _REPORT), None)

    def _reason_in_log(self) -> str:
        """Why HTCondor removed the job, if one of its limits said so."""
        try:
            said = _OUR_REASON.findall((self.folder / f"{CLEANUP}.log").read_text(errors="replace"))
        except OSError:
            return ""
        return plain_line(said[-1]) if said else ""


def sweep_jobs(folder: Path, number: int, files: Iterable[LeftFile]) -> list[SweepJob]:
    """The jobs of a try to remove these files, their folders made where they are missing."""
    jobs = [SweepJob(folder / f"sweep_{number}_{k:03d}", own) for k, own in enumerate(shared_out(files))]
    for job in jobs:
        if not job.folder.exists():
            _write_folder(folder, job)
    return jobs


def _write_folder(round_folder: Path, job: SweepJob) -> None:
    """As `cleanup.sub` and the sandbox want it: a manifest, of whichever unit, the list of files and the includes."""
    with partial_name(job.folder) as partial:
        partial.mkdir()
        shutil.copyfile(_any_manifest(round_folder), partial / MANIFEST_FILE)
        asked = {"version": 1, "files": [], "leftovers": [file.lfn for file in job.files]}
        (partial / "merge_input.json").write_text(json.dumps(asked, indent=1) + "\n")
        (partial / "site.inc").write_text(f"elected_site = {job.files[0].site}\n")
        (partial / MEMORY_INCLUDE).touch()
        partial.rename(job.folder)


def _any_manifest(round_folder: Path) -> Path:
    for manifest in sorted(round_folder.glob(f"mg_*/{MANIFEST_FILE}")):
        return manifest
    raise FileNotFoundError(f"no work unit in {round_folder} has its {MANIFEST_FILE}")
